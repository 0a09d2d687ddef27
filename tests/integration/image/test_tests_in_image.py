from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aml_train.errors import TestsFailedError
from aml_train.events import Event, LogLine, TestsFinished
from aml_train.image.spec import TestSpec
from aml_train.leases import LABEL_OWNER, this_owner
from aml_train.tests_in_image import run_tests
from tests.integration.conftest import BASE, Recorder

if TYPE_CHECKING:
    from docker import DockerClient

MakeTests = Callable[..., TestSpec]
REPORT = '<testsuite tests="1"><testcase classname="a" name="b">{}</testcase></testsuite>'


@pytest.fixture(autouse=True)
def _nothing_left(engine: DockerClient) -> Iterator[None]:
    yield
    assert engine.containers.list(all=True, filters={"label": f"{LABEL_OWNER}={this_owner(engine)}"}) == []


def test_files_environment_and_output(
    engine: DockerClient, tests: MakeTests, project: Path, recorder: Recorder
) -> None:
    (project / "run.sh").write_text("#!/bin/sh\nprintf 'a=%s' \"$A\"; printf 'wörld\\n' >&2; touch here; pwd\n")
    (project / "run.sh").chmod(0o755)
    (project / ".env").write_text("SECRET=1")
    results = run_tests(
        BASE,
        tests(command="./run.sh && test ! -e .env && printf last", env={"A": "1 $x"}),
        engine=engine,
        listener=recorder,
    )

    texts = {(line.origin, line.text) for line in recorder.of(LogLine)}
    assert texts == {("stdout", "a=1 $x/workspace"), ("stderr", "wörld"), ("stdout", "last")}
    assert (results.report, results.passed, results.failures) == (False, None, ())
    assert [e.passed for e in recorder.of(TestsFinished)] == [None]


def test_lines_arrive_while_the_tests_run(engine: DockerClient, tests: MakeTests) -> None:
    seen: list[float] = []

    def listener(event: Event) -> None:
        if isinstance(event, LogLine):
            seen.append(time.monotonic())

    run_tests(BASE, tests(command="echo one; sleep 1; echo two"), engine=engine, listener=listener)
    assert seen[1] - seen[0] > 0.7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"command": "exit 3"}, r"the tests failed \(exit code 3\): exit 3"),
        ({"command": "no-such-command"}, r"the command was not found in the image \(exit code 127\)"),
        ({"command": "exit 5"}, r"were not found: the command ran no test \(exit code 5\)"),
        ({"command": "sleep 60", "timeout": 0.5}, r"took longer than 0\.5 seconds and were killed"),
        ({"command": "true", "junit": "out/report.xml"}, r"wrote no report at out/report\.xml"),
        ({"command": "echo no > r.xml", "junit": "r.xml"}, r"the tests' report /workspace/r\.xml cannot be read"),
        ({"command": "mkdir r.xml", "junit": "r.xml"}, r"/workspace/r\.xml in the container is not a file"),
        (
            {
                "command": "printf '%s' \"$REPORT\" > r.xml",
                "junit": "r.xml",
                "env": {"REPORT": REPORT.format("<failure message='wrong'/>")},
            },
            r"1 of 1 tests failed in the image, although the command ended with exit code 0\n  b: wrong",
        ),
        (
            {
                "command": "printf '%s' \"$REPORT\" > r.xml; exit 1",
                "junit": "r.xml",
                "env": {"REPORT": REPORT.format("")},
            },
            r"the tests failed \(exit code 1\)",
        ),
    ],
)
def test_bad_ends(
    engine: DockerClient, tests: MakeTests, recorder: Recorder, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(TestsFailedError, match=message):
        run_tests(BASE, tests(**settings), engine=engine, listener=recorder)
    assert len(recorder.of(TestsFinished)) == (0 if "not a file" in message else 1)


@pytest.mark.parametrize("network", [False, True])
def test_network_only_where_asked_for(
    engine: DockerClient, tests: MakeTests, recorder: Recorder, network: bool
) -> None:
    run_tests(BASE, tests(command="ls /sys/class/net", network=network), engine=engine, listener=recorder)
    interfaces = {line.text for line in recorder.of(LogLine)}
    assert any(re.match("eth", name) for name in interfaces) is network


def test_container_is_removed_when_the_listener_fails(engine: DockerClient, tests: MakeTests) -> None:
    def listener(event: Event) -> None:
        if isinstance(event, LogLine):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tests(BASE, tests(command="echo x; sleep 60"), engine=engine, listener=listener)
    assert not [
        thread
        for thread in threading.enumerate()
        if isinstance(thread, threading.Timer) and not thread.finished.is_set()
    ]
