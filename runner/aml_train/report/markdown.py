"""A report as Markdown that GitHub renders, for releases and comments. Pure.

All names and texts are foreign: they are shown literally. Images are not in it, because Markdown cannot hold them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from aml_train.core import tables
from aml_train.core.events import GraphNode, NodeChanged
from aml_train.core.text import duration, size
from aml_train.core.version import __version__
from aml_train.report.graphs import shallow
from aml_train.report.html import facts_of, number_text, verdict_of
from aml_train.report.pieces import block, chart, code, escape, flowchart, link, logged_tables
from aml_train.report.values import Baseline, Curve, Part, Report, Step, fitted

MOST_MARKDOWN: Final = 120_000
"""The most of a report as Markdown, in bytes: a release's notes have room for 125,000 characters."""

_CHARTS: Final = 20
_DRAWN: Final = 100
_LOG: Final = 4_000
_SIGNS: Final[Mapping[str, str]] = {"good": "✅", "bad": "❌", "warn": "⚠️", "muted": "ℹ️"}
_VERDICTS: Final[Mapping[str, str]] = {"met": "✅", "missed": "❌", "warned": "⚠️", "skipped": "⏭️"}
_STATES: Final[Mapping[str, str]] = {"verified": "✅", "recorded": "📝", "unknown": "❔", "broken": "❌"}


def render_markdown(report: Report, *, most: int = MOST_MARKDOWN) -> bytes:
    """Return *report* as Markdown of at most *most* bytes.

    The least important parts of a larger one are left out, and it says which.

    Raises:
        ValueError: the verdict, the rules and the comparison alone are larger.
    """
    return fitted(report, _render, most=most)


def _render(report: Report) -> bytes:
    return ("\n\n".join(part.strip("\n") for part in _parts(report) if part.strip()) + "\n").encode()


def _parts(report: Report) -> Iterator[str]:
    word, colour = verdict_of(report)
    yield f"## {_SIGNS[colour]} {escape(report.title, most=200)}: {escape(word, most=100)}"
    yield _text(report.message)
    yield escape(report.hint, most=2_000)
    yield _table(("", ""), ((escape(name), code(value)) for name, value in facts_of(report) if value))
    urls = {"open the job": report.job.url if report.job else "", "open the run": report.source.run_url}
    yield " · ".join(link(text, url) for text, url in urls.items() if url)
    yield from _missing(report, "job")
    yield from _section("Gate", _gate(report), _missing(report, "gate"))
    yield from _section("Compared with the baseline", _baseline(report), _missing(report, "baseline"))
    yield from _section("Curves", _curves(report.curves), _missing(report, "curves"))
    metrics = ((code(name), number_text(value)) for name, value in report.metrics.items())
    yield from _section("Metrics", [_table(("metric", "last value"), metrics, 1)], _missing(report, "metrics"))
    yield from _section("Nodes", _nodes(report), _missing(report, "nodes"))
    yield from _section("Trials", [_trials(report)], _missing(report, "trials"))
    yield from _section("Logged tables", _logged(report), _missing(report, "tables"))
    pictures = ", ".join(code(one.name) for one in report.pictures)
    pictures = f"{pictures}: the report in HTML shows them." if pictures else ""
    yield from _section("Images that the job wrote", [pictures], _missing(report, "pictures"))
    yield from _section("Data and parameters", [_parameters(report)], _missing(report, "parameters"))
    yield from _section("Lineage", _lineage(report), _missing(report, "model", "lineage"))
    yield from _section("Environment", _environment(report), _missing(report, "images", "packages"))
    yield from _section("Run and cost", _run(report), _missing(report, "attempts", "cost"))
    yield from _section("Last lines of the logs", _logs(report), _missing(report, "logs"))
    yield from _section("The same again", [block(report.reproduce, most=4_000) if report.reproduce else ""])
    yield from _section("Remarks", [_remarks(report)])
    yield f"_Made {report.created:%Y-%m-%d %H:%M %Z} by aml-train {escape(__version__)}._"


def _section(title: str, parts: Iterable[str], missing: Iterable[str] = ()) -> Iterator[str]:
    found = [part for part in (*missing, *parts) if part]
    if found:
        yield f"### {title}"
        yield from found


def _missing(report: Report, *parts: Part) -> list[str]:
    return [f"> ⚠️ Not known: {escape(one.reason, most=2_000)}" for one in report.missing if one.part in parts]


