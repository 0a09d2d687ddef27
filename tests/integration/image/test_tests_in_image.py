from __future__ import annotations

import re
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aml_train.config.sections.tests import ContainerLimits
from aml_train.core.docker import BuildCli, pack_files
from aml_train.core.errors import TestsFailedError
from aml_train.core.events import Event, LogLine, Notice, TestsFinished
from aml_train.image.build.build import build_image
from aml_train.image.leftovers import LABEL_OWNER, sweep_leftovers, this_owner
from aml_train.image.spec import ImageSpec, TestSpec
from aml_train.image.testing.container import has_gpus
from aml_train.image.testing.run import run_tests
from tests.integration.conftest import BASE, Recorder, tidy_up

if TYPE_CHECKING:
    from docker import DockerClient

MakeTests = Callable[..., TestSpec]
LARGE = "head -c 60000000 /dev/zero >"
STAND_IN = """
import os, shlex
(path,) = (word.partition("=")[2] for word in shlex.split(os.environ["PYTEST_ADDOPTS"]) if word.startswith("--junitxml="))
with open(path, "wb") as file:
    file.truncate(60_000_000)
"""
"""What pytest writes where tests have printed hundreds of thousands of lines."""

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
def test_lines_arrive_while_the_tests_run(engine: DockerClient, tests: MakeTests, recorder: Recorder) -> None:
    """The tests wait for an answer to their first line: it is heard while they run, or never."""

    def listener(event: Event) -> None:
        recorder(event)
        if isinstance(event, LogLine) and event.text == "one":
            (container,) = engine.containers.list(filters={"label": f"{LABEL_OWNER}={this_owner(engine)}"})
            container.put_archive("/workspace", pack_files({"heard": b""}, folder="answer"))

    command = "echo one; until test -e answer/heard; do sleep 0.05; done; echo two"
    run_tests(BASE, tests(command=command, evidence="exit-code"), engine=engine, listener=listener)
    assert [line.text for line in recorder.of(LogLine)] == ["one", "two"]


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
@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        (
            {"limits": ContainerLimits(memory=1 << 20)},
            r"could not be started: .*[Mm]emory limit",
            "Check cpus, memory",
        ),
        ({"limits": ContainerLimits(cpus=100_000)}, "could not be started: .*CPUs", "Check cpus, memory"),
        ({"limits": ContainerLimits(gpus="all")}, "could not be started: .*", "gpus: none"),
    ],
)
def test_what_the_engine_cannot_give(
    engine: DockerClient, tests: MakeTests, recorder: Recorder, settings: dict[str, Any], message: str, hint: str
) -> None:
    if settings["limits"].gpus == "all" and has_gpus(engine.info()):
        pytest.skip("this engine has GPUs")
    with pytest.raises(TestsFailedError, match=message) as caught:
        run_tests(BASE, tests(command="true", **settings), engine=engine, listener=recorder)
    assert hint in (caught.value.hint or "")


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


@pytest.mark.full
def test_container_is_removed_when_the_listener_fails(engine: DockerClient, tests: MakeTests) -> None:
    def listener(event: Event) -> None:
        if isinstance(event, LogLine):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_tests(BASE, tests(command="echo x; sleep 6000"), engine=engine, listener=listener)
    assert not [
        thread
        for thread in threading.enumerate()
        if isinstance(thread, threading.Timer) and not thread.finished.is_set()
    ]


