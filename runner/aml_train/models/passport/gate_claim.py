"""The claim of the gate: its record, decided again from the metrics of the job."""

from __future__ import annotations

from aml_train.config.sections.gate import JsonValue
from aml_train.core.answers import Answer
from aml_train.gate.recompute import RecordedRule, word_of
from aml_train.jobs.workspace import Workspace
from aml_train.models.passport.values import Claim
from aml_train.models.recount import fault_of_rules


def gate_claim(service: Workspace, job: str, stated: Answer, tagged: str | None) -> Claim:
    """Return the claim of the gate: does its record follow from the job's metrics?

    Args:
        tagged: the gate's word in the version's tags; None without.

    Raises:
        ServiceError: the workspace refuses or does not answer.
    """
    rules = [_recorded(one) for one in stated.each("rules")]
    word = stated.optional_text("word") or ""
    if (right := word_of(rules)) != word:
        return _refused(f"it is recorded as {word or 'missing'}, and its rules give {right}")
    if tagged not in (None, word):
        return _refused(f"it is recorded as {word}, and the version's tag says {tagged}")
    if word == "failed":
        return _refused("the gate was not met")
    files = {
        one.text("metric"): JsonValue(file=one.text("file.file"), pointer=one.text("file.pointer"))
        for one in stated.each("rules")
        if one.has("file")
    }
    if fault := fault_of_rules(service, job, rules, files):
        return _refused(fault)
    shown = ", ".join(f"{rule.metric} {rule.rule}: {rule.verdict}" for rule in rules[:4])
    more = f" and {len(rules) - 4} more" if len(rules) > 4 else ""
    return Claim(name="gate", basis="recomputed", detail=f"{word}; {shown}{more}" if rules else "no rules were given")


def _refused(detail: str) -> Claim:
    return Claim(name="gate", basis="refused", detail=detail)


def _recorded(entry: Answer) -> RecordedRule:
    return RecordedRule(
        metric=entry.text("metric"),
        rule=entry.text("rule"),
        value=entry.number("value") if entry.has("value") else None,
        limit=entry.number("limit") if entry.has("limit") else None,
        verdict=entry.text("verdict"),
    )
