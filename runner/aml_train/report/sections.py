"""What a report says, in which order and words: sections that each form renders. Pure.

A cell that is plain text is foreign, and is shown literally; words of this product are a :class:`Word`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aml_train.core.answers import json_number
from aml_train.core.comparison import Row
from aml_train.core.events import GraphNode, rank_label
from aml_train.core.tables import grouped
from aml_train.core.text import duration, size
from aml_train.models.lineage import LineageStep
from aml_train.report.values import Baseline, Curve, Part, Picture, Report

_DEEPEST: Final = 12
"""Levels of a lineage that are shown; those of aml-train have five."""

_MOST_FAILURES: Final = 100
_COLOURS: Final[Mapping[str, str]] = {
    "passed": "good",
    "completed": "good",
    "promoted": "good",
    "skipped": "warn",
    "running": "warn",
    "cancelled": "warn",
    "canceled": "warn",
    "timed-out": "warn",
}
_VERDICTS: Final = {"met": "good", "missed": "bad", "warned": "warn", "skipped": "muted"}
_STATES: Final = {"verified": "good", "recorded": "muted", "unknown": "warn", "broken": "bad"}
_LEVELS: Final = {"error": "bad", "warning": "warn"}


@dataclass(frozen=True)
class Word:
    """Words of ours; *colour* is ``good``, ``bad``, ``warn`` or ``muted``, or empty."""

    text: str
    colour: str = ""


@dataclass(frozen=True)
class Link:
    """A link with words of ours to an address of foreign origin, which each form checks."""

    text: str
    url: str


Cell = str | float | Word | Link | None
"""A foreign text, a number, words of ours, or nothing."""


@dataclass(frozen=True)
class Line:
    """A paragraph."""

    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows below titles; *numbers* are the columns of numbers. *folded* ones are hidden until they are asked for."""

    title: str
    head: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    numbers: Sequence[int] = ()
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class Pre:
    """Lines of foreign text; with a *summary*, folded, and maybe *unfolded*."""

    text: str
    summary: tuple[Cell, ...] = ()
    unfolded: bool = False


@dataclass(frozen=True)
class Graph:
    """The nodes of a pipeline and their needs, drawn where the form can."""

    nodes: Sequence[GraphNode]


@dataclass(frozen=True)
class Charts:
    """Metrics over steps."""

    curves: Sequence[Curve]


@dataclass(frozen=True)
class Tree:
    """A lineage: each step with its depth."""

    steps: Sequence[tuple[int, tuple[Cell, ...]]]


@dataclass(frozen=True)
class Pictures:
    """Images that the job wrote."""

    pictures: Sequence[Picture]


Block = Line | Table | Pre | Graph | Charts | Tree | Pictures


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the text: its name, its title, and what it shows."""

    name: str
    title: str
    blocks: Sequence[Block]


def sections_of(report: Report) -> list[Section]:
    """Return the sections that have something to say, or of which something is missing, in their order."""
    found: tuple[tuple[str, str, Iterator[Block], tuple[Part, ...]], ...] = (
        ("tracebacks", "Tracebacks of the job", _tracebacks(report), ()),
        ("gate", "Gate", _gate(report), ("gate",)),
        ("replicates", "Replicates", _replicates(report), ("replicates",)),
        ("failures", "Failed tests", _failures(report), ()),
        ("baseline", "Compared with the baseline", _compared(report), ("baseline",)),
        ("run", "Run", _run(report), ("job", "images", "attempts", "cost", "model")),
        ("origin", "Origin", _origin(report), ()),
        ("curves", "Metrics over steps", _curves(report), ("curves",)),
        ("nodes", "Nodes", _nodes(report), ("nodes",)),
        ("trials", "Trials", _trials(report), ("trials",)),
        ("checks", "Checks of the image", _checks(report), ()),
        ("metrics", "Metrics", _metrics(report), ("metrics",)),
        ("tables", "Other logged values", _tables(report), ("tables",)),
        ("pictures", "Images that the job wrote", _pictures(report), ("pictures",)),
        ("parameters", "Parameters", _parameters(report), ("parameters",)),
        ("lineage", "Lineage", _lineage(report), ("lineage",)),
        ("packages", "Packages", _packages(report), ("packages",)),
        ("logs", "Last lines of the logs", _logs(report), ("logs",)),
        ("stages", "Stages", _stages(report), ()),
        ("notices", "Remarks", _notices(report), ()),
        ("reproduce", "The same again", _reproduce(report), ()),
    )
    made = []
    for name, title, blocks, parts in found:
        missing = [Line((Word("Not known:", "warn"), one.reason)) for one in report.missing if one.part in parts]
        if shown := [*missing, *blocks]:
            made.append(Section(name=name, title=title, blocks=shown))
    return made


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], *numbers: int) -> Iterator[Table]:
    """Yield a table whose titles are words of ours; none without rows."""
    if rows:
        yield Table(title=title, head=[Word(one) for one in head], rows=rows, numbers=numbers)


def _took(seconds: float | None) -> Cell:
    return None if seconds is None or not math.isfinite(seconds) else Word(duration(seconds))


def number_text(value: float) -> str:
    """Return a number of a report for people: six digits, or its name."""
    return f"{value:.6g}" if math.isfinite(value) else str(json_number(value))


def verdict_of(report: Report) -> tuple[str, str]:
    """Return the report's verdict in a word, and its colour."""
    word = report.status
    if word == "job":
        word = report.job.status if report.job is not None else "unknown"
        if report.gate:
            word = f"gate {report.gate}"
    failed = "failed" in word.lower() or report.exit_code not in (0, 7)
    key = word.lower().removeprefix("gate ")
    return word, "bad" if failed else _COLOURS.get(key, "muted")


