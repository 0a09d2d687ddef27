"""The parts of a report in GitHub's Markdown, for the summary of the step and the comment of the pull request. Pure."""

from __future__ import annotations

import math
from typing import Final

from aml_train.core.comparison import metric_difference
from aml_train.core.events import GraphNode, NodeChanged
from aml_train.core.text import duration, size
from aml_train.pipeline.report.pieces import chart, flowchart
from aml_train.pipeline.report.values import Report, Rule
from aml_train_action.report.markup import head, lines, literal, row, studio
from aml_train_action.report.sections import Section

_CHARTS: Final = 12
_DRAWN: Final = 100
"""Nodes of a drawn graph; GitHub's Mermaid refuses very large ones."""

_VERDICTS: Final = {"met": "✅", "missed": "❌", "warned": "⚠️", "skipped": "⏭️"}
_LEVELS: Final = {"error": "❌", "warning": "⚠️", "info": "ℹ️"}


def sections_of(report: Report) -> list[Section]:
    """Return what a report says of gate, tests, baseline, run and image; parts without rows are empty."""
    return [
        _gate(report),
        _failures(report),
        _moved(report),
        _differences(report),
        _facts(report),
        _charts(report),
        _nodes(report),
        _checks(report),
        _metrics(report),
        _notices(report),
        _reproduce(report),
    ]


def _number(value: float | str | None, missing: str = "") -> str:
    if value is None:
        return missing
    return value if isinstance(value, str) else f"{value:.6g}"


def _difference(rule: Rule) -> str:
    """Return the rule's value less the baseline's, as text; empty without both."""
    if not isinstance(rule.value, float | int) or not isinstance(rule.baseline, float | int):
        return ""
    found = metric_difference(float(rule.value), float(rule.baseline))
    if found.difference is None or not math.isfinite(found.difference):
        return ""
    percent = "" if found.percent is None else f" ({found.percent:+.3g} %)"
    return f"{found.difference:+.6g}{percent}"


def _gate(report: Report) -> Section:
    rows = [
        row(
            _VERDICTS[rule.verdict],
            literal(rule.metric, most=200),
            literal(rule.rule, most=100),
            _number(rule.value, "missing"),
            _number(rule.baseline),
            _difference(rule),
            literal(rule.reason, most=300),
        )
        for rule in sorted(report.rules, key=lambda one: one.verdict != "missed")
    ]
    against = f"\n\nThe baseline is {literal(report.baseline.title, most=200)}." if report.baseline else ""
    titles = head("", "metric", "wanted", "value", "baseline", "difference", "", numbers=(3, 4, 5))
    return Section(name="the gate's rules", importance=8, head=f"#### Gate{against}\n\n{titles}", rows=rows)


def _failures(report: Report) -> Section:
    rows = []
    for tests in report.tests:
        for failure in tests.failures:
            place = f"{failure.file}:{failure.line}" if failure.file and failure.line else failure.file
            rows.append(row(literal(failure.name, most=200), literal(place), literal(failure.message)))
    return Section(
        name="failed tests", importance=7, head=f"#### Failed tests\n\n{head('test', 'at', '')}", rows=rows
    )


def _moved(report: Report) -> Section:
    """The metrics that differ from the baseline's, without those of the gate."""
    gated = {rule.metric for rule in report.rules}
    rows = [
        row(literal(one.name, most=200), literal(one.left), literal(one.right), literal(one.difference))
        for one in (report.baseline.rows if report.baseline else ())
        if one.kind == "metric" and not one.same and one.name not in gated
    ]
    titles = head("metric", "this job", "baseline", "difference", numbers=(1, 2, 3))
    return Section(
        name="other metrics that moved", importance=6, head=f"#### Other metrics that moved\n\n{titles}", rows=rows
    )


def _differences(report: Report) -> Section:
    """Data, parameters and facts that differ from the baseline's."""
    shown = ("fact", "data", "parameter", "logged", "variable")
    rows = [
        row(literal(one.name, most=200), literal(one.left, most=200), literal(one.right, most=200))
        for one in (report.baseline.rows if report.baseline else ())
        if one.kind in shown and not one.same
    ]
    titles = head("", "this job", "baseline")
    return Section(
        name="what differs from the baseline", importance=6, head=f"#### What differs\n\n{titles}", rows=rows
    )