def _text(text: str) -> str:
    return block(text, most=10_000) if "\n" in text else escape(text, most=10_000)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *numbers: int) -> str:
    """Return a table; its cells are Markdown already."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    rule = "|".join("---:" if place in numbers else "---" for place in range(len(head)))
    return "\n".join([f"| {' | '.join(map(escape, head))} |", f"|{rule}|", *lines])


def _gate(report: Report) -> Iterator[str]:
    rows = (
        (
            _VERDICTS[rule.verdict],
            code(rule.metric, most=200),
            code(rule.rule, most=100),
            "missing" if rule.value is None else number_text(rule.value),
            "" if rule.baseline is None else number_text(rule.baseline),
            escape(rule.reason),
        )
        for rule in report.rules
    )
    table = _table(("", "metric", "wanted", "value", "baseline", ""), rows, 3, 4)
    yield table or (f"The gate's verdict is {report.gate}." if report.gate else "")


def _baseline(report: Report) -> Iterator[str]:
    for one in (*([report.baseline] if report.baseline else []), *report.others):
        yield from _comparison(one)


def _comparison(one: Baseline) -> Iterator[str]:
    yield escape(one.title)
    rows = ((code(row.name), escape(row.left), escape(row.right), escape(row.difference)) for row in one.rows)
    yield _table(("", "this job", "other side", "difference"), rows, 1, 2)


def _curves(curves: Sequence[Curve]) -> Iterator[str]:
    drawn = 0
    for curve in curves:
        if drawn == _CHARTS:
            yield f"Of {len(curves)} curves, {_CHARTS} are drawn."
            return
        lines = [one.points for one in curve.series]
        text = chart(curve.metric, lines[0], curve.limits, lines[1] if len(lines) > 1 else ()) if lines else ""
        if text:
            drawn += 1
            if len(lines) > 1:
                yield f"{escape(curve.series[0].title)}, then {escape(curve.series[1].title)}:"
            yield text


def _nodes(report: Report) -> Iterator[str]:
    nodes = report.nodes
    if 0 < len(nodes) <= _DRAWN and any(node.needs for node in nodes):
        graph = [GraphNode(name=one.name, needs=one.needs, environment=one.environment or "image") for one in nodes]
        seen = {
            one.name: NodeChanged(job="", node=one.name, run=one.run, status=one.status)
            for one in nodes
            if one.status
        }
        yield flowchart(graph, seen)
    rows = (
        (
            code(one.name),
            f"{escape(one.status or 'not run')}{', reused' if one.reused else ''}",
            escape(one.environment),
            "" if one.seconds is None else duration(one.seconds),
            escape(one.error),
        )
        for one in nodes
    )
    yield _table(("node", "status", "environment", "ran for", "error"), rows)


def _trials(report: Report) -> str:
    names = list(dict.fromkeys(name for trial in report.trials for name in trial.parameters))
    rows = (
        (
            f"{code(one.name)}{' 🏆 best' if one.best else ''}",
            escape(one.status),
            *(escape(one.parameters.get(name, "")) for name in names),
            "" if one.value is None else number_text(one.value),
        )
        for one in report.trials
    )
    return _table(("trial", "status", *names, report.objective or "value"), rows, len(names) + 2)


def _logged(report: Report) -> list[str]:
    found = [
        tables.Table(
            name=one.name,
            kind=one.kind,
            head=one.head,
            rows=one.rows,
            total=len(one.rows),
            columns=len(one.head),
            note=one.more,
        )
        for one in report.tables
        if one.rows
    ]
    return logged_tables(found)


def _parameters(report: Report) -> str:
    kinds = {"data": report.data, "input": report.parameters, "logged": report.logged, "variable": report.variables}
    rows = ((escape(kind), code(name), code(value)) for kind, found in kinds.items() for name, value in found.items())
    return _table(("", "name", "value"), rows)


def _lineage(report: Report) -> Iterator[str]:
    if report.model is not None:
        model = report.model
        stage = f", in {escape(model.stage)}" if model.stage else ""
        passport = f" Its passport is {code(model.passport)}." if model.passport else ""
        yield f"The model {code(model.name)}, version {escape(model.version)}{stage}.{passport}"
    if report.lineage is not None:
        yield "\n".join(_tree(shallow(report.lineage), 0))


def _tree(step: Step, depth: int) -> Iterator[str]:
    detail = f" ({escape(step.detail)})" if step.detail else ""
    sign = _STATES.get(step.state, "")
    yield f"{'  ' * depth}- {sign} {escape(step.kind)} {code(step.name)}: {escape(step.state)}{detail}"
    for part in step.parts:
        yield from _tree(part, depth + 1)


def _environment(report: Report) -> Iterator[str]:
    for image in report.images:
        name = f" {code(image.name)}" if image.name else ""
        how = f" ({escape(image.how)})" if image.how else ""
        digest = "" if not image.digest or image.digest in image.reference else f", {code(image.digest)}"
        yield f"Image{name}: {code(image.reference)}{digest}{how}"
        rows = (
            (code(one.name), escape(one.before or "missing"), escape(one.after or "missing")) for one in image.changes
        )
        yield _table(("package", "baseline", "this image"), rows)
        if image.more_changes:
            yield f"{image.more_changes} more packages differ."
    tests = (
        (
            escape(one.image_name or "image"),
            *("" if count is None else str(count) for count in (one.passed, one.failed, one.skipped)),
        )
        for one in report.tests
    )
    yield _table(("tests in", "passed", "failed", "skipped"), tests, 1, 2, 3)
    if report.packages:
        lines = "\n".join(f"{one.kind} {one.name} {one.version}".strip() for one in report.packages)
        text = block(lines, most=40_000)
        yield f"<details><summary>{len(report.packages)} packages</summary>{text}</details>"


def _run(report: Report) -> Iterator[str]:
    if report.cost is not None:
        yield f"Cost: {escape(report.cost.text)}. {escape(report.cost.unknown)}".strip()
    if report.job is not None:
        yield escape(report.job.utilisation, most=2_000)
        yield block(report.job.error, most=10_000) if report.job.error else ""
    attempts = ((str(one.attempt), code(one.job), escape(one.status), escape(one.ending)) for one in report.attempts)
    yield _table(("attempt", "job", "status", "ending"), attempts, 0)
    stages = (
        (
            escape(one.name),
            "skipped" if one.skipped else "not finished" if one.seconds is None else duration(one.seconds),
            escape(one.summary),
        )
        for one in report.stages
    )
    yield _table(("stage", "took", ""), stages)


def _logs(report: Report) -> Iterator[str]:
    for log in report.logs:
        rank = f", rank {escape(log.rank)}" if log.rank else ""
        lines = block("\n".join(log.lines), most=_LOG)
        yield f"<details><summary>{code(log.origin)}{rank}, {size(log.size)}</summary>{lines}</details>"


def _remarks(report: Report) -> str:
    left_out = [f"Left out for lack of room: {', '.join(report.left_out)}."] if report.left_out else []
    return "\n".join(f"- {escape(one, most=2_000)}" for one in (*report.notices, *left_out))
