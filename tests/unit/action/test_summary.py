from __future__ import annotations

import datetime
import html
import json
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aml_train.core.checks import Finding
from aml_train.core.comparison import Comparison, Side
from aml_train.core.events import (
    AttemptEnded,
    BaselineCompared,
    CostCounted,
    GraphNode,
    GraphPlanned,
    ImageChecked,
    ImageReady,
    JobSubmitted,
    LogsEnded,
    LogTail,
    MetricsSettled,
    ModelRegistered,
    NodeChanged,
    Notice,
    RuleDecided,
    RunFinished,
    StageFinished,
    StageStarted,
    TestFailure,
    TestsFinished,
    Traceback,
)
from aml_train.core.tables import Table
from aml_train.pipeline.report import Source
from aml_train.pipeline.report.pieces import block, chart, escape, flowchart, label, link
from aml_train_action.report.made import Origin, report_of
from aml_train_action.report.outputs import OUTPUTS, metrics_table, outputs_of
from aml_train_action.report.record import Record
from aml_train_action.report.summary import LIMIT, render_summary


def rule(metric: str = "acc", *, met: bool = True, value: float | None = 0.97) -> RuleDecided:
    return RuleDecided(
        metric=metric,
        rule=">= 0.95",
        value=value,
        limit=0.95,
        met=met,
        verdict="met" if met else "missed",
        reason="0.97, wanted 0.95",
        where="a:1",
    )


def whole() -> Record:
    record = Record()
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


def rendered(record: Record, **more: object) -> str:
    origin = Origin(
        title="digits",
        configuration="aml-train.yml",
        target="local",
        source=Source(),
        reproduce="aml-train run --set 'a=<b>'",
        created=datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC),
    )
    return render_summary(report_of(record, origin), record, **more)  # type: ignore[arg-type]


def test_the_summary_tells_everything() -> None:
    text = rendered(whole())
    plain = html.unescape(text)
    for part in (
        "## ✅ digits: passed", "It passed.", "<code>r/x@sha256:1</code>", "(built, 52.0 MB compressed)",
        "7 passed, 0 failed, 1 skipped in 2.0 s, recorded earlier in this very image", "<code>digits-1</code>",
        'href="https://ml.azure.com/runs/digits-1?wsid=/x&tid=1"', "| ✅ | <code>acc</code> | <code>>= 0.95</code> | 0.97 |",
        "<code>digits</code> version <code>3</code>", "| image | 1 min 15 s | built sha256:12 |",
        "xychart-beta", "line [0.95, 0.95", "| <code>loss</code> | NaN |", "aml-train run --set 'a=<b>'", "look @here",
    ):  # fmt: skip
        assert part in plain, part
    assert "@here" not in text


def test_a_pipeline_is_drawn_with_the_results_of_its_nodes() -> None:
    record = Record()
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
        "| <code>prep</code> | <code>Completed</code>, reused | the tested image |",
        "| <code>sub/fit</code> | <code>Running</code> | the tested image |",
        "| <code>score</code> | <code>Failed</code> | <code>given: azureml:score:3</code> |",
        "| <code>last</code> | <code>not run</code> | the tested image |",
    ]


