"""The job summary in GitHub's Markdown: the report of the run, and what only the run itself knows. Pure.

GitHub refuses a step's summary of more than 1 MiB as a whole: this one stays below whatever comes in, the least important parts
are cut first, and it says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aml_train.report.markdown import block, render_markdown, render_section
from aml_train.report.record import RunRecord
from aml_train.report.sections import Cell, Pre, Section, Table, Word
from aml_train.report.values import Report

LIMIT: Final = 1_048_576
_MOST_OUTPUTS: Final = 20


def render_summary(report: Report, record: RunRecord, *, text: str = "", limit: int = LIMIT) -> str:
    """Return the summary, in at most *limit* bytes of UTF-8.

    Args:
        report: the report of the run.
        record: what the run has come to.
        text: what a command printed that is no run, such as the plan.
        limit: bytes.
    """
    # A character takes at most six bytes.
    more = [block(text, most=limit // 32) + "\n"] if text else []
    if rows := list(_promotion(record)):
        table = Table(title="Promotion", head=[Word("")] * 2, rows=rows)
        more.append(render_section(Section(name="promotion", title="Promotion", blocks=[table])))
    failures = [one for tests in record.report.tests for one in tests.failures if one.output][:_MOST_OUTPUTS]
    if failures:
        most = limit // 32 // len(failures)
        outputs = [Pre(text=one.output[-most:], summary=(one.name,)) for one in failures]
        more.append(render_section(Section(name="outputs", title="Output of failed tests", blocks=outputs)))
    return render_markdown(report, most=limit, more=more).decode()


def _promotion(record: RunRecord) -> Iterator[tuple[Cell, Cell]]:
    """Yield the rows of the stage's table; none without a promotion."""
    facts = record.facts
    if "promotion" not in facts:
        return
    would = facts["promotion"] == "dry-run"
    yield Word("stage"), str(facts["stage"])
    if workspace := facts.get("workspace"):
        yield Word("workspace"), str(workspace)
    if source := facts.get("source_version"):
        yield Word("copy of"), f"{facts['model']} version {source}"
    yield Word("would be in it" if would else "in it now"), f"{facts['model']} version {facts['promoted_version']}"
    if previous := facts.get("previous_version"):
        yield Word("would be archived" if would else "archived"), f"{facts['model']} version {previous}"
    if record.actor:
        yield Word("asked for by"), record.actor
    if record.reason:
        yield Word("why"), record.reason
