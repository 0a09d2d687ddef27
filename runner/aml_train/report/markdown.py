"""A report in GitHub's Markdown: for releases, the summary of the action's step and the comment of the pull request. Pure.

All names and texts are foreign: they are shown literally. Parts that have no room are cut, the least important ones first. Images
are not in it, because Markdown cannot hold them.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from aml_train.core.answers import Number
from aml_train.core.comparison import metric_difference
from aml_train.core.events import GraphNode, NodeChanged, rank_label
from aml_train.core.text import duration, size
from aml_train.core.version import __version__
from aml_train.jobs.states import headline
from aml_train.report.html import facts_of, number_text, shallow, verdict_of
from aml_train.report.pieces import block, chart, code, escape, flowchart, logged_tables
from aml_train.report.values import Report, Rule, Step

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


MOST_MARKDOWN: Final = 120_000
"""The most of a report as Markdown, in bytes: a release's notes have room for 125,000 characters."""

_CHARTS: Final = 20
#: What the notes about left-out parts may take.
_RESERVE: Final = 8_192
_OUTPUT: Final = 6_000
_DRAWN: Final = 100
"""Nodes of a drawn graph; GitHub's Mermaid refuses very large ones."""

_VERDICTS: Final = {"met": "✅", "missed": "❌", "warned": "⚠️", "skipped": "⏭️"}
_STATES: Final = {"verified": "✅", "recorded": "📝", "unknown": "❔", "broken": "❌"}
_COLOURS: Final = {"good": "✅", "bad": "❌", "warn": "⚠️", "muted": "ℹ️"}
#: Endings whose colour does not say enough.
_SIGNS: Final = {
    "submitted": "🕓",
    "valid": "✅",
    "planned": "📋",
    "checked": "✅",
    "rolled-back": "↩️",
    "unchanged": "✅",
    "dry-run": "📋",
    "reported": "✅",
    "cancelled": "⚪",
    "timed-out": "⚪",
}
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


def render_markdown(
    report: Report, *, most: int = MOST_MARKDOWN, text: str = "", more: Sequence[Section] = ()
) -> bytes:
    """Return *report* as Markdown of at most *most* bytes of UTF-8; it says what has no room.

    Args:
        report: the report.
        most: bytes.
        text: what a command printed that is no run, such as the plan.
        more: parts that are in no report.
    """
    sections = [
        _verdict(report),
        _message(report, text),
        *more,
        _tracebacks(report),
        *sections_of(report),
        *_details(report),
    ]
    present = [section for section in sections if section.rows]
    fit(present, most - _RESERVE)
    parts = [section.render() for section in present if section.rows]
    if gone := [*left_out(present), *map(escape, report.left_out)]:
        parts.append(f"_Left out for lack of room: {', '.join(gone)}._\n")
    parts.append(f"_Made {report.created:%Y-%m-%d %H:%M %Z} by aml-train {escape(__version__)}._\n")
    return "\n".join(parts).encode()


def _verdict(report: Report) -> Section:
    word, colour = verdict_of(report)
    sign = _SIGNS.get(report.status, _COLOURS[colour])
    tail = f" (exit code {report.exit_code})" if report.exit_code else ""
    title = f"## {sign} {escape(report.title, most=100)}: {escape(word, most=100)}{tail}\n"
    return Section(name="the verdict", importance=10, rows=[title])


def _message(report: Report, text: str) -> Section:
    # The job's logs have separate sections.
    said = headline(report.message) if report.status == "job-failed" else report.message
    rows = [message(said, most=20_000) + "\n"] if said else []
    rows += [message(report.hint, most=2_000) + "\n"] if report.hint else []
    rows += [block(text, most=200_000)] if text else []
    rows += [block(report.job.error, most=10_000)] if report.job and report.job.error else []
    return Section(name="the message", importance=9, rows=rows)


