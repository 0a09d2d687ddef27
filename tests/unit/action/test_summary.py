from __future__ import annotations

import html
import json
import math

import pytest

from aml_train.core.events import (
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
    StageStarted,
    TestFailure,
    TestsFinished,
    Traceback,
)
from aml_train.report.record import RunRecord, begun_report
from aml_train_action.report.outputs import OUTPUTS, outputs_of
from aml_train_action.report.summary import LIMIT, render_summary


def rule(metric: str = "acc", *, met: bool = True, value: float | None = 0.97) -> RuleVerdict:
    return RuleVerdict(
        metric=metric,
        rule=">= 0.95",
        value=value,
        limit=0.95,
        verdict="met" if met else "missed",
        reason="0.97, wanted 0.95",
        where="a:1",
    )


def whole() -> RunRecord:
    record = RunRecord(report=begun_report("digits", reproduce="aml-train run --set 'a=<b>'"))
    for event in (
        StageStarted(stage="image", title="build"),
        StageFinished(stage="image", summary="built sha256:12", seconds=75),
        ImageReady(
            reference="r/x@sha256:1", digest="sha256:1", address="a", how="built", compressed_bytes=52_000_000
        ),
        TestsFinished(passed=7, failed=0, skipped=1, seconds=2, cached=True),
        JobSubmitted(job="digits-1", attached=False, studio_url="https://ml.azure.com/runs/digits-1?wsid=/x&tid=1"),
        MetricsSettled(
            job="digits-1", metrics={"acc": 0.97, "loss": math.nan}, histories={"acc": [(0, 0.5), (10, 0.97)]}
        ),
        rule(),
        ModelRegistered(model="digits", version="3", found=False),
        StageStarted(stage="register", title="Register"),
        Notice(text="look @here"),
        RunFinished(status="passed", exit_code=0, message="It passed.", facts={"experiment": "exp"}),
    ):
        record(event)
    return record


def rendered(record: RunRecord, **more: object) -> str:
    return render_summary(record.report, record, **more)  # type: ignore[arg-type]


def test_the_summary_tells_everything() -> None:
    text = rendered(whole())
    plain = html.unescape(text)
    for part in (
        "## ✅ digits: passed", "It passed.", "<code>r/x@sha256:1</code>", "built, 52.0 MB compressed",
        "7 passed, 0 failed, 1 skipped | recorded earlier in this very image", "<code>digits-1</code>",
        'href="https://ml.azure.com/runs/digits-1?wsid=/x&tid=1"', "| ✅ met | <code>acc</code> | <code>>= 0.95</code> | 0.97 | 0.95 |",
        "<code>digits version 3</code>", "| image | 1 min 15 s | <code>built sha256:12</code> |",
        "xychart-beta", "line [0.95, 0.95", "| <code>loss</code> | NaN |", "aml-train run --set 'a=<b>'", "look @here",
    ):  # fmt: skip
        assert part in plain, part
    assert "@here" not in text


def test_a_pipeline_is_drawn_with_the_results_of_its_nodes() -> None:
    record = RunRecord(report=begun_report("digits", reproduce="aml-train run --set 'a=<b>'"))
    planned = (
        GraphNode(name="prep"),
        GraphNode(name="sub/fit", needs=("prep",)),
        GraphNode(name="score", needs=("sub",), environment="given: azureml:score:3"),
        GraphNode(name="last", needs=("score",)),
    )
    for event in (
        GraphPlanned(job="j", nodes=planned),
        NodeChanged(job="j", node="prep", run="1", status="Running"),
        NodeChanged(job="j", node="prep", run="1", status="Completed", reused=True),
        NodeChanged(job="j", node="sub/fit", run="2", status="Running"),
        NodeChanged(job="j", node="score", run="3", status="Failed"),
    ):
        record(event)
    text = rendered(record)
    drawn = text.partition("```mermaid")[2].partition("```")[0]
    assert drawn.splitlines()[1:9] == [
        "flowchart LR",
        '  n0["prep"]:::Completed',
        '  n1["sub/fit"]:::Running',
        '  n2(["score"]):::Failed',
        '  n3["last"]:::notrun',
        "  n0 --> n1",
        "  n1 --> n2",
        "  n2 --> n3",
    ]
    rows = [html.unescape(line) for line in text.splitlines() if line.startswith("| <code>")]
    assert rows == [
        "| <code>prep</code> | <code>Completed, reused</code> |  | the tested image |  |  |",
        "| <code>sub/fit</code> | <code>Running</code> | <code>prep</code> | the tested image |  |  |",
        "| <code>score</code> | <code>Failed</code> | <code>sub</code> | <code>given: azureml:score:3</code> |  |  |",
        "| <code>last</code> | <code>not run</code> | <code>score</code> | the tested image |  |  |",
    ]