def _metric_rows(report: Report) -> Mapping[str, Row]:
    """Return the metrics that are compared with the baseline's, by their names."""
    return {row.name: row for row in (report.baseline.rows if report.baseline else ()) if row.kind == "metric"}


def _gate(report: Report) -> Iterator[Block]:
    if report.baseline:
        yield Line((Word("The baseline is"), report.baseline.title))
    if report.gate and not report.rules:
        yield Line((Word("The gate's verdict is"), Word(report.gate)))
    compared, none = _metric_rows(report), Row(kind="metric", name="", left="", right="")
    rows = [
        (
            Word(rule.verdict, _VERDICTS[rule.verdict]),
            rule.metric,
            rule.rule,
            Word("missing") if rule.value is None else rule.value,
            rule.limit,
            compared.get(rule.metric, none).right,
            compared.get(rule.metric, none).difference,
            rule.reason,
            rule.where,
        )
        for rule in sorted(report.rules, key=lambda one: one.verdict != "missed")
    ]
    head = ("verdict", "metric", "wanted", "value", "limit", "baseline", "difference", "reason", "rule at")
    yield from _table("Rules of the gate", head, rows, 3, 4, 5, 6)
    found = [(one.label, one.rule.reason, Word(one.effect), one.rule.where) for one in report.stops]
    yield from _table("Rules of `watch.stop` that were found", ("rule", "found", "effect", "rule at"), found)


def _replicates(report: Report) -> Iterator[Block]:
    names = list(dict.fromkeys(name for one in report.replicates for name in one.metrics))
    rows = [(one.replicate, one.job, one.status, *map(one.metrics.get, names)) for one in report.replicates]
    if rows:
        head: list[Cell] = [Word("replicate"), Word("job"), Word("status"), *names]
        yield Table(title="Replicates", head=head, rows=rows, numbers=range(3, len(head)))


def _failures(report: Report) -> Iterator[Block]:
    failures = [one for tests in report.tests for one in tests.failures]
    rows = [
        (one.name, f"{one.file}:{one.line}" if one.file and one.line else one.file, one.message)
        for one in failures[:_MOST_FAILURES]
    ]
    yield from _table("Failed tests", ("test", "at", "message"), rows)
    if len(failures) > len(rows):
        yield Line((Word(f"And {len(failures) - len(rows)} more."),))


def _compared(report: Report) -> Iterator[Block]:
    gated = {rule.metric for rule in report.rules}
    if report.baseline:
        yield from _differences(report.baseline, [one for one in report.baseline.rows if one.name not in gated])
    for other in report.others:
        yield from _differences(other, other.rows)


def _differences(other: Baseline, rows: Sequence[Row]) -> Iterator[Block]:
    different = [(one.name, one.left, one.right, one.difference) for one in rows if not one.same]
    if rows:
        same = len(rows) - len(different)
        yield Line((Word("Compared with"), other.title, Word(f"(the same: {same})" if same else "")))
    yield from _table("What differs", ("", "this job", "other side", "difference"), different)


