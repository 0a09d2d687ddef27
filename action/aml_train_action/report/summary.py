"""The job summary in GitHub's Markdown: the report of the run, and what only the run itself knows. Pure.

GitHub refuses a step's summary of more than 1 MiB as a whole: this one stays below whatever comes in, the least important parts
are cut first, and it says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aml_train.core.events import rank_label
from aml_train.core.text import duration, size
from aml_train.jobs.states import headline
from aml_train.report.pieces import block, code, escape, logged_tables
from aml_train.report.values import Report
from aml_train_action.report.markdown import Section, fit, left_out, message, sections_of
from aml_train_action.report.record import Record

_LINEAGE_SIGNS: Final = {"verified": "✅", "recorded": "📝", "unknown": "❔", "broken": "❌"}
LIMIT: Final = 1_048_576
#: What the notes about left-out parts may take.
_RESERVE: Final = 8_192
_OUTPUT: Final = 6000

_SIGNS: Final = {
    "passed": "✅",
    "submitted": "🕓",
    "valid": "✅",
    "planned": "📋",
    "checked": "✅",
    "promoted": "✅",
    "rolled-back": "↩️",
    "unchanged": "✅",
    "dry-run": "📋",
    "reported": "✅",
    "cancelled": "⚪",
    "timed-out": "⚪",
}

_LINEAGE: Final = "### Where the version comes from\n\n| | | | |\n|---|---|---|---|"


def render_summary(report: Report, record: Record, *, text: str = "", limit: int = LIMIT) -> str:
    """Return the summary, in less than *limit* bytes of UTF-8.

    Args:
        report: the report of the run.
        record: what the run has come to.
        text: what a command printed that is no run, such as the plan.
        limit: bytes.
    """
    sections = [
        _verdict(report),
        _message(record, text),
        Section(name="the promotion", importance=9, head="| | |\n|---|---|", rows=_promotion_rows(record)),
        _tracebacks(record),
        Section(name="the lineage", importance=5, head=_LINEAGE, rows=_lineage_rows(record)),
        *sections_of(report),
        _outputs(record),
        _tails(record),
        _logged(record),
        _stages(report),
    ]
    present = [section for section in sections if section.rows]
    fit(present, limit - _RESERVE)
    parts = [section.render() for section in present if section.rows]
    if gone := [*left_out(present), *map(escape, report.left_out)]:
        parts.append(f"_Left out, because a summary has no room for it: {', '.join(gone)}. The log has them._\n")
    return "\n".join(parts)


def _verdict(report: Report) -> Section:
    tail = "" if report.exit_code == 0 else f" (exit code {report.exit_code})"
    title = f"## {_SIGNS.get(report.status, '❌')} {escape(report.title, most=100)}: {escape(report.status, most=40)}{tail}\n"
    return Section(name="the verdict", importance=10, rows=[title])


def _message(record: Record, text: str) -> Section:
    # The job's logs have separate sections.
    said = headline(record.message) if record.logs is not None else record.message
    rows = [message(said, most=20_000) + "\n"] if said else []
    if record.hint:
        rows.append(message(record.hint, most=2000) + "\n")
    if text:
        rows.append(block(text, most=200_000))
    return Section(name="the message", importance=9, rows=rows)


def _outputs(record: Record) -> Section:
    """The output of the failed tests, folded."""
    tests = [*([record.tests] if record.tests else []), *record.tests_of_images.values()]
    rows = [
        f"<details><summary>{code(failure.name, most=200)}</summary>{block(failure.output, most=_OUTPUT)}</details>"
        for one in tests
        for failure in one.failures
        if failure.output
    ]
    return Section(name="output of failed tests", importance=3, head="### Output of failed tests\n", rows=rows)


def _tracebacks(record: Record) -> Section:
    """The tracebacks of a failed job, the first one unfolded."""
    found = record.logs.tracebacks if record.logs is not None and record.exit_code else ()
    rows = [
        f"<details{' open' if number == 0 else ''}><summary>{_whose(one.origin, one.rank)}: {escape(one.message, most=300)}</summary>"
        f"{block(one.text, most=_OUTPUT)}</details>"
        for number, one in enumerate(found)
    ]
    return Section(name="the job's tracebacks", importance=6, head="### Tracebacks of the job\n", rows=rows)


def _tails(record: Record) -> Section:
    """The last lines of each rank of a failed job, folded; first those of the first traceback."""
    logs = record.logs if record.exit_code else None
    first = logs.tracebacks[0].origin if logs is not None and logs.tracebacks else None
    rows = [
        f"<details><summary>{_whose(tail.origin, tail.rank)}, {size(tail.size)}</summary>"
        f"{block(chr(10).join(tail.lines), most=_OUTPUT)}</details>"
        for tail in sorted(logs.tails if logs is not None else (), key=lambda tail: tail.origin != first)
    ]
    return Section(name="the last lines of the logs", importance=3, head="### Last lines of the logs\n", rows=rows)


def _whose(origin: str, rank: str) -> str:
    return f"{escape(rank_label(rank), most=100)} ({code(origin, most=200)})" if rank else code(origin, most=200)


def _stages(report: Report) -> Section:
    rows = [
        f"| {escape(one.name)} | {'skipped' if one.skipped else duration(one.seconds or 0)} | {escape(one.summary, most=300)} |"
        for one in report.stages
    ]
    return Section(name="durations", importance=5, head="### Stages\n\n| stage | took | |\n|---|---:|---|", rows=rows)


def _logged(record: Record) -> Section:
    """Tables that azureml-core logged; each is kept or cut as a whole."""
    rows, more = logged_tables(record.tables), record.more_tables
    return Section(
        name="other logged values", importance=2, head="### Other logged values\n", rows=rows, cut=more if rows else 0
    )


def _promotion_rows(record: Record) -> list[str]:
    """Return the rows of the stage's table; none without a promotion."""
    facts = record.facts
    if "promotion" not in facts:
        return []
    would = facts["promotion"] == "dry-run"
    model, previous = str(facts["model"]), facts.get("previous_version")
    rows = [
        f"| stage | {code(str(facts['stage']))} |",
        f"| {'would be in it' if would else 'in it now'} | {code(model)} version {escape(str(facts['promoted_version']))} |",
    ]
    if previous:
        word = "would be archived" if would else "archived"
        rows.append(f"| {word} | {code(model)} version {escape(str(previous))} |")
    if record.promoted:
        rows.append(f"| asked for by | {escape(record.promoted.actor, most=200)} |")
    if record.reason:
        rows.append(f"| why | {escape(record.reason, most=500)} |")
    return rows


def _lineage_rows(record: Record) -> list[str]:
    """Return the rows of the version's lineage."""
    lineage = record.facts.get("lineage")
    if not isinstance(lineage, Mapping):
        return []
    return [
        f"| {_LINEAGE_SIGNS.get(str(step['state']), '')} {escape(str(step['state']))} | {'&nbsp;&nbsp;' * depth}{escape(str(step['kind']))} |"
        f" {code(str(step['name']), most=300)} | {escape(str(step['detail']), most=500)} |"
        for step, depth in _walk(lineage, 0)
    ]


def _walk(step: Mapping[str, Any], depth: int) -> Iterator[tuple[Mapping[str, Any], int]]:
    yield step, depth
    for part in step["parts"]:
        yield from _walk(part, depth + 1)
