from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aml_train.config.sections.tests import ContainerLimits
from aml_train.core.docker import BuildCli
from aml_train.core.errors import TestsFailedError
from aml_train.core.events import LogLine, Notice, TestsFinished
from aml_train.image.build.build import build_image
from aml_train.image.leftovers import LABEL_OWNER, sweep_leftovers, this_owner
from aml_train.image.spec import ImageSpec, TestSpec
from aml_train.image.testing.run import run_tests
from tests.integration.conftest import BASE, Recorder, tidy_up

if TYPE_CHECKING:
    from docker import DockerClient

MakeTests = Callable[..., TestSpec]

REPORT = '<testsuite tests="1"><testcase classname="a" name="b">{}</testcase></testsuite>'


@pytest.fixture(autouse=True)
def _nothing_left(engine: DockerClient) -> Iterator[None]:
    yield
    tidy_up()
    assert engine.containers.list(all=True, filters={"label": f"{LABEL_OWNER}={this_owner(engine)}"}) == []


def test_files_environment_and_output(
    engine: DockerClient, tests: MakeTests, project: Path, recorder: Recorder
) -> None:
    (project / "run.sh").write_text("#!/bin/sh\nprintf 'a=%s' \"$A\"; printf 'wörld\\n' >&2; touch here; pwd\n")
    (project / "run.sh").chmod(0o755)
    (project / ".env").write_text("SECRET=1")
    results = run_tests(
        BASE,
        tests(command="./run.sh && test ! -e .env && printf last", env={"A": "1 $x"}, evidence="exit-code"),
        engine=engine,
        listener=recorder,
    )

    texts = {(line.origin, line.text) for line in recorder.of(LogLine)}
    assert texts == {("stdout", "a=1 $x/workspace"), ("stderr", "wörld"), ("stdout", "last")}
    assert (results.passed, results.failures) == (None, ())
    assert [e.passed for e in recorder.of(TestsFinished)] == [None]


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"command": "exit 3"}, r"the tests failed \(exit code 3\): exit 3"),
        ({"command": "no-such-command"}, r"the command was not found in the image \(exit code 127\)"),
        ({"command": "exit 5"}, r"were not found: the command ran no test \(exit code 5\)"),
        ({"command": "sleep 6000", "timeout": 0.5}, r"took longer than 0\.5 seconds and were killed"),
        ({"command": "true", "junit": "out/report.xml"}, r"wrote no report at out/report\.xml"),
        ({"command": "echo no > r.xml", "junit": "r.xml"}, r"the tests' report r\.xml cannot be read"),
        ({"command": "mkdir r.xml", "junit": "r.xml"}, r"wrote no report at r\.xml"),
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
    assert len(recorder.of(TestsFinished)) == 1


@pytest.mark.parametrize("network", [False, True])
def test_network_only_where_asked_for(
    engine: DockerClient, tests: MakeTests, recorder: Recorder, network: bool
) -> None:
    run_tests(
        BASE,
        tests(command="ls /sys/class/net", network=network, evidence="exit-code"),
        engine=engine,
        listener=recorder,
    )
    interfaces = {line.text for line in recorder.of(LogLine)}
    assert any(re.match("eth", name) for name in interfaces) is network


def test_limits_hold(engine: DockerClient, tests: MakeTests, recorder: Recorder) -> None:
    limits = ContainerLimits(cpus=0.5, memory=256 << 20, shm=64 << 20, memlock=1 << 20)
    command = "df -k /dev/shm | tail -1 | awk '{print \"shm\", $2}'; echo memlock $(ulimit -l); nproc"
    run_tests(BASE, tests(command=command, limits=limits, evidence="exit-code"), engine=engine, listener=recorder)
    lines = [line.text for line in recorder.of(LogLine)]
    assert f"shm {64 << 10}" in lines
    assert "memlock 1024" in lines

    hungry = tests(command="exec python3 -c \"x = b'x' * (600 << 20)\"", limits=limits)
    for _ in range(8):
        with pytest.raises(TestsFailedError, match="the tests were killed") as caught:
            run_tests(BASE, hungry, engine=engine, listener=recorder)
        # The kernel tells the engine of the end and of its reason apart: where the end comes first, the reason is lost.
        if "SIGKILL" not in (caught.value.hint or ""):
            break
    assert caught.value.message == "the tests were killed for lack of memory"
    assert caught.value.hint == "Raise tests.memory."


@pytest.mark.full
def test_a_folder_of_its_own_with_output_and_places(
    spec: ImageSpec, cli: BuildCli, engine: DockerClient, tests: MakeTests, project: Path, recorder: Recorder
) -> None:
    """What the report names from the folder that the tests ran in becomes the project's file."""
    folder = project / "sub"
    (folder / "tests").mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "tests" / "test_sub.py").write_text(
        "import sys, time\n\ndef test_sub():\n    print('printed'); print('told', file=sys.stderr)\n    assert 1 == 2\n\n"
        "def test_slow():\n    time.sleep(0.6); print('silent')\n"
    )
    image = build_image(spec, cli=cli, engine=engine, tag=f"{spec.repository}:test", listener=recorder)
    try:
        with pytest.raises(
            TestsFailedError, match=r"1 of 2 tests failed in the image\n  sub/tests/test_sub\.py:5: test_sub"
        ):
            run_tests(image, tests(workdir="sub"), engine=engine, listener=recorder)
    finally:
        engine.images.remove(f"{spec.repository}:test", force=True)
    (finished,) = recorder.of(TestsFinished)
    (failure,) = finished.failures
    assert (failure.file, failure.line) == ("sub/tests/test_sub.py", 5)
    assert "assert 1 == 2" in failure.output
    assert "printed" in failure.output
    assert "told" in failure.output
    assert "silent" not in failure.output
    assert [seconds for _, seconds in finished.slowest] == sorted(
        (seconds for _, seconds in finished.slowest), reverse=True
    )
    (slow,) = [seconds for name, seconds in finished.slowest if name.endswith("test_slow")]
    assert slow >= 0.6


@pytest.mark.full
def test_a_kept_container_can_be_entered(engine: DockerClient, tests: MakeTests, recorder: Recorder) -> None:
    with pytest.raises(TestsFailedError, match="exit code 3"):
        run_tests(BASE, tests(command="echo left > /tmp/behind; exit 3", keep=True), engine=engine, listener=recorder)
    enter, remove = (notice.text.partition(": ")[2] for notice in recorder.of(Notice))
    try:
        assert "docker commit aml-train-kept-" in enter
        shell = enter.replace("docker run --rm -it", "docker run --rm") + " -c 'pwd; ls; cat /tmp/behind'"
        done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[1:] == ["/workspace", "tests", "left"]
        sweep_leftovers(engine, recorder)
        assert engine.containers.get(enter.split()[2]).status == "exited"
    finally:
        subprocess.run(["/bin/sh", "-c", remove], capture_output=True, check=True)
    assert engine.containers.list(all=True, filters={"name": enter.split()[2]}) == []