def _run(report: Report) -> Iterator[Block]:
    rows: list[tuple[Cell, Cell, Cell]] = []
    for image in report.images:
        label = f"image {image.image_name}" if image.image_name else Word("image")
        rows.append((label, image.reference, Word(image.origin)))
        if image.digest and image.digest not in image.reference:
            rows.append((Word("digest"), image.digest, None))
    if report.job and not report.images:
        rows.append((Word("image"), Word("the job's own environment: given, not tested"), None))
    for tests in report.tests:
        label = f"tests in {tests.image_name}" if tests.image_name else Word("tests")
        rows.append(
            (
                label,
                Word(tests.counts),
                Word("recorded earlier in this very image") if tests.cached else _took(tests.seconds),
            )
        )
    if job := report.job:
        rows.append((Word("job"), job.name, Link("open the job", job.url)))
        rows.append((Word("status"), job.status, Word("attached" if job.attached else "")))
        kind = job.kind if job.kind not in ("", "command") else ""
        rows += [(Word("kind"), kind, None)] if kind else []
        rows += [(Word("experiment"), job.experiment, None)] if job.experiment else []
        rows += [(Word("compute"), job.compute, None)] if job.compute else []
        rows += [(Word("ran for"), _took(job.seconds), None)] if job.seconds is not None else []
    attempts = report.attempts if len(report.attempts) > 1 else ()
    rows += [(Word(f"attempt {one.attempt}"), one.job, one.how) for one in attempts]
    rows += [(f"data {name}", place, None) for name, place in report.data.items()]
    if report.cost:
        rows.append((Word("cost"), report.cost.text, report.cost.unknown))
    if model := report.model:
        more = [f"in {model.stage}" if model.stage else "", "registered earlier" if model.found else ""]
        rows.append((Word("model"), f"{model.name} version {model.version}", "; ".join(filter(None, more))))
        rows += [(Word("passport"), model.passport, None)] if model.passport else []
    yield from _table("The run", ("", "", ""), rows)
    if report.job and report.job.error:
        yield Pre(text=report.job.error)


def _origin(report: Report) -> Iterator[Block]:
    source, job = report.source, report.job
    created = job.created.strftime("%Y-%m-%d %H:%M:%S %Z") if job is not None and job.created is not None else ""
    facts: tuple[tuple[str, Cell], ...] = (
        ("configuration", report.configuration),
        ("target", report.target),
        ("repository", source.repository),
        ("commit", source.commit),
        ("branch", source.branch),
        ("pull request", source.pull_request and str(source.pull_request)),
        ("job created", created),
    )
    rows: list[tuple[Cell, Cell, Cell]] = [(Word(name), value, None) for name, value in facts if value]
    rows += [(Word("workflow"), source.run_url, Link("open the run", source.run_url))] if source.run_url else []
    yield from _table("The origin of the run", ("", "", ""), rows)


def _curves(report: Report) -> Iterator[Block]:
    if report.curves:
        yield Charts(report.curves)


def _nodes(report: Report) -> Iterator[Block]:
    if any(node.needs for node in report.nodes):
        yield Graph(report.nodes)
    rows = []
    for node in report.nodes:
        word, _, image = node.environment.partition(" ")
        environment: Cell = node.environment
        if word == "image":
            environment = f"the tested image {image}" if image else Word("the tested image")
        status = f"{node.status or 'not run'}{', reused' if node.reused else ''}"
        rows.append((node.name, status, ", ".join(node.needs), environment, _took(node.seconds), node.error))
    yield from _table("Nodes", ("node", "status", "needs", "environment", "ran for", "error"), rows)


def _trials(report: Report) -> Iterator[Block]:
    names = list(dict.fromkeys(name for trial in report.trials for name in trial.parameters))
    rows = [
        (
            one.name,
            Word("best", "good") if one.best else None,
            one.status,
            *(one.parameters.get(name, "") for name in names),
            one.value,
            _took(one.seconds),
        )
        for one in report.trials
    ]
    if rows:
        head = (Word("trial"), Word(""), Word("status"), *names, report.objective or Word("value"), Word("ran for"))
        yield Table(title="Trials", head=head, rows=rows, numbers=(len(names) + 3,))


