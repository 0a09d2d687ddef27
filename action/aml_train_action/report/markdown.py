"""The parts of a report in GitHub's Markdown, for the summary of the step and the comment of the pull request. Pure."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from aml_train.core.comparison import metric_difference
from aml_train.core.events import GraphNode, NodeChanged
from aml_train.core.text import duration, size
from aml_train.report.pieces import block, chart, code, flowchart
from aml_train.report.values import Report, Rule

_ADDRESS: Final = re.compile(r"https://(?P<host>[A-Za-z0-9.-]+)(:\d+)?(/[A-Za-z0-9._~%/?&=:@+,;#-]*)?")
#: The studio of AzureML, in each cloud.
_STUDIOS: Final = frozenset({"ml.azure.com", "ml.azure.us", "studio.ml.azure.cn"})
_TURNING: Final = re.compile(r"[\u061c\u180e\u115f\u1160\u3164\uffa0\U000e0000-\U000e0fff]")


def literal(text: str, *, most: int = 300) -> str:
    """Return *text* as one line in the type of code; empty for none."""
    return code(_TURNING.sub("�", text), most=most) if text.strip() else ""


def lines(text: str, *, most: int) -> str:
    """Return several lines of foreign text."""
    return block(_TURNING.sub("�", text), most=most)


def message(text: str, *, most: int = 4000) -> str:
    """Return a foreign message, of one line or of several."""
    return lines(text, most=most) if "\n" in text.strip() else literal(text, most=most)


def own_link(text: str, url: str) -> str:
    """Return a link of ours to an address that GitHub has given; *text* is ours."""
    return f'<a href="{html.escape(url, quote=True)}">{text}</a>' if _ADDRESS.fullmatch(url) else text


def studio(url: str) -> str:
    """Return a link to the job in AzureML's studio; empty for any other address."""
    found = _ADDRESS.fullmatch(url)
    return own_link("open the job", url) if found and found["host"].lower() in _STUDIOS else ""


def row(*cells: str) -> str:
    """Return a row of a table; the cells are Markdown of ours."""
    return f"| {' | '.join(cells)} |"


def head(*titles: str, numbers: Sequence[int] = ()) -> str:
    """Return the head of a table; the columns at *numbers* are aligned to the right."""
    rules = "|".join("---:" if place in numbers else "---" for place in range(len(titles)))
    return f"{row(*titles)}\n|{rules}|"


@dataclass(kw_only=True)
class Section:
    """A part of a text; rows are cut from the end, without rows it is omitted.

    Attributes:
        name: what it is called where it is left out.
        importance: the greater, the later it is cut.
        tail: what closes the part.
    """

    name: str
    importance: int
    head: str = ""
    rows: list[str] = field(default_factory=list)
    tail: str = ""
    cut: int = 0

    def render(self) -> str:
        """Return the section."""
        if not self.rows:
            return ""
        more = [f"\n… and {self.cut} more."] if self.cut else []
        tail = [self.tail] if self.tail else []
        return "\n".join([*([self.head] if self.head else []), *self.rows, *more, *tail]) + "\n"


def fit(sections: Sequence[Section], limit: int) -> None:
    """Cut rows, those of the least important sections first, until all fit.

    *limit* is in bytes of UTF-8.
    """
    total = sum(count_bytes(section.render()) + 1 for section in sections)
    for section in sorted(sections, key=lambda one: one.importance):
        while total > limit and section.rows:
            # In steps, so that a great many rows do not take quadratic time.
            dropped = section.rows[-max(1, len(section.rows) // 8) :]
            del section.rows[-len(dropped) :]
            section.cut += len(dropped)
            total -= sum(count_bytes(row) + 1 for row in dropped)


def left_out(sections: Sequence[Section]) -> list[str]:
    """Return the names of the sections that were cut as a whole."""
    return [section.name for section in sections if section.cut and not section.rows]


def count_bytes(text: str) -> int:
    """Return the length of *text* in UTF-8."""
    return len(text.encode("utf-8"))


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