def test_failures_come_with_what_failed() -> None:
    record = RunRecord(report=begun_report("digits", reproduce="aml-train run --set 'a=<b>'"))
    record(TestsFinished(passed=1, failed=1, skipped=0, seconds=1, cached=False, failures=(TestFailure(name="t|x", file="a.py", line=3, message="<img>"),)))  # fmt: skip
    record(RunFinished(status="tests-failed", exit_code=4, message="1 of 2\n  a.py:3", hint="Mend it."))
    text = rendered(record)
    assert "❌" in text
    assert "&lt;img" not in text.replace("&#60;", "")
    assert "| <code>t&#124;x</code> | <code>a&#46;py&#58;3</code> | <code>&#60;img&#62;</code> |" in text
    assert "<pre>1 of 2&#10;  a.py:3</pre>" in text


@pytest.mark.parametrize("limit", [LIMIT, 40_000])
def test_the_summary_stays_below_the_limit_and_says_what_is_missing(limit: int) -> None:
    record = whole()
    record(
        MetricsSettled(
            job="j",
            metrics={f"m{WIDE}{i}": 1.0 for i in range(5000)},
            histories={"acc": [(0, 1), (9, 2)]},
        )
    )
    failures = tuple(TestFailure(name="<" * 5000, file="f" * 900, line=1, message="&" * 3000) for _ in range(800))
    record(TestsFinished(passed=0, failed=800, skipped=0, seconds=1, cached=False, failures=failures))
    for i in range(800):
        record(rule(f"metric-{i}" + "|" * 400, met=i % 2 == 0))
        record(Notice(text="*" * 5000))
    record(RunFinished(status="tests-failed", exit_code=4, message="\n".join(["&" * 9000] * 100), hint="h" * 9000))
    text = rendered(record, text="<" * 2_000_000, limit=limit)
    assert len(text.encode()) < limit
    assert text.startswith("## ❌ digits: tests&#45;failed (exit code 4)")
    assert "more." in text or "Left out" in text


WIDE = "\U0001f600" * 150


def test_outputs_of_a_whole_run() -> None:
    outputs = outputs_of(whole())
    assert tuple(outputs) == OUTPUTS
    assert outputs == {
        "status": "passed", "job-name": "digits-1",
        "run-url": "https://ml.azure.com/runs/digits-1?wsid=/x&tid=1", "experiment-name": "exp", "image": "r/x@sha256:1",
        "digest": "sha256:1", "run-metrics": '{"acc": 0.97, "loss": "NaN"}',
        "gate": "passed",
        "baseline": "",
        "gate-report": json.dumps(
            {
                "gate": "passed",
                "rules": [{"metric": "acc", "rule": ">= 0.95", "verdict": "met", "value": 0.97, "limit": 0.95, "reason": "0.97, wanted 0.95", "where": "a:1"}],
                "left_out": 0,
            }
        ),
        "model-name": "digits", "model-version": "3", "model-id": "digits:3",
        "stage": "", "promoted-version": "", "previous-version": "",
        "attempts": "", "node-hours": "", "gpu-hours": "", "cost": "",
            "report-file": "",
    }  # fmt: skip


def test_the_report_of_the_gate_holds_missed_rules_first_and_says_what_has_no_room() -> None:
    record = RunRecord(report=begun_report("digits", reproduce="aml-train run --set 'a=<b>'"))
    for number in range(3000):
        record(rule(f"m{number}", met=number != 2999))
    report = json.loads(outputs_of(record)["gate-report"])
    assert (report["gate"], report["rules"][0]["metric"], report["rules"][0]["verdict"]) == (
        "failed",
        "m2999",
        "missed",
    )
    assert 100 < len(report["rules"]) == 3000 - report["left_out"]


def ended_logs(count: int, *, width: int = 10) -> LogsEnded:
    tails = tuple(
        LogTail(
            origin=f"user_logs/std_log_process_{n}.txt",
            rank=f"{n}",
            lines=(f"line {n} <b>", "x" * width),
            size=2_000_000,
        )
        for n in range(count)
    )
    found = tuple(
        Traceback(
            frames=(("a.py", 1),), message=f"E: {n} <i>", text=f"Traceback {n}", origin=tails[n].origin, rank=f"{n}"
        )
        for n in (2, 0)[:count]
    )
    return LogsEnded(job="j", tails=tails, tracebacks=found)


def test_a_failed_job_shows_its_tracebacks_and_the_last_lines_of_every_rank() -> None:
    record = RunRecord(report=begun_report("digits", reproduce="aml-train run --set 'a=<b>'"))
    record(ended_logs(3))
    record(RunFinished(status="job-failed", exit_code=5, message="The job failed"))
    text = rendered(record)
    assert text.index("### Tracebacks of the job") < text.index("### Last lines of the logs")
    assert "<details open><summary><code>rank 2</code>" in text
    assert text.index("rank 2<") < text.index("rank 0<") < text.index("rank 1<")
    assert "<i>" not in text
    assert "<b>" not in text
    assert "2.0 MB" in text
    for part in ("Traceback 2", "Traceback 0", "line 0", "line 1", "line 2"):
        assert part in text