def _facts(report: Report) -> Section:
    rows = []
    for image in report.images:
        extra = f", {size(image.compressed_bytes)} compressed" if image.compressed_bytes else ""
        name = f"image {literal(image.name, most=100)}" if image.name else "image"
        rows.append(row(name, f"{literal(image.reference, most=400)} ({image.how or 'given'}{extra})"))
    if report.job and not report.images:
        rows.append(row("image", "the job's own environment: given, not tested"))
    for tests in report.tests:
        name = f"tests in {literal(tests.image_name, most=100)}" if tests.image_name else "tests"
        counts = "no counts: they wrote no JUnit report"
        if tests.passed is not None:
            counts = f"{tests.passed} passed, {tests.failed or 0} failed, {tests.skipped or 0} skipped"
        took = "" if tests.seconds is None else f" in {duration(tests.seconds)}"
        rows.append(row(name, f"{counts}{took}{', recorded earlier in this very image' if tests.cached else ''}"))
    if job := report.job:
        words = [literal(job.name), literal(job.status, most=60), "attached" if job.attached else "", studio(job.url)]
        rows.append(row("job", " · ".join(word for word in words if word)))
    attempts = report.attempts if len(report.attempts) > 1 else ()
    rows += [row(f"attempt {one.attempt}", f"{literal(one.job)} {literal(one.ending, most=60)}") for one in attempts]
    rows += [row(f"data {literal(name, most=100)}", literal(place)) for name, place in report.data.items()]
    if report.cost:
        rows.append(row("cost", literal(report.cost.text, most=200)))
    if model := report.model:
        earlier = " (registered earlier)" if model.found else ""
        rows.append(row("model", f"{literal(model.name)} version {literal(model.version, most=60)}{earlier}"))
    return Section(name="image, tests, job and data", importance=8, head=f"#### Run\n\n{head('', '')}", rows=rows)


def _charts(report: Report) -> Section:
    drawn = []
    for curve in report.curves[:_CHARTS]:
        series = [one.points for one in curve.series[:2]]
        if picture := chart(curve.metric, series[0] if series else (), curve.limits[:5], *series[1:2]):
            drawn.append(
                f"<details><summary>{literal(curve.metric, most=200)}</summary>\n\n{picture}\n\n</details>\n"
            )
    second = " The second line is the baseline's." if any(len(one.series) > 1 for one in report.curves) else ""
    return Section(
        name="curves", importance=4, head=f"#### Metrics over steps\n\nFlat lines are limits.{second}\n", rows=drawn
    )


def _nodes(report: Report) -> Section:
    """The nodes of a pipeline, or the trials of a sweep, as drawing and table."""
    nodes = report.nodes
    graph = [GraphNode(name=one.name, needs=one.needs, environment=one.environment or "image") for one in nodes]
    seen = {one.name: NodeChanged(job="", node=one.name, run="", status=one.status) for one in nodes if one.status}
    rows = [flowchart(graph, seen) + "\n"] if 0 < len(nodes) <= _DRAWN and any(one.needs for one in nodes) else []
    rows += [head("node", "status", "environment")] if nodes else []
    for node in nodes:
        status = literal(node.status or "not run", most=60) + (", reused" if node.reused else "")
        word, _, image = node.environment.partition(" ")
        environment = "the tested image" + (f" {literal(image)}" if image else "")
        if word not in ("", "image"):
            environment = literal(node.environment, most=200)
        rows.append(row(literal(node.name, most=200), status, environment))
    return Section(name="the nodes", importance=5, head="#### Nodes\n", rows=rows)


def _checks(report: Report) -> Section:
    rows = [
        row(
            _LEVELS[one.level],
            literal(one.check, most=60),
            literal(one.what),
            literal("; ".join(filter(None, (one.why, one.remedy)))),
        )
        for one in report.checks
        if one.level != "info"
    ]
    return Section(
        name="checks of the image",
        importance=4,
        head=f"#### Checks of the image\n\n{head('', 'check', 'found', '')}",
        rows=rows,
    )


def _metrics(report: Report) -> Section:
    shown = {rule.metric for rule in report.rules}
    shown |= {one.name for one in (report.baseline.rows if report.baseline else ()) if one.kind == "metric"}
    rows = [
        row(literal(name, most=200), _number(value)) for name, value in report.metrics.items() if name not in shown
    ]
    start = "<details><summary>Other metrics</summary>\n\n"
    return Section(
        name="other metrics",
        importance=2,
        head=start + head("metric", "last value", numbers=(1,)),
        rows=rows,
        tail="\n</details>",
    )


def _notices(report: Report) -> Section:
    rows = [f"- {literal(notice)}" for notice in report.notices if notice.strip()]
    start = "<details><summary>Notices</summary>\n"
    return Section(name="notices", importance=1, head=start, rows=rows, tail="\n</details>")


def _reproduce(report: Report) -> Section:
    rows = [lines(report.reproduce, most=2000)] if report.reproduce else []
    return Section(name="the command", importance=7, head="The same elsewhere:\n", rows=rows)
