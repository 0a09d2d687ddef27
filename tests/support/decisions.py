"""Decisions of the gate, one for each word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aml_train.core.events import RuleVerdict, Verdict
from aml_train.gate.decide import Decision, GateWord


def rule(verdict: Verdict, value: float | None = 0.5, limit: float | None = 0.5) -> RuleVerdict:
    return RuleVerdict(
        metric="m",
        rule=">= 0.5",
        where="aml-train.yml:2",
        value=value,
        limit=limit,
        verdict=verdict,
        reason="",
    )


DECISIONS: Final[Mapping[GateWord, Decision]] = {
    "passed": Decision(rules=(rule("met"),)),
    "failed": Decision(rules=(rule("missed", value=0.4),)),
    "none": Decision(rules=()),
    "skipped": Decision(rules=(rule("skipped", value=None, limit=None),)),
}
