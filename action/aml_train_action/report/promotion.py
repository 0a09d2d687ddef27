"""What a promotion looks like in the job summary: who is in the stage now, and where that version comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aml_train_action.report.markdown import code, escape
from aml_train_action.report.record import Record

_STATES: Final = {"verified": "✅", "recorded": "📝", "unknown": "❔", "broken": "❌"}


def promotion_rows(record: Record) -> list[str]:
    """Return the rows of the table of the stage; none where nothing was promoted or would have been."""
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


def lineage_rows(record: Record) -> list[str]:
    """Return the rows of the table of where the version comes from."""
    lineage = record.facts.get("lineage")
    if not isinstance(lineage, Mapping):
        return []
    return [
        f"| {_STATES.get(str(step['state']), '')} {escape(str(step['state']))} | {'&nbsp;&nbsp;' * depth}{escape(str(step['kind']))} |"
        f" {code(str(step['name']), most=300)} | {escape(str(step['detail']), most=500)} |"
        for step, depth in _walk(lineage, 0)
    ]


def _walk(step: Mapping[str, Any], depth: int) -> Iterator[tuple[Mapping[str, Any], int]]:
    yield step, depth
    for part in step["parts"]:
        yield from _walk(part, depth + 1)