def test_each_of_several_images_is_told_with_its_tests() -> None:
    record = Record()
    finding = Finding(check="memlock", level="warning", what="little")
    failure = TestFailure(name="test_prep", file=None, line=None, message="no", output="wrong rows")
    for event in (
        ImageReady(reference="r/x@sha256:1", digest="sha256:1", address="a", how="built"),
        ImageChecked(findings=(finding,), cached=False),
        TestsFinished(passed=7, failed=0, skipped=0, seconds=2.0, cached=False),
        ImageReady(reference="r/x-prep@sha256:2", digest="sha256:2", address="b", how="found", image_name="prep"),
        ImageChecked(findings=(finding,), cached=False, image_name="prep"),
        TestsFinished(
            passed=1, failed=1, skipped=0, seconds=1.0, cached=False, failures=(failure,), image_name="prep"
        ),
        GraphPlanned(job="j", nodes=(GraphNode(name="a"), GraphNode(name="b", environment="image prep"))),
    ):
        record(event)
    assert record.image is not None
    assert record.image.digest == "sha256:1"
    text = html.unescape(rendered(record))
    for part in (
        "| image | <code>r/x@sha256:1</code> (built) |",
        "| image <code>prep</code> | <code>r/x-prep@sha256:2</code> (found) |",
        "| tests | 7 passed, 0 failed, 0 skipped in 2.0 s |",
        "| tests in <code>prep</code> | 1 passed, 1 failed, 0 skipped in 1.0 s |",
        "wrong rows",
        "| <code>b</code> | <code>not run</code> | the tested image <code>prep</code> |",
    ):
        assert part in text, part
    assert text.count("| memlock |") + text.count("<code>memlock</code>") == 2


@given(st.text(max_size=60))
def test_a_nodes_name_adds_nothing_to_the_drawing(name: str) -> None:
    drawn = flowchart((GraphNode(name=name),), {})
    assert len(drawn.splitlines()) == 4 + 5
    assert drawn.splitlines()[2].count('"') == 2


def test_the_baseline_stands_beside_the_job() -> None:
    record = whole()
    left = Side(title="the job a", job="a", metrics={"acc": 0.97, "f1": 1.0}, data={"train": "d:2"}, commit="a" * 40)
    right = Side(title="digits version 2 (stage production)", job="b", metrics={"acc": 0.95}, data={"train": "d:1"})
    before = {"acc": [(0, 0.1), (5, 0.95)]}
    record(BaselineCompared(comparison=Comparison(left=left, right=right), where="f.yml:2", histories=before))
    plain = html.unescape(rendered(record))
    for part in (
        "The baseline is <code>digits version 2 (stage production)</code>.",
        "| <code>job</code> | <code>a</code> | <code>b</code> |",
        "| <code>data train</code> | <code>d:2</code> | <code>d:1</code> |",
        "| 0.97 | 0.95 | +0.02 (+2.11 %) |",
        "| <code>f1</code> | <code>1</code> |  |  |",
        "The second line is the baseline's.",
        "    line [0.1, 0.342857, 0.585714, 0.828571, 0.95, 0.95, 0.95, 0.95]\n",
    ):
        assert part in plain, part


def test_failures_come_with_what_failed() -> None:
    record = Record()
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
    failures = tuple(TestFailure(name="<" * 5000, file="f" * 900, line=1, message="&" * 3000) for _ in range(3000))
    record(TestsFinished(passed=0, failed=3000, skipped=0, seconds=1, cached=False, failures=failures))
    for i in range(3000):
        record(rule(f"metric-{i}" + "|" * 400, met=i % 2 == 0))
        record(Notice(text="*" * 5000))
    record(RunFinished(status="tests-failed", exit_code=4, message="\n".join(["&" * 9000] * 100), hint="h" * 9000))
    text = rendered(record, text="<" * 5_000_000, limit=limit)
    assert len(text.encode()) < limit
    assert text.startswith("## ❌ digits: tests&#45;failed (exit code 4)")
    assert "more." in text or "Left out" in text


WIDE = "\U0001f600" * 150
HOSTILE = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["</pre><script>x</script>", "```\n# x", "| a | b |", "[x](javascript:alert(1))", "@org/team", "#1", "<!--", "www.evil.example",
         "https://evil.example", "![](http://x)", "\n\n# heading", "&lt;", "$\\alpha$", ":+1:", "</code></td>", "- [x] a", "~~x~~", '"'],
    ),
)  # fmt: skip


@given(HOSTILE)
def test_escaped_text_has_no_sign_that_means_something(text: str) -> None:
    escaped = escape(text)
    assert re.fullmatch(r"(?:&#\d+;|[^!-/:-@\[-`{-~\x00-\x08\x0a-\x1f])*", escaped)
    assert "\n" not in escaped