def _details(report: Report) -> Iterator[Section]:
    """Yield what only a whole report has."""
    missing = [f"- {one.part}: {literal(one.reason, most=2_000)}" for one in report.missing]
    yield Section(name="what is not known", importance=9, head="### Not known\n", rows=missing)
    known = {"job", "status"}
    facts = ((name, literal(value)) for name, value in facts_of(report) if value and name not in known)
    yield _table("the job's origin", 5, "Origin", ("", ""), facts)
    others = (
        (literal(row.name, most=200), literal(row.left), literal(row.right), literal(row.difference))
        for one in report.others
        for row in one.rows
    )
    titles = "; ".join(literal(one.title, most=200) for one in report.others)
    yield _table(
        "comparisons with further jobs", 4, f"Compared with {titles}", ("", "this job", "other job", ""), others
    )
    yield _trials(report)
    tables = logged_tables(report.tables)
    yield Section(name="other logged values", importance=2, head="### Other logged values\n", rows=tables)
    pictures = ", ".join(literal(one.name) for one in report.pictures)
    pictures = f"{pictures}: the report in HTML shows them." if pictures else ""
    yield Section(
        name="pictures", importance=1, head="### Images that the job wrote\n", rows=[pictures][: len(pictures)]
    )
    kinds = {"input": report.parameters, "logged": report.logged, "variable": report.variables}
    values = (
        (kind, literal(name, most=200), literal(value))
        for kind, found in kinds.items()
        for name, value in found.items()
    )
    yield _table("parameters", 3, "Parameters", ("", "name", "value"), values)
    lineage = list(_tree(shallow(report.lineage), 0)) if report.lineage is not None else []
    yield Section(name="the lineage", importance=5, head="### Lineage\n", rows=lineage)
    changes = (
        (literal(one.name, most=200), literal(one.before or "missing"), literal(one.after or "missing"))
        for image in report.images
        for one in image.changes
    )
    yield _table("packages that differ", 3, "Packages that differ", ("package", "baseline", "this image"), changes)
    packages = "\n".join(f"{one.kind} {one.name} {one.version}".strip() for one in report.packages)
    listed = f"<details><summary>{len(report.packages)} packages</summary>{lines(packages, most=40_000)}</details>\n"
    yield Section(name="packages", importance=0, rows=[listed] if report.packages else [])
    yield _tails(report)
    stages = (
        (
            escape(one.name),
            "skipped" if one.skipped else "not finished" if one.seconds is None else duration(one.seconds),
            escape(one.summary, most=300),
        )
        for one in report.stages
    )
    yield _table("durations", 5, "Stages", ("stage", "took", ""), stages, 1)


def _table(
    name: str, importance: int, title: str, titles: Sequence[str], rows: Iterable[Sequence[str]], *numbers: int
) -> Section:
    return Section(
        name=name,
        importance=importance,
        head=f"### {title}\n\n{head(*titles, numbers=numbers)}",
        rows=[row(*one) for one in rows],
    )


def _trials(report: Report) -> Section:
    names = list(dict.fromkeys(name for trial in report.trials for name in trial.parameters))
    rows = (
        (
            f"{literal(one.name)}{' 🏆 best' if one.best else ''}",
            literal(one.status, most=60),
            *(literal(one.parameters.get(name, "")) for name in names),
            _number(one.value),
        )
        for one in report.trials
    )
    titles = ("trial", "status", *map(literal, names), literal(report.objective) or "value")
    return _table("trials", 3, "Trials", titles, rows, len(names) + 2)


def _tree(step: Step, depth: int) -> Iterator[str]:
    detail = f" ({escape(step.detail)})" if step.detail else ""
    sign = _STATES.get(step.state, "")
    yield f"{'  ' * depth}- {sign} {escape(step.kind)} {code(step.name)}: {escape(step.state)}{detail}"
    for part in step.parts:
        yield from _tree(part, depth + 1)


