from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest

from aml_train.core.checks import Finding
from aml_train.core.errors import Fault, InvalidError, ServiceError
from aml_train.core.events import (
    Event,
    ImageChecked,
    LogsEnded,
    RuleVerdict,
    RunFinished,
    TestFailure,
    TestsFinished,
    Traceback,
)
from aml_train.core.masking import Masker
from aml_train.jobs.logs.tracebacks import TracebackFinder, innermost
from aml_train_action.github.annotations import Annotations, Places
from aml_train_action.github.log import Channel
from tests.unit.action.runner_model import Done, Runner, unescape

TRACEBACK = """\
before
Traceback (most recent call last):
  File "/mnt/azureml/cr/j/1/exe/wd/train.py", line 12, in <module>
    main()
    ^^^^^^
  File "/mnt/azureml/cr/j/1/exe/wd/digits/data.py", line 7, in load
    np.load(x)
  File "/opt/venv/lib/python3.11/site-packages/numpy/lib/io.py", line 3, in load
    raise
ValueError: no data: 100%
after
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("p/aml-train.yml", "p/tests/test_a.py", "p/src/train.py", "p/src/digits/data.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path


def places(workspace: Path) -> Places:
    project = workspace / "p"
    return Places(workspace=workspace, directory=project, project=project, code=project / "src")


def annotated(
    workspace: Path, *events: Event | InvalidError | ServiceError, secrets: tuple[str, ...] = ()
) -> list[Done]:
    stream = io.StringIO()
    masker = Masker(secrets)
    annotations = Annotations(Channel(stream, masker), masker, places(workspace))
    for event in events:
        annotations(event) if isinstance(event, Event) else annotations.error(event)
    return Runner().read(stream.getvalue()).done


def finished(status: str = "job-failed", exit_code: int = 5) -> RunFinished:
    return RunFinished(status=status, exit_code=exit_code, message="The job failed.", hint="Look.")


def logs_ended(rank: str = "") -> LogsEnded:
    finder = TracebackFinder()
    finder.feed("user_logs/std_log.txt", TRACEBACK, rank=rank)
    return LogsEnded(job="j", tails=(), tracebacks=finder.found())


def test_faults_stand_at_their_lines(workspace: Path) -> None:
    error = InvalidError(
        [
            Fault(where="aml-train.yml:3", what="bad"),
            Fault(where="--set a", what="bad"),
            Fault(where="../../etc/passwd:1", what="bad"),
        ]
    )
    done = annotated(workspace, error)
    assert [found.properties for found in done] == [
        "file=p/aml-train.yml,line=3,title=Configuration",
        "title=Configuration",
        "title=Configuration",
        "title=aml-train%3A invalid",
    ]
    assert done[0].data == "aml-train.yml:3: bad"
    assert done[-1].data == "3 faults; nothing was done."


def test_failed_tests_and_missed_rules_stand_at_their_lines(workspace: Path) -> None:
    tests = TestsFinished(
        passed=1, failed=2, skipped=0, seconds=1, cached=False,
        failures=(
            TestFailure(name="test_x", file="tests/test_a.py", line=4, message="assert 1 == 2"),
            TestFailure(name="test_y", file="/usr/lib/elsewhere.py", line=4, message=""),
        ),
    )  # fmt: skip
    rule = RuleVerdict(
        metric="acc",
        rule="> 1",
        value=0.5,
        limit=1,
        verdict="missed",
        reason="acc = 0.5: missed",
        where="aml-train.yml:9",
    )
    met = RuleVerdict(
        metric="acc", rule="> 0", value=0.5, limit=0, verdict="met", reason="fine", where="aml-train.yml:8"
    )
    warned = dataclasses.replace(rule, verdict="warned", where="aml-train.yml:10")
    skipped = dataclasses.replace(rule, verdict="skipped")
    done = annotated(workspace, tests, rule, met, warned, skipped, finished("gate-failed", 6))
    assert [(found.properties, unescape(found.data)) for found in done] == [
        ("file=p/tests/test_a.py,line=4,title=Test failed%3A test_x", "assert 1 == 2"),
        ("title=Test failed%3A test_y", "failed"),
        ("file=p/aml-train.yml,line=9,title=Gate%3A acc > 1", "acc = 0.5: missed"),
        ("file=p/aml-train.yml,line=10,title=Gate%3A acc > 1", "acc = 0.5: missed"),
        ("title=aml-train%3A gate-failed", "The job failed.\nLook."),
    ]


def test_the_verdict_is_among_the_ten_that_github_shows(workspace: Path) -> None:
    failures = tuple(TestFailure(name=f"t{i}", file=None, line=None, message="m") for i in range(50))
    tests = TestsFinished(passed=0, failed=50, skipped=0, seconds=1, cached=False, failures=failures)
    done = annotated(workspace, tests, finished("tests-failed", 4))
    assert len(done) == 10
    assert done[-1].properties == "title=aml-train%3A tests-failed"


def test_the_jobs_exception_stands_at_the_innermost_line_of_the_repository(workspace: Path) -> None:
    done = annotated(workspace, logs_ended(), finished())
    assert done[0] == Done(
        "error", "file=p/src/digits/data.py,line=7,title=The job's exception", "ValueError: no data: 100%25"
    )
    assert len(done) == 2


def test_secrets_are_masked_and_long_messages_cut(workspace: Path) -> None:
    done = annotated(workspace, ServiceError("token=verysecret " + "x" * 10_000), secrets=("verysecret",))
    assert "verysecret" not in done[0].data
    assert done[0].data.endswith("%0A… (the log has all of it)")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("train.py", "train.py"),
        ("./digits/data.py", "digits/data.py"),
        ("/somewhere/wd/digits/data.py", "digits/data.py"),
        ("/somewhere/unknown.py", None),
        ("<string>", None),
        ("../train.py", None),
        ("/usr/lib/python3/dist-packages/train.py", None),
    ],
)
def test_where_a_frame_leads(file: str, expected: str | None) -> None:
    code = Path("/code")
    there = {code / "train.py", code / "digits/data.py"}
    found = innermost(Traceback(frames=((file, 5),), message=""), code, is_file=there.__contains__)
    assert found == ((code / expected, 5) if expected else None)


FINDINGS = (
    Finding(check="mlx5", level="error", what="does not load", why="sockets", remedy="install anew"),
    Finding(check="shell", level="error", what="no bash", ignored=True),
    Finding(check="size", level="warning", what="large"),
    Finding(check="python", level="info", what="3.11"),
)


@pytest.mark.parametrize("cached", [False, True])
def test_what_is_wrong_with_the_image_stands_at_its_line(workspace: Path, cached: bool) -> None:
    """A warning is shown by the run that looked; an error ends each run."""
    done = annotated(workspace, ImageChecked(findings=FINDINGS, cached=cached, where="aml-train.yml:1"))

    shown = [(one.name, one.properties.split(",title=")[0], unescape(one.data)) for one in done]
    assert shown[0] == ("error", "file=p/aml-train.yml,line=1", "mlx5: does not load: sockets; install anew")
    assert shown[1:] == ([] if cached else [("warning", "file=p/aml-train.yml,line=1", "size: large")])
