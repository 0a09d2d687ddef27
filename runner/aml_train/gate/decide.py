"""The gate's decision: rules over metric histories. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aml_train.gate.rules import Aggregate, Rule


@dataclass(frozen=True, kw_only=True)
class MetricPoint:
    """One value of a metric. *timestamp* is in milliseconds since 1970."""

    step: int
    value: float
    timestamp: int


@dataclass(frozen=True, kw_only=True)
class RuleDecision:
    """How one rule was decided.

    Attributes:
        metric: the metric's name.
        rule: the rule.
        where: ``file:line`` of the rule.
        value: the value that was compared; None where the metric is missing.
        met: whether the rule holds.
        reason: a sentence for people: value, limit, and by how much it was met or missed.
    """

    metric: str
    rule: Rule
    where: str
    value: float | None
    met: bool
    reason: str


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The gate's decision: met only if every rule is."""

    rules: tuple[RuleDecision, ...]

    @property
    def met(self) -> bool:
        """Whether every rule holds. A gate without rules is met."""
        return all(rule.met for rule in self.rules)

    @property
    def missed(self) -> tuple[RuleDecision, ...]:
        """The rules that do not hold."""
        return tuple(rule for rule in self.rules if not rule.met)


def last_value(points: Sequence[MetricPoint]) -> float:
    """Return the value at the highest step; of several there, the latest by time, then by order.

    Raises:
        ValueError: if there are no points.
    """
    if not points:
        raise ValueError("a metric without values has no last one")
    _, point = max(enumerate(points), key=lambda item: (item[1].step, item[1].timestamp, item[0]))
    return point.value


def aggregate(points: Sequence[MetricPoint], how: Aggregate) -> float:
    """Return the one value of a history that a rule compares.

    A NaN anywhere makes ``min`` and ``max`` NaN: a diverged training has no best value to be judged by.

    Raises:
        ValueError: if there are no points.
    """
    if how == "last":
        return last_value(points)
    values = [point.value for point in points]
    if not values:
        raise ValueError("a metric without values has no aggregate")
    if any(math.isnan(value) for value in values):
        return math.nan
    return min(values) if how == "min" else max(values)


def _explain(metric: str, rule: Rule, value: float, met: bool) -> str:
    name = metric if rule.aggregate == "last" else f"{rule.aggregate}({metric})"
    if math.isnan(value):
        return f"{name} is NaN, which meets no limit (wanted {rule.operator} {rule.limit:g})"
    distance = f"{abs(value - rule.limit):.6g}"
    if met:
        return f"{name} = {value:.6g}, wanted {rule.operator} {rule.limit:g}: met with {distance} to spare"
    return f"{name} = {value:.6g}, wanted {rule.operator} {rule.limit:g}: missed by {distance}"


def _logged(known: Mapping[str, object]) -> str:
    if not known:
        return "the job logged no metrics at all"
    names = sorted(known)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"the job logged {shown}"


def decide_rule(metric: str, rule: Rule, where: str, histories: Mapping[str, Sequence[MetricPoint]]) -> RuleDecision:
    """Decide one rule. A missing metric fails."""
    points = histories.get(metric, ())
    if not points:
        reason = f"{metric} is missing ({_logged(histories)}); wanted {rule.operator} {rule.limit:g}"
        return RuleDecision(metric=metric, rule=rule, where=where, value=None, met=False, reason=reason)
    value = aggregate(points, rule.aggregate)
    met = rule.holds(value)
    return RuleDecision(
        metric=metric, rule=rule, where=where, value=value, met=met, reason=_explain(metric, rule, value, met)
    )