def _checks(report: Report) -> Iterator[Block]:
    rows = [
        (
            Word(one.counts_as, _LEVELS[one.counts_as]),
            one.check,
            one.what,
            "; ".join(filter(None, (one.why, one.remedy))),
        )
        for one in report.checks
        if one.counts_as in _LEVELS
    ]
    yield from _table("Checks of the image", ("level", "check", "found", ""), rows)


def _metrics(report: Report) -> Iterator[Block]:
    shown = {rule.metric for rule in report.rules}
    shown |= {name for name, row in _metric_rows(report).items() if not row.same}
    rows = [(name, value) for name, value in report.metrics.items() if name not in shown]
    for table in _table("Last values of the metrics", ("metric", "last value"), rows, 1):
        yield replace(table, folded=bool(shown))


def _tables(report: Report) -> Iterator[Block]:
    texts, lists, others = grouped(one for one in report.tables if one.rows)
    rows = [(one.name, one.value, one.more) for one in texts]
    yield from _table("Logged texts", ("logged", "value", ""), rows)
    if lists:
        head: tuple[Cell, ...] = (Word("list"), *lists[0].head, Word(""))
        yield Table(title="Logged lists", head=head, rows=[(one.name, *one.rows[0], one.more) for one in lists])
    for one in others:
        yield Line((Word("Confusion matrix" if one.kind == "matrix" else "Table"), one.name, one.more))
        numbers = range(1, len(one.head)) if one.kind == "matrix" else ()
        yield Table(title="Logged table", head=one.head, rows=one.rows, numbers=numbers)


def _pictures(report: Report) -> Iterator[Block]:
    if report.pictures:
        yield Pictures(report.pictures)


def _parameters(report: Report) -> Iterator[Block]:
    kinds = {"input": report.parameters, "logged": report.logged, "variable": report.variables}
    rows = [(Word(kind), name, value) for kind, found in kinds.items() for name, value in found.items()]
    yield from _table("Parameters", ("", "name", "value"), rows)


def _lineage(report: Report) -> Iterator[Block]:
    if report.lineage is not None:
        yield Tree(list(_steps(report.lineage, 0)))


def _steps(step: LineageStep, depth: int) -> Iterator[tuple[int, tuple[Cell, ...]]]:
    yield depth, (Word(step.state, _STATES[step.state]), step.kind, step.name, step.detail)
    for part in step.parts if depth < _DEEPEST else ():
        yield from _steps(part, depth + 1)


def _packages(report: Report) -> Iterator[Block]:
    changes = [(one.name, one.left, one.right) for one in report.package_changes]
    yield from _table("Packages that differ", ("package", "this image", "baseline"), changes)
    listed = list(report.packages.items())
    for table in _table(f"{len(listed)} packages", ("package", "version"), listed):
        yield replace(table, folded=True)


def _tracebacks(report: Report) -> Iterator[Block]:
    for number, one in enumerate(report.tracebacks):
        yield Pre(text=one.text, summary=(*_whose(one.origin, one.rank), one.message), unfolded=number == 0)


def _logs(report: Report) -> Iterator[Block]:
    """The last lines of each log, folded; first those of the first traceback."""
    first = report.tracebacks[0].origin if report.tracebacks else None
    for one in sorted(report.logs, key=lambda one: one.origin != first):
        summary = (*_whose(one.origin, one.rank), Word(f"the last {len(one.lines)} lines of {size(one.size)}"))
        yield Pre(text="\n".join(one.lines), summary=summary)


def _whose(origin: str, rank: str) -> tuple[Cell, ...]:
    return (rank_label(rank), origin) if rank else (origin,)


def _stages(report: Report) -> Iterator[Block]:
    rows = [
        (Word(one.stage), Word("skipped") if one.skipped else _took(one.seconds), one.summary)
        for one in report.stages
    ]
    yield from _table("Stages of the run", ("stage", "took", ""), rows)


def _notices(report: Report) -> Iterator[Block]:
    rows = [(one,) for one in report.notices if one.strip()]
    yield from _table("Remarks", ("remark",), rows)
    if report.left_out:
        yield Line((Word("Left out for lack of room, in whole or in part:"), ", ".join(report.left_out)))


def _reproduce(report: Report) -> Iterator[Block]:
    if report.reproduce:
        yield Pre(text=report.reproduce)
