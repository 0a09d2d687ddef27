"""Decide a recorded rule again: does its record follow from the metrics? Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.gate.data_policy import RULE as DATA_RULE
from aml_train.gate.history import MetricPoint, aggregate, faults_of_shape
from aml_train.gate.rules import Rule, parse_rule

_PASSING: Final = frozenset({"met", "warned", "skipped"})


@dataclass(frozen=True, kw_only=True)
class RecordedRule:
    """A rule as it was decided; see :class:`aml_train.gate.decide.RuleDecision`."""

    metric: str
    rule: str
    value: float | None
    limit: float | None
    verdict: str


def read_recorded(text: str) -> list[RecordedRule]:
    """Return the rules of a model's tag, as far as they are some: JSON lists of five members."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [
        RecordedRule(
            metric=str(entry[0]),
            rule=str(entry[1]),
            value=_number(entry[2]),
            limit=_number(entry[3]),
            verdict=entry[4],
        )
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, list) and len(entry) == 5 and entry[4] in (*_PASSING, "missed")
    ]


def _number(value: object) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(str(value))
    except ValueError:
        return None


def word_of(rules: Sequence[RecordedRule]) -> str:
    """Return the gate's word that the recorded verdicts give."""
    if not rules:
        return "none"
    if any(rule.verdict not in _PASSING for rule in rules):
        return "failed"
    return "skipped" if all(rule.verdict == "skipped" for rule in rules) else "passed"


def fault_of_rule(recorded: RecordedRule, histories: Mapping[str, Sequence[MetricPoint]]) -> str | None:
    """Return why a record does not follow from *histories*; None if it does.

    A limit that came from a baseline is taken as it was recorded, and so is a rule on the data, which compares with the
    baseline's; all else is computed again.

    Args:
        histories: the values of the rule's metrics, as they are now.
    """
    if recorded.rule == DATA_RULE.text:
        return None
    try:
        rule = parse_rule(recorded.rule)
    except ValueError as error:
        return f"the rule cannot be read: {error}"
    points = histories.get(recorded.metric, ())
    name = f"{recorded.metric} {recorded.rule}"
    if recorded.verdict not in (*_PASSING, "missed"):
        return f"{name}: {recorded.verdict!r} is no verdict"
    if rule.shape is not None:
        return _compare(name, recorded, holds=bool(points) and faults_of_shape(points, rule.shape) is None)
    if recorded.verdict == "met" and (recorded.value is None or recorded.limit is None):
        return f"{name}: it is recorded as met without value or limit"
    if recorded.value is None:
        return None
    try:
        value = aggregate(points, rule.aggregate, greater=rule.greater)
        if not _same(value, recorded.value):
            return f"{name}: the value was {recorded.value:.6g}, and the job's metrics give {value:.6g}"
        if recorded.limit is None:
            return None
        limit = _limit(rule, recorded, histories)
    except ValueError as error:
        return f"{name}: the value {recorded.value:.6g} was recorded, and now {error}"
    if not _same(limit, recorded.limit):
        return f"{name}: the limit was {recorded.limit:.6g}, and the rule gives {limit:.6g}"
    return _compare(name, recorded, holds=rule.holds(value, limit))


def _limit(rule: Rule, recorded: RecordedRule, histories: Mapping[str, Sequence[MetricPoint]]) -> float:
    if rule.limit is not None:
        return rule.limit
    reference = rule.reference
    if reference is None or reference.metric is None:
        return recorded.limit if recorded.limit is not None else math.nan
    how = reference.aggregate or rule.aggregate
    return reference.limit(aggregate(histories.get(reference.metric, ()), how, greater=rule.greater))


def _compare(name: str, recorded: RecordedRule, *, holds: bool) -> str | None:
    if holds == (recorded.verdict == "met") or (not holds and recorded.verdict in ("missed", "warned", "skipped")):
        return None
    return f"{name}: it was recorded as {recorded.verdict}, and is {'met' if holds else 'not met'}"


def _same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))
