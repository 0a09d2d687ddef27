"""The job summary in GitHub's Markdown: the report of the run, and what only the run itself knows. Pure.

GitHub refuses a step's summary of more than 1 MiB as a whole: this one stays below whatever comes in, the least important parts
are cut first, and it says what is missing.
"""

from __future__ import annotations

from typing import Final

from aml_train.report.markdown import Section, render_markdown
from aml_train.report.pieces import block, code, escape
from aml_train.report.record import RunRecord
from aml_train.report.values import Report

LIMIT: Final = 1_048_576
_OUTPUT: Final = 6000


def render_summary(report: Report, record: RunRecord, *, text: str = "", limit: int = LIMIT) -> str:
    """Return the summary, in less than *limit* bytes of UTF-8.

    Args:
        report: the report of the run.
        record: what the run has come to.
        text: what a command printed that is no run, such as the plan.
        limit: bytes.
    """
    more = [
        Section(name="the promotion", importance=9, head="| | |\n|---|---|", rows=_promotion_rows(record)),
        _outputs(record),
    ]
    return render_markdown(report, most=limit, text=text, more=more).decode()


def _outputs(record: RunRecord) -> Section:
    """The output of the failed tests, folded."""
    rows = [
        f"<details><summary>{code(name, most=200)}</summary>{block(output, most=_OUTPUT)}</details>"
        for found in record.outputs.values()
        for name, output in found
    ]
    return Section(name="output of failed tests", importance=3, head="### Output of failed tests\n", rows=rows)


def _promotion_rows(record: RunRecord) -> list[str]:
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
    if record.actor:
        rows.append(f"| asked for by | {escape(record.actor, most=200)} |")
    if record.reason:
        rows.append(f"| why | {escape(record.reason, most=500)} |")
    return rows
