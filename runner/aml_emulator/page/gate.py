"""Decisions of aml-train's gate, from tags of runs and models.

A job and a model version have the verdict (``aml-train.gate``) and each rule with value and limit (``aml-train.gate-rules``), a job
also ``aml-train.verdict.BRANCH`` for each branch whose runs read its metrics: docs/gate.md, docs/promotion.md. Tags can be changed by
hand, so that a value of another form is shown as it is, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.page.charts import text

TAG_GATE: Final = "aml-train.gate"
TAG_VERDICT: Final = "aml-train.verdict."
TAG_RULES: Final = "aml-train.gate-rules"
TAG_BASELINE: Final = "aml-train.baseline"

WORDS: Final = frozenset({"passed", "failed", "none", "skipped", "met", "missed", "warned"})
"""The words of gates and rules that the stylesheet knows."""

VERDICTS: Final = 50
"""Branches that are listed."""


@dataclass(frozen=True)
class Rule:
    """A rule of the gate, with its words as they are shown."""

    metric: str
    text: str
    value: str
    limit: str
    verdict: str


@dataclass(frozen=True, kw_only=True)
class BranchVerdict:
    """The gate's decision for a run of a branch, empty for none, and the rules that it was decided by."""

    branch: str
    word: str
    at: str
    commit: str
    repository: str
    configuration: str
    rules: Sequence[Rule]
    more: str


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The gate of a run or of a model version.

    Attributes:
        word: the verdict; empty if only rules are known.
        rules: those that are stored, and *more* says how many are not.
    """

    word: str
    baseline: str = ""
    verdicts: Sequence[BranchVerdict] = ()
    rules: Sequence[Rule] = ()
    more: str = ""


def gate_of(tags: Mapping[str, str]) -> Gate | None:
    """Return the gate's decision on a run or a model version, None if there is none."""
    verdicts = _verdicts(tags)
    rules, more = _rules(_json(tags.get(TAG_RULES, ""), list))
    if TAG_GATE not in tags and not rules and not verdicts:
        return None
    word, baseline = tags.get(TAG_GATE, ""), tags.get(TAG_BASELINE, "")
    return Gate(word=word, baseline=baseline, verdicts=verdicts, rules=rules, more=more)


def _rules(entries: object) -> tuple[tuple[Rule, ...], str]:
    """Return the rules of a tag, and what is said of further ones."""
    found: list[Rule] = []
    more = ""
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, list) and len(entry) == 5:
            metric, rule, value, limit, verdict = entry
            found.append(Rule(str(metric), str(rule), _number(value), _number(limit), str(verdict)))
        elif isinstance(entry, str):
            more = entry
    return tuple(found), more


def texts(values: object) -> dict[str, str]:
    """Return tags or properties by name, as text."""
    return {key: str(value) for key, value in sorted(values.items())} if isinstance(values, Mapping) else {}


def _verdicts(tags: Mapping[str, str]) -> tuple[BranchVerdict, ...]:
    """Return the verdicts of branches, the last first."""
    found = []
    for tag, value in tags.items():
        if not tag.startswith(TAG_VERDICT):
            continue
        given = _json(value, dict) or {}
        known = {name: str(given.get(name) or "") for name in ("at", "commit", "repository", "configuration")}
        rules, more = _rules(given.get("rules"))
        word = str(given.get("gate") or "unreadable")
        branch = tag.removeprefix(TAG_VERDICT)
        found.append(BranchVerdict(branch=branch, word=word, rules=rules, more=more, **known))
    return tuple(sorted(found, key=lambda one: (one.at, one.branch), reverse=True)[:VERDICTS])


def _number(value: Any) -> str:
    """Return a value or limit: a number, the name of one that JSON has not, or none."""
    if value is None:
        return "—"
    return (
        text(float(value), digits=6) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
    )


def _json(value: str, kind: type) -> Any:
    """Return the value of a tag, None if it is nothing of that kind."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, kind) else None