def test_what_azureml_core_logged_stands_in_tables() -> None:
    record = whole()
    lists = Table(name="lr", kind="list", head=("values", "min", "max", "last"), rows=(("3", "0.1", "0.4", "0.2"),), note="1 of them NaN", course=((0, 0.4), (1, 0.2)))  # fmt: skip
    tables = (
        Table(name="note", kind="text", rows=(("a | b",),)),
        lists,
        Table(name="m", kind="matrix", head=("actual ╲ predicted", "cat", "dog"), rows=(("cat", "3", "1"), ("dog", "0", "2")), total=2, columns=3),
        Table(name="rows", kind="table", head=("x",), rows=(("1",),), total=41, columns=2),
    )  # fmt: skip
    record(MetricsSettled(job="digits-1", metrics={"acc": 0.97}, tables=tables, more_tables=2))
    text = rendered(record)
    for part in (
        "### Other logged values",
        "| <code>note</code> | a &#124; b |  |",
        "| list | values | min | max | last |  |\n|---|---:|---:|---:|---:|---:|\n| <code>lr</code> | 3 | 0&#46;1 | 0&#46;4 | 0&#46;2 | 1 of them NaN |",
        "Confusion matrix <code>m</code>\n\n| actual ╲ predicted | cat | dog |\n|---|---:|---:|\n| <b>cat</b> | 3 | 1 |\n| <b>dog</b> | 0 | 2 |\n",
        "Table <code>rows</code>\n\n| x |\n|---|\n| 1 |\n\nand 40 more rows and 1 more columns\n",
        "… and 2 more.",
    ):
        assert part in text, part


@given(HOSTILE)
def test_a_block_is_one_line_of_html(text: str) -> None:
    shown = block(text, most=1000)
    assert "\n" not in shown
    inner = shown.removeprefix("<pre>").removesuffix("</pre>")
    assert not {"<", ">", '"'} & set(inner)


@settings(max_examples=60)
@given(st.lists(HOSTILE, min_size=8, max_size=8))
def test_foreign_text_adds_no_line_to_the_summary(texts: list[str]) -> None:
    a, b, c, d, e, f, g, h = texts
    record = Record()
    record(StageStarted(stage="image", title=a))
    record(ImageReady(reference=b, digest=c, address="x", how="built"))
    record(JobSubmitted(job=d, attached=True, studio_url=e))
    record(RuleDecided(metric=f, rule=g, value=1.0, limit=2.0, met=False, verdict="missed", reason=h, where=a))
    tables = (
        Table(name=a, kind="text", rows=((b,),), note=c),
        Table(
            name=d,
            kind="list",
            head=("values", "min", "max", "last"),
            rows=(("2", e, f, g),),
            course=((0, 1.0), (1, 2.0)),
        ),
        Table(name=h, kind="matrix", head=("actual", a), rows=((b, c),), total=2, note=d),
        Table(name=e, kind="table", head=(f, g), rows=((h, a), (b, c)), columns=3),
    )
    histories = {f: [(0, 1.0), (1, 2.0)]}
    record(MetricsSettled(job=d, metrics={f: 1.0, "other" + a: 2.0}, histories=histories, tables=tables))
    record(TestsFinished(passed=0, failed=1, skipped=0, seconds=1, cached=False, failures=(TestFailure(name=b, file=c, line=1, message=d),)))  # fmt: skip
    side = Side(
        title=a, job=b, model=c, version=d, metrics={e: 1.0}, data={f: g}, digest=h, commit=a, parameters={b: c}
    )
    other = Side(title=h, metrics={e: 2.0}, data={f: a}, parameters={b: d})
    record(BaselineCompared(comparison=Comparison(left=side, right=other)))
    record(ModelRegistered(model=e, version=f, found=False))
    record(Notice(text=g))
    record(RunFinished(status="gate-failed", exit_code=6, message=f"m {h}", hint=a or None))
    text = rendered(record, text=b)
    for line in text.splitlines():
        assert re.match(
            r"$|#{2,4} |\||</?(pre|details|code)|- |The same|Flat lines|```(mermaid)?$|xychart-beta$|    (title|x-axis|y-axis|line) |m |[^\n#|<`>*-]",
            line,
        ), line
    tags = set(re.findall(r"</?[a-zA-Z]+", text))
    assert tags <= {
        "<code",
        "</code",
        "<pre",
        "</pre",
        "<a",
        "</a",
        "<b",
        "</b",
        "<details",
        "</details",
        "<summary",
        "</summary",
    }
    for link_target in re.findall(r'<a href="([^"]*)"', text):
        assert link_target.startswith("https://")


