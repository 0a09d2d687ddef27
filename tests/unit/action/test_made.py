"""The report that a run writes: from its record, to its file."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from aml_train.core.comparison import Comparison, Side
from aml_train.core.errors import InvalidError
from aml_train.core.events import (
    AttemptEnded,
    BaselineCompared,
    CostCounted,
    GraphNode,
    GraphPlanned,
    ImageReady,
    JobSubmitted,
    LogsEnded,
    LogTail,
    MetricsSettled,
    ModelRegistered,
    NodeChanged,
    Notice,
    RuleVerdict,
    RunFinished,
    StageFinished,
    TestFailure,
    TestsFinished,
)
from aml_train.core.tables import Table
from aml_train.report import values as report
from aml_train.report.record import RunRecord
from aml_train_action.report.files import write_report
from aml_train_action.reporting import configuration_name


def whole() -> RunRecord:
    record = RunRecord()
    comparison = Comparison(
        left=Side(title="this job", job="j", seconds=61.0, metrics={"acc": 0.9, "loss": 0.5}, data={"train": "d:2"}, parameters={"lr": "0.1"}, digest="sha256:1"),
        right=Side(title="main", job="k", metrics={"acc": 0.8, "loss": 0.5}, data={"train": "d:1"}, digest="sha256:2"),
    )  # fmt: skip
    for event in (
        StageFinished(stage="image", summary="built", seconds=2.0),
        ImageReady(reference="r@sha256:1", digest="sha256:1", address="a", how="built", compressed_bytes=7),
        TestsFinished(passed=3, failed=1, skipped=0, seconds=1.5, cached=False, failures=(TestFailure(name="t", file="tests/t.py", line=4, message="no", output="secret output"),)),
        JobSubmitted(job="j", attached=True, studio_url="https://ml.azure.com/runs/j"),
        GraphPlanned(job="j", nodes=(GraphNode(name="a"), GraphNode(name="b", needs=("a",)))),
        NodeChanged(job="j", node="a", run="ra", status="Completed", reused=True),
        AttemptEnded(job="j", attempt=1, status="Completed", ending="completed"),
        CostCounted(node_hours=0.02, gpu_hours=None, cost=None, currency="EUR", text="0.02 node hours"),
        MetricsSettled(job="j", metrics={"acc": 0.9, "loss": math.nan}, histories={"acc": [(1, 0.5), (2, 0.9)]}, tables=(Table(name="t", kind="text", rows=(("x",),)),), more_tables=2),
        BaselineCompared(comparison=comparison, histories={"acc": [(1, 0.4), (2, 0.8)]}),
        RuleVerdict(metric="loss", rule="< 1", value=math.inf, limit=1.0, verdict="met", reason="", where="aml-train.yml:8"),
        RuleVerdict(metric="acc", rule=">= 0.95", value=0.9, limit=0.95, verdict="missed", reason="0.9", where="aml-train.yml:9"),
        ModelRegistered(model="digits", version="3", found=False),
        LogsEnded(job="j", tails=(LogTail(origin="user_logs/std_log.txt", rank="", lines=("a",) * 99, size=9),)),
        Notice(text="a remark"),
        RunFinished(status="gate-failed", exit_code=6, message="missed", facts={"experiment": "e"}),
    ):  # fmt: skip
        record(event)
    return record


def test_a_report_has_what_the_record_has() -> None:
    made = whole().report
    assert (made.status, made.exit_code, made.gate) == ("gate-failed", 6, "failed")
    second, first = made.rules
    assert (first.metric, first.verdict, first.value, first.where) == (
        "acc", "missed", 0.9, "aml-train.yml:9",
    )  # fmt: skip
    assert second.value == math.inf
    assert math.isnan(made.metrics["loss"])
    (curve,) = made.curves
    assert [(one.title, one.points) for one in curve.series] == [
        ("this job", ((1, 0.5), (2, 0.9))),
        ("baseline", ((1, 0.4), (2, 0.8))),
    ]
    assert curve.limits == (0.95,)
    assert made.baseline is not None
    assert [row.name for row in made.baseline.rows if row.kind == "metric" and not row.same] == ["acc"]
    assert made.tests[0].failures[0].file == "tests/t.py"
    assert made.job == report.Job(name="j", status="Completed", experiment="e", url="https://ml.azure.com/runs/j", attached=True, seconds=61.0)  # fmt: skip
    assert [(node.name, node.status, node.needs) for node in made.nodes] == [
        ("a", "Completed", ()),
        ("b", "", ("a",)),
    ]
    assert made.model == report.Model(name="digits", version="3")
    assert made.data == {"train": "d:2"}
    assert made.cost is not None
    assert made.cost.gpu_hours is None
    assert made.logs[0].lines[:1] == ("a",)
    assert made.left_out == ("2 logged tables",)
    written = report.encode(made)
    assert repr(report.decode(written, origin="x")) == repr(made)


def test_an_early_end_has_a_report() -> None:
    record = RunRecord()
    record.end("invalid", 2, "job.yml: no such file", "write one")
    made = record.report
    assert (made.status, made.message, made.hint, made.job, made.rules) == (
        "invalid",
        "job.yml: no such file",
        "write one",
        None,
        (),
    )


# The file


def test_the_file_is_written_below_a_folder_that_git_ignores(tmp_path: Path) -> None:
    write_report({"GITHUB_ACTION": "../train"}, tmp_path, b"{}")
    path = write_report({"GITHUB_ACTION": "../train"}, tmp_path, b'{"a": 1}')
    assert path == "aml-train-report/___train/pr-report.json"
    assert (tmp_path / path).read_bytes() == b'{"a": 1}'
    assert (tmp_path / "aml-train-report/.gitignore").read_text() == "*\n"
    assert sorted(one.name for one in (tmp_path / path).parent.iterdir()) == ["pr-report.json"]


def test_a_link_of_the_commit_is_not_followed(tmp_path: Path) -> None:
    workspace, elsewhere = tmp_path / "workspace", tmp_path / "elsewhere"
    workspace.mkdir()
    elsewhere.mkdir()
    (workspace / "aml-train-report").symlink_to(elsewhere)
    with pytest.raises(InvalidError, match="cannot be written"):
        write_report({}, workspace, b"{}")
    assert not [*elsewhere.iterdir()]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({}, ("aml-train.yml", "")),
        ({"config": "aml-train.pr.yml", "target": "azure"}, ("aml-train.pr.yml", "azure")),
        ({"working-directory": "examples/digits"}, ("examples/digits/aml-train.yml", "")),
        ({"working-directory": "./a/../b", "config": "x.yml", "job": "job2.yml"}, ("b/x.yml, job2.yml", "")),
        ({"working-directory": "bare"}, ("bare/job.yml", "")),
        ({"working-directory": "a\x00b"}, ("a\x00b/aml-train.yml", "")),
    ],
)
def test_a_configuration_has_one_name_whatever_else_is_wrong(
    tmp_path: Path, inputs: dict[str, str], expected: tuple[str, str]
) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/job.yml").write_text("")
    environ = {f"INPUT_{name.upper()}": value for name, value in inputs.items()}
    assert configuration_name(environ, tmp_path) == expected