@pytest.fixture(scope="module")
def with_pytest(engine: DockerClient, cli: BuildCli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image with pytest, a user who is not root, and reports of others where the tests' own belong."""
    folder = tmp_path_factory.mktemp("with-pytest")
    (folder / "old.xml").write_text(REPORT.format(""))
    (folder / "Dockerfile").write_text(
        f"FROM {BASE}\nRUN pip install --no-cache-dir pytest==9.0.1 pytest-xdist==3.8.0"
        " && python -m venv /old && /old/bin/pip install --no-cache-dir pytest==6.2.5 pytest-xdist==2.5.0\n"
        "COPY old.xml /workspace/old.xml\nUSER 65534\n"
    )
    tag = f"aml-train-test-pytest-{secrets.token_hex(4)}:1"
    subprocess.run([cli.path, "build", "--quiet", "--tag", tag, str(folder)], env=dict(cli.environ), check=True)
    yield tag
    engine.images.remove(tag, force=True)


FILES = {
    "test_good.py": "def test_good(): pass\n",
    "test_bad.py": "def test_bad(): assert 0\n",
    "test_skipped.py": "import pytest\n@pytest.mark.skip\ndef test_it(): pass\n",
    "test_exits.py": "import os\ndef test_exits(): os._exit(0)\n",
    "test_crashes.py": "import os\ndef test_crashes(): os.kill(os.getpid(), 11)\n",
    "test_starts.py": "import subprocess\ndef test_starts(): assert subprocess.call(['pytest', 'test_bad.py'])\n",
    "test_unit.py": "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n",
    "test_unit_bad.py": "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.fail()\n",
    "stale.xml": REPORT.format(""),
}
BAD = "1 of 2 tests failed in the image, although the command ended with exit code 0"
UNFINISHED = "a pytest did not come to its end, and left no report, although the command ended with exit code 0"
UNITTEST = "python -m unittest"
EMPTY = {"allow_empty": True}


@pytest.mark.parametrize(
    ("command", "settings", "ended"),
    [
        ("pytest test_good.py", {}, 1),
        ("pytest test_good.py\npytest test_good.py", {}, 2),
        ("/old/bin/pytest test_good.py; /old/bin/pytest -n2 test_good.py", {}, 2),
        ("pytest --version && pytest test_good.py > log", {}, 1),
        ("PYTHONPATH=. pytest test_good.py", {}, 1),
        ("PYTEST_ADDOPTS=-q pytest test_good.py", {}, 1),
        ("pytest -n2 test_good.py test_starts.py", {}, 2),
        ("pytest test_good.py --junitxml=mine.xml", {}, 1),
        ("pytest test_good.py --junitxml=old.xml", {"junit": "old.xml"}, 1),
        ("mkdir out; cp stale.xml out/a.xml; cp stale.xml out/b.xml", {"junit": "out"}, 2),
        (f"{UNITTEST} test_unit", {}, 1),
        ("true", {"evidence": "exit-code"}, None),
        # Each of these ended with exit code 0 and passed.
        (f"{UNITTEST} discover -p 'none*'; true", {"shell": ("/bin/sh",)}, "the command ran no test"),
        (f"{UNITTEST} discover -p 'none*' || true", EMPTY, 0),
        (f"{UNITTEST} test_unit_bad; {UNITTEST} test_unit", {"shell": ("/bin/sh",)}, BAD),
        (f"{UNITTEST} test_unit_bad 2>&1 | tee log; pytest test_good.py", {}, BAD),
        ("pytest test_bad.py; pytest test_good.py", {"shell": ("/bin/sh",)}, BAD),
        ("pytest test_bad.py\npytest test_good.py", {}, r"1 of 1 tests failed in the image\n"),
        ("for one in bad good; do pytest test_$one.py; done", {"shell": ("sh",)}, BAD),
        ("for one in bad good; do /old/bin/pytest test_$one.py --junitxml=r.xml; done", {"shell": ("sh",), "junit": "r.xml"}, BAD),
        ("pytest test_bad.py & pytest test_good.py & wait", {}, BAD),
        ("pytest test_bad.py | tee log; pytest test_good.py", {}, BAD),
        ("pytest -n2 test_bad.py test_good.py || true", {}, BAD),
        ("PYTHONPATH=. pytest test_bad.py || PYTHONPATH=. pytest test_good.py", {}, BAD),
        ("pytest test_crashes.py; pytest test_good.py", {"shell": ("/bin/sh",)}, UNFINISHED),
        ("pytest no_such_file.py || pytest test_good.py", {}, UNFINISHED),
        ("pytest test_exits.py", {}, UNFINISHED),
        ("true", {}, "nothing shows that a test was executed: true"),
        ("pytest test_skipped.py", {}, "no test was executed: the only one was skipped"),
        ("pytest test_skipped.py", EMPTY, 0),
        ("pytest -k none", {}, r"the command ran no test \(exit code 5\)"),
        ("pytest -k none", EMPTY, 0),
        # Reports that the project and the image bring are none of these tests.
        ("python -m this", {"junit": "stale.xml"}, "wrote no report at stale.xml"),
        ("python -m this", {"junit": "old.xml"}, "wrote no report at old.xml"),
    ],
)  # fmt: skip
def test_what_counts_as_passed(
    engine: DockerClient,
    tests: MakeTests,
    project: Path,
    recorder: Recorder,
    with_pytest: str,
    command: str,
    settings: dict[str, Any],
    ended: int | str | None,
) -> None:
    for name, content in FILES.items():
        (project / name).write_text(content)
    spec = tests(command=command, **settings)
    if not isinstance(ended, str):
        assert run_tests(with_pytest, spec, engine=engine, listener=recorder).passed == ended
        return
    with pytest.raises(TestsFailedError, match=ended):
        run_tests(with_pytest, spec, engine=engine, listener=recorder)


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"command": f"{LARGE} r.xml; exit 1", "junit": "r.xml"}, r"the tests failed \(exit code 1\)"),
        (
            {"command": f"{LARGE} r.xml", "junit": "r.xml"},
            "report /workspace/r.xml in the container is larger than 50 MiB",
        ),
        ({"command": "python3 -m pytest -q; true", "env": {"PYTHONPATH": "stand_in"}}, "is larger than 50 MiB"),
    ],
)
def test_a_report_that_is_too_large_ends_the_tests_at_once(
    engine: DockerClient,
    tests: MakeTests,
    project: Path,
    recorder: Recorder,
    settings: dict[str, Any],
    message: str,
) -> None:
    """The engine locks a container while a file of it is being sent: what is asked of it next would wait for that."""
    (project / "stand_in").mkdir()
    (project / "stand_in" / "pytest.py").write_text(STAND_IN)
    began = time.monotonic()
    with pytest.raises(TestsFailedError, match=message):
        run_tests(BASE, tests(**settings), engine=engine, listener=recorder)
    assert time.monotonic() - began < 120