@pytest.mark.parametrize(
    ("url", "linked"),
    [
        ("https://ml.azure.com/runs/a?wsid=/subscriptions/x&tid=y", True),
        ("http://ml.azure.com/", False),
        ("javascript:alert(1)", False),
        ('https://x/" onclick="y', False),
        ("https://x\n# y", False),
    ],
)
def test_only_https_is_linked(url: str, linked: bool) -> None:
    assert link("open", url).startswith("<a ") is linked


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], ""),
        ([(1, 0.5)], ""),
        ([(1, 0.5), (1, 0.6)], ""),
        ([(0, math.nan), (1, math.inf), (2, 1.0)], ""),
        ([(0, 1e301), (1, 1.0)], ""),
    ],
)
def test_nothing_is_drawn_without_two_points(history: list[tuple[int, float]], expected: str) -> None:
    assert chart("m", history) == expected


def test_a_chart_is_drawn_in_the_grammar_of_mermaid() -> None:
    assert chart('val/"loss"\n', [(2, 0.5), (0, 1.0), (1, 9.0), (1, 0.75)], [0.6]).splitlines() == [
        "```mermaid",
        "xychart-beta",
        '    title "val/_loss__"',
        '    x-axis "step" 0 --> 2',
        '    y-axis "val/_loss__" 0.475 --> 1.025',
        "    line [1, 0.75, 0.5]",
        "    line [0.6, 0.6, 0.6]",
        "```",
    ]


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.floats()), max_size=300),
    st.lists(st.floats(), max_size=3),
)
def test_charts_hold_plain_numbers_and_few_points(history: list[tuple[int, float]], limits: list[float]) -> None:
    text = chart("m", history, limits)
    for line in re.findall(r"line \[(.*)\]", text):
        numbers = line.split(", ")
        assert 2 <= len(numbers) <= 60
        assert all(re.fullmatch(r"-?\d+(\.\d+)?", number) for number in numbers)


def test_labels_hold_nothing_of_mermaids_grammar() -> None:
    assert label('a"]\n%%{init}') == "a______init_"
    assert label("") == "_"