def _tracebacks(report: Report) -> Section:
    """The tracebacks of a failed job, the first one unfolded."""
    rows = [
        f"<details{' open' if number == 0 else ''}><summary>{_whose(one.origin, one.rank)}: {escape(one.message, most=300)}</summary>"
        f"{block(one.text, most=_OUTPUT)}</details>"
        for number, one in enumerate(report.tracebacks)
    ]
    return Section(name="the job's tracebacks", importance=6, head="### Tracebacks of the job\n", rows=rows)


def _tails(report: Report) -> Section:
    """The last lines of each log, folded; first those of the first traceback."""
    first = report.tracebacks[0].origin if report.tracebacks else None
    rows = [
        f"<details><summary>{_whose(one.origin, one.rank)}, {size(one.size)}</summary>"
        f"{block(chr(10).join(one.lines), most=_OUTPUT)}</details>"
        for one in sorted(report.logs, key=lambda one: one.origin != first)
    ]
    return Section(name="the last lines of the logs", importance=3, head="### Last lines of the logs\n", rows=rows)


def _whose(origin: str, rank: str) -> str:
    return f"{escape(rank_label(rank), most=100)} ({code(origin, most=200)})" if rank else code(origin, most=200)


def _number(value: Number | None, missing: str = "") -> str:
    return missing if value is None else number_text(value)


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
    return Section(name="the gate's rules", importance=8, head=f"### Gate{against}\n\n{titles}", rows=rows)


def _failures(report: Report) -> Section:
    rows = []
    for tests in report.tests:
        for failure in tests.failures:
            place = f"{failure.file}:{failure.line}" if failure.file and failure.line else failure.file
            rows.append(row(literal(failure.name, most=200), literal(place), literal(failure.message)))
    return Section(name="failed tests", importance=7, head=f"### Failed tests\n\n{head('test', 'at', '')}", rows=rows)


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
        name="other metrics that moved", importance=6, head=f"### Other metrics that moved\n\n{titles}", rows=rows
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
        name="what differs from the baseline", importance=6, head=f"### What differs\n\n{titles}", rows=rows
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
        rows.append(row("cost", f"{literal(report.cost.text, most=200)} {escape(report.cost.unknown)}".strip()))
    if model := report.model:
        more = [f"in {literal(model.stage)}" if model.stage else "", "registered earlier" if model.found else ""]
        more.append(f"with the passport {literal(model.passport)}" if model.passport else "")
        remark = "; ".join(filter(None, more))
        named = f"{literal(model.name)} version {literal(model.version, most=60)}"
        rows.append(row("model", f"{named} ({remark})" if remark else named))
    return Section(name="image, tests, job and data", importance=8, head=f"### Run\n\n{head('', '')}", rows=rows)


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
        name="curves", importance=4, head=f"### Metrics over steps\n\nFlat lines are limits.{second}\n", rows=drawn
    )


def _nodes(report: Report) -> Section:
    """The nodes of a pipeline, as drawing and table."""
    nodes = report.nodes
    graph = [GraphNode(name=one.name, needs=one.needs, environment=one.environment or "image") for one in nodes]
    seen = {one.name: NodeChanged(job="", node=one.name, run="", status=one.status) for one in nodes if one.status}
    rows = [flowchart(graph, seen) + "\n"] if 0 < len(nodes) <= _DRAWN and any(one.needs for one in nodes) else []
    rows += [head("node", "status", "environment", "ran for", "error")] if nodes else []
    for node in nodes:
        status = literal(node.status or "not run", most=60) + (", reused" if node.reused else "")
        word, _, image = node.environment.partition(" ")
        environment = "the tested image" + (f" {literal(image)}" if image else "")
        if word not in ("", "image"):
            environment = literal(node.environment, most=200)
        took = "" if node.seconds is None else duration(node.seconds)
        rows.append(row(literal(node.name, most=200), status, environment, took, literal(node.error)))
    return Section(name="the nodes", importance=5, head="### Nodes\n", rows=rows)


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
        head=f"### Checks of the image\n\n{head('', 'check', 'found', '')}",
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
