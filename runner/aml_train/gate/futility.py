"""What a job that still runs has shown already: rules that it can no longer meet, curves that give no hope. Pure.

*impossible* is exact. Whatever a job logs can be logged again at the same step, and the value written last counts
(:func:`aml_train.gate.history.sequence`): no maximum, mean or order of values is final while the job runs. Only what counts every
value that was ever logged is: ``finite``, and an upper bound of ``count`` or ``steps``.

*violated* takes for granted that no step is logged twice, so that what counts now will count at the end: then ``max < 5`` is decided by
one value above it, too. A metric of which a step was logged twice already is not decided so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from aml_train.core.events import RuleVerdict
from aml_train.gate.decide import Evidence, GatedRule, decide_rule
from aml_train.gate.history import MetricPoint, sequence
from aml_train.gate.rules import COMPARE, COUNTS, Certainty, Operator, Reference, Rule, StopRule, decidable


def missed(
    metric: str, rule: str, where: str, reason: str, value: float | None = None, limit: float | None = None
) -> RuleVerdict:
    """Return a rule that ends the run."""
    return RuleVerdict(
        metric=metric, rule=rule, where=where, value=value, limit=limit, verdict="missed", reason=reason
    )


def missed_by(rule: StopRule, reason: str, value: float | None = None, limit: float | None = None) -> RuleVerdict:
    """Return that a rule was found, as one that is missed."""
    return missed(rule.metric, rule.text, rule.where, reason, value, limit)


def unmeetable(
    rules: Sequence[GatedRule], histories: Mapping[str, Sequence[MetricPoint]], certainty: Certainty
) -> list[RuleVerdict]:
    """Return the rules of the gate that are missed whatever else the job logs.

    Args:
        rules: the gate, without values of files, which exist at the end only.
        histories: what the job has logged so far.
        certainty: what may be taken for granted.
    """
    found = []
    for one in rules:
        points = histories.get(one.metric, ()) if decidable(one.rule, one.policies, certainty) else ()
        if points and (lost := _lost(one.rule, points)) is not None:
            reason = f"{one.metric} cannot meet {one.rule.text} any more: {lost[1]}"
            found.append(missed(one.metric, one.rule.text, one.where, reason, lost[0], one.rule.limit))
    return found


def _lost(rule: Rule, points: Sequence[MetricPoint]) -> tuple[float, str] | None:
    """Return the value that no continuation of *points* makes good, and why; None where one may. The rule is decidable."""
    if rule.shape == "finite":
        bad = next((point for point in points if not math.isfinite(point.value)), None)
        return None if bad is None else (bad.value, f"it is {bad.value:g} at step {bad.step}")
    if rule.aggregate.name in COUNTS and rule.limit is not None:
        least, steps = len(points), len({point.step for point in points})
        if rule.aggregate.name == "steps":
            # Values under a single step count as steps of their own until another step comes: then they are one.
            least = steps if steps > 1 else min(2, len(points))
        may_do = COMPARE["<=" if rule.operator == "==" else rule.operator](least, rule.limit)
        return None if may_do else (float(least), f"its {rule.aggregate.name} only grows, and is {least} at least")
    values = sequence(points)
    return _violated(rule, values) if len(values) == len(points) else None


def _violated(rule: Rule, values: Sequence[float]) -> tuple[float, str] | None:
    """Return the value for which no further ones can make good, and why.

    Further values may come at any step.
    """
    if rule.shape is not None:
        sign = 1.0 if rule.shape == "increasing" else -1.0
        bad = next((value for value in values if not math.isfinite(value)), None)
        if bad is not None:
            return bad, f"one of its values is {bad:g}"
        turn = next((pair for pair in itertools.pairwise(values) if sign * pair[1] < sign * pair[0]), None)
        return None if turn is None else (turn[1], f"it is {turn[1]:.6g} after {turn[0]:.6g}")
    if any(math.isnan(value) for value in values):
        return math.nan, "one of its values is NaN"
    name = rule.aggregate.name if rule.aggregate.name != "best" else "max" if rule.greater else "min"
    if name == "mean" and (bad := next((value for value in values if math.isinf(value)), None)) is not None:
        return bad, f"one of its values is {bad:g}"
    if name not in ("min", "max") or rule.limit is None:
        return None
    side: Operator = "<=" if name == "max" else ">="
    edge = max(values) if name == "max" else min(values)
    operator: Operator = side if rule.operator == "==" else rule.operator
    # A maximum only grows: a lower bound of it may still be reached, unless it is infinite.
    beyond = operator[0] == side[0] and not COMPARE[operator](edge, rule.limit)
    if beyond or edge == (math.inf if name == "max" else -math.inf):
        return edge, f"its {name} is {edge:.6g}, and stays beyond that"
    return None


def hopeless(
    rules: Sequence[StopRule],
    histories: Mapping[str, Sequence[MetricPoint]],
    baseline: Mapping[str, Sequence[MetricPoint]],
) -> list[RuleVerdict]:
    """Return the rules over curves that are found. They are judgements, not proofs: the job might have recovered.

    Args:
        rules: those of ``watch.stop.metrics``.
        histories: what the job has logged so far.
        baseline: what the baseline's job logged.
    """
    finders = {"nan": _not_finite, "no-improvement": _not_better, "below-baseline": _behind}
    given = [rule for rule in rules if histories.get(rule.metric) and not _meets_goals(rule, histories)]
    found = [finders[rule.kind](rule, histories[rule.metric], baseline.get(rule.metric, ())) for rule in given]
    return [one for one in found if one is not None]


def _meets_goals(rule: StopRule, histories: Mapping[str, Sequence[MetricPoint]]) -> bool:
    decided = [decide_rule(rule.metric, goal, "", Evidence(histories=histories)).met for goal in rule.goals]
    return bool(decided) and all(decided)


def _not_finite(rule: StopRule, points: Sequence[MetricPoint], _: object) -> RuleVerdict | None:
    bad = next((point for point in points if not math.isfinite(point.value)), None)
    return None if bad is None else missed_by(rule, f"{rule.metric} is {bad.value:g} at step {bad.step}", bad.value)


def _not_better(rule: StopRule, points: Sequence[MetricPoint], _: object) -> RuleVerdict | None:
    """Find that the last steps brought no better value; a step counts if it was logged."""
    best, since = -math.inf, 0
    for value in sequence(points):
        signed = value if rule.greater else -value
        best, since = (signed, 0) if math.isfinite(value) and signed > best else (best, since + 1)
    if since < rule.number:
        return None
    best = best if rule.greater else -best
    return missed_by(rule, f"{rule.metric} has not improved for {since} steps; its best value is {best:.6g}", best)


def reached(rule: StopRule, points: Sequence[MetricPoint]) -> int | None:
    """Return the first logged step from that of the comparison on; None before it."""
    return min((point.step for point in points if point.step >= rule.number), default=None)


def _behind(rule: StopRule, points: Sequence[MetricPoint], before: Sequence[MetricPoint]) -> RuleVerdict | None:
    """Find that the curve is worse than the baseline's by more than the margin, at the same step or the last one before it."""
    step = reached(rule, points)
    earlier = [point for point in before if step is not None and point.step <= step]
    if step is None or not earlier:
        return None
    value = sequence([point for point in points if point.step == step])[-1]
    theirs = sequence(earlier)[-1]
    limit = Reference(tolerance=-rule.margin if rule.greater else rule.margin, percent=True).limit(theirs)
    if not math.isfinite(limit) or COMPARE[">=" if rule.greater else "<="](value, limit):
        return None
    reason = (
        f"{rule.metric} is {value:.6g} at step {step}, where the baseline has {theirs:.6g}:"
        f" worse by more than {rule.margin:g} %"
    )
    return missed_by(rule, reason, value, limit)
