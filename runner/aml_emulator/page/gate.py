"""Decisions of aml-train's gate, from tags of runs and models.

A job has the verdict (``aml-train.gate``, and ``aml-train.verdict.BRANCH`` for each branch whose runs read its metrics), a model
version each rule with value and limit (``aml-train.gate-rules``): docs/gate.md, docs/promotion.md. Tags can be changed by hand, so that
a value of another form is shown as it is, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from aml_emulator.context import Context
from aml_emulator.page.charts import text
from aml_emulator.store.runs import Run

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
    """The gate's decision for a run of a branch."""

    branch: str
    word: str
    at: str
    commit: str
    repository: str
    configuration: str


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The gate of a run or of a model version.

    Attributes:
        word: the verdict; empty if only rules are known.
        rules: those that are stored, and *more* says how many are not.
        model: the name and version that the rules are stored with.
    """

    word: str
    baseline: str = ""
    verdicts: Sequence[BranchVerdict] = ()
    rules: Sequence[Rule] = ()
    more: str = ""
    model: tuple[str, str] | None = None


def gate_of_run(context: Context, run: Run) -> Gate | None:
    """Return the gate's decision on a run, None if there is none."""
    verdicts = _verdicts(run.tags)
    if TAG_GATE not in run.tags and not verdicts:
        return None
    made = Gate(word=run.tags.get(TAG_GATE, ""), baseline=run.tags.get(TAG_BASELINE, ""), verdicts=verdicts)
    for one in context.store.listing.models([run.id])[run.id]:
        model = context.store.assets.version("models", one.name, one.version)
        rules, more = rules_of(texts(model.properties.get("tags"))) if model else ((), "")
        if rules:
            return replace(made, rules=rules, more=more, model=(one.name, one.version))
    return made


def gate_of_model(tags: Mapping[str, str]) -> Gate | None:
    """Return the gate's decision on a model version, None if there is none."""
    rules, more = rules_of(tags)
    if TAG_GATE not in tags and not rules:
        return None
    return Gate(word=tags.get(TAG_GATE, ""), baseline=tags.get(TAG_BASELINE, ""), rules=rules, more=more)


def rules_of(tags: Mapping[str, str]) -> tuple[tuple[Rule, ...], str]:
    """Return the rules in a model version's tags, and what is said of further ones."""
    found: list[Rule] = []
    more = ""
    for entry in _json(tags.get(TAG_RULES, ""), list) or []:
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
        found.append(
            BranchVerdict(branch=tag.removeprefix(TAG_VERDICT), word=str(given.get("gate") or "unreadable"), **known)
        )
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