def test_outputs_of_a_whole_run() -> None:
    outputs = outputs_of(whole())
    assert tuple(outputs) == OUTPUTS
    assert outputs == {
        "status": "passed", "job-name": "digits-1", "run-id": "digits-1",
        "run-url": "https://ml.azure.com/runs/digits-1?wsid=/x&tid=1", "experiment-name": "exp", "image": "r/x@sha256:1",
        "digest": "sha256:1", "run-metrics": '{"acc": 0.97, "loss": "NaN"}',
        "run-metrics-markdown": "| metric | value |\n|---|---:|\n| acc | 0.97 |\n| loss | nan |", "gate": "passed",
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


def test_outputs_of_nothing_are_empty_but_for_the_status() -> None:
    outputs = outputs_of(Record())
    assert outputs.pop("status") == "error"
    assert set(outputs.values()) == {""}
    assert metrics_table({}) == ""


def test_metrics_that_have_no_room_are_left_out_and_those_with_rules_stay() -> None:
    record = Record()
    record(MetricsSettled(job="j", metrics={f"m{i:06d}": math.inf for i in range(20_000)} | {"zz": -math.inf}))
    record(rule("zz", met=False))
    values = json.loads(outputs_of(record)["run-metrics"])
    assert values["zz"] == "-Infinity"
    assert 100 < len(values) < 3000
    assert outputs_of(record)["gate"] == "failed"


def test_the_report_of_the_gate_holds_missed_rules_first_and_says_what_has_no_room() -> None:
    record = Record()
    for number in range(3000):
        record(rule(f"m{number}", met=number != 2999))
    report = json.loads(outputs_of(record)["gate-report"])
    assert (report["gate"], report["rules"][0]["metric"], report["rules"][0]["verdict"]) == (
        "failed",
        "m2999",
        "missed",
    )
    assert 100 < len(report["rules"]) == 3000 - report["left_out"]


def test_the_checks_of_the_image_are_told() -> None:
    record = whole()
    findings = (
        Finding(check="mlx5", level="error", what="does not load | at all", why="sockets", remedy="install anew"),
        Finding(check="python", level="info", what="Python 3.11"),
    )
    record(ImageChecked(findings=findings, cached=True))
    text = html.unescape(rendered(record))

    assert "### Checks of the image" in text
    assert (
        "| ❌ | <code>mlx5</code> | <code>does not load | at all</code> | <code>sockets; install anew</code> |"
        in text
    )


def test_attempts_and_cost_are_told() -> None:
    record = whole()
    record(AttemptEnded(job="digits-1", attempt=1, status="Failed", ending="preempted", again="digits-2"))
    record(AttemptEnded(job="digits-2", attempt=2, status="Completed", ending="completed"))
    record(
        CostCounted(
            node_hours=1.5,
            gpu_hours=12.0,
            cost=None,
            currency="USD",
            text="1.5 node hours, 12 GPU hours",
            unknown="x",
        )
    )
    outputs = outputs_of(record)
    assert {name: outputs[name] for name in ("attempts", "node-hours", "gpu-hours", "cost")} == {
        "attempts": "2",
        "node-hours": "1.500000",
        "gpu-hours": "12.000000",
        "cost": "",
    }
    summary = html.unescape(rendered(record))
    assert "| attempt 1 | <code>digits-1</code> <code>preempted</code> |" in summary
    assert "| attempt 2 | <code>digits-2</code> <code>completed</code> |" in summary
    assert "| cost | <code>1.5 node hours, 12 GPU hours</code> |" in summary


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
    record = Record()
    record(ended_logs(3))
    record(RunFinished(status="job-failed", exit_code=5, message="The job failed"))
    text = rendered(record)
    assert text.index("### Tracebacks of the job") < text.index("### Last lines of the logs")
    assert "<details open><summary>rank 2 (" in text
    assert text.index("rank 2 (") < text.index("rank 0 (") < text.index("rank 1 (")
    assert "<i>" not in text
    assert "<b>" not in text
    assert "2.0 MB" in text
    for part in ("Traceback 2", "Traceback 0", "line 0", "line 1", "line 2"):
        assert part in text


def test_the_summary_shows_the_end_of_a_log_once() -> None:
    record = Record()
    record(ended_logs(3))
    message = "The job failed\nThe last lines of its log:\nline 0 <b>"
    record(RunFinished(status="job-failed", exit_code=5, message=message))
    assert rendered(record).count("line 0") == 1
    without = Record()
    without(RunFinished(status="job-failed", exit_code=5, message=message))
    assert rendered(without).count("line 0") == 1


def test_a_job_that_passed_shows_no_logs() -> None:
    record = Record()
    record(ended_logs(3))
    record(RunFinished(status="passed", exit_code=0, message="done"))
    assert "Last lines" not in rendered(record)


def test_the_logs_of_a_thousand_ranks_have_room() -> None:
    record = Record()
    record(ended_logs(1000, width=5000))
    record(RunFinished(status="job-failed", exit_code=5, message="The job failed"))
    text = rendered(record)
    assert len(text.encode()) < LIMIT
    assert "Traceback 2" in text
    assert "more." in text
