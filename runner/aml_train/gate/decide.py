"""The gate's decision: rules over metric histories. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, get_args

from aml_train.core.comparison import Comparison
from aml_train.core.events import ReplicateChanged, RuleVerdict, Verdict
from aml_train.core.tables import Table
from aml_train.gate.history import MetricPoint, aggregate, faults_of_shape, last_attempts
from aml_train.gate.rules import Aggregate, Policies, Policy, Reference, Rule

GateWord = Literal["passed", "failed", "none", "skipped"]
"""The gate's word on a job: ``none`` without rules, ``skipped`` if all were."""


class Baseline(Protocol):
    """The values to compare a candidate with; see :mod:`aml_train.gate.baseline`."""

    @property
    def title(self) -> str:
        """A title for people: ``digits version 3 (production)``."""

    def points(self, metric: str, how: Aggregate) -> Sequence[MetricPoint]:
        """Return the values of *metric* for the aggregate *how*; none if unknown."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The values that rules are decided over.

    Attributes:
        histories: the metrics of the job, and values of files, by name; a known name may have no values.
        problems: why a name has no values, where more is known than that it is missing.
        baseline: what is compared with; None where there is none.
        no_baseline: why there is none.
        replicate: which of several replicates the job is, such as ``seed = 3``; empty for the only one.
    """

    histories: Mapping[str, Sequence[MetricPoint]]
    problems: Mapping[str, str] = field(default_factory=dict)
    baseline: Baseline | None = None
    no_baseline: str = "no `baseline` is configured"
    replicate: str = ""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The gate's decision: met if no rule is missed.

    Rules that only warn, or were allowed to be skipped, do not count.

    *final* is False as long as further replicates of the job could change it.
    """

    rules: tuple[RuleVerdict, ...]
    final: bool = True

    @property
    def met(self) -> bool:
        """Whether no rule is missed. A gate without rules is met."""
        return not self.missed

    @property
    def summary(self) -> str:
        """How many rules came to which verdict, in a few words."""
        if not self.rules:
            return "no rules given"
        counts = {verdict: sum(rule.verdict == verdict for rule in self.rules) for verdict in get_args(Verdict)}
        words = {verdict: count for verdict, count in counts.items() if count}
        if list(words) == ["met"]:
            return f"{len(self.rules)} {'rule' if len(self.rules) == 1 else 'rules'} met"
        return ", ".join(f"{count} {verdict}" for verdict, count in words.items())

    @property
    def word(self) -> GateWord:
        """The gate's word, as tags and outputs have it."""
        if not self.rules:
            return "none"
        if all(rule.verdict == "skipped" for rule in self.rules):
            return "skipped"
        return "passed" if self.met else "failed"

    @property
    def clause(self) -> str:
        """The end of a message that begins with "The job completed".

        No rule is missed then. Only a rule that is met lets it say "met".
        """
        if self.word == "none":
            return " and no gate was given"
        if self.word == "skipped":
            return ", and every rule of the gate was skipped: nothing was judged"
        if any(rule.verdict == "met" for rule in self.rules):
            mixed = any(rule.verdict != "met" for rule in self.rules)
            return " and the gate is met" + (f" ({self.summary})" if mixed else "")
        return f"; no rule of the gate is met, and none ends the run ({self.summary})"

    @property
    def missed(self) -> tuple[RuleVerdict, ...]:
        """The rules that end the run."""
        return tuple(rule for rule in self.rules if rule.verdict not in ("met", "warned", "skipped"))


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """The decision on a job, and what it was made from.

    Attributes:
        decision: the gate's.
        metrics: every metric's last value.
        histories: all values of the metrics that rules name.
        comparison: the job and its baseline; None without a baseline.
        baseline_histories: the baseline's values of the metrics that rules compare with it, if it is a job.
        tables: what azureml-core logged as tables, lists and the like.
        more_tables: how many others there are.
        remark: why they are not all known; empty if they are.
        replicates: those that were judged, with the last values of the metrics that rules name; none for the only job.
    """

    decision: Decision
    metrics: Mapping[str, float]
    histories: Mapping[str, Sequence[MetricPoint]]
    comparison: Comparison | None = None
    baseline_histories: Mapping[str, Sequence[MetricPoint]] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    more_tables: int = 0
    remark: str = ""
    replicates: tuple[ReplicateChanged, ...] = ()


class GatedRule(Protocol):
    """A rule of the configuration."""

    @property
    def metric(self) -> str:
        """The name of the metric, or of the value in a file."""

    @property
    def rule(self) -> Rule:
        """The rule."""

    @property
    def where(self) -> str:
        """``file:line`` of the rule."""

    @property
    def policies(self) -> Policies:
        """The effects of missing it."""


def decide_gate(
    rules: Sequence[GatedRule], evidence: Evidence, *, data: RuleVerdict | None = None, bootstrap: bool = False
) -> Decision:
    """Decide every rule.

    Args:
        rules: the gate.
        evidence: what they are decided over.
        data: the decision on the data, if one is made.
        bootstrap: whether rules that lack a baseline are skipped.
    """
    decisions = []
    for one in rules:
        policies = replace(one.policies, no_baseline="skip") if bootstrap else one.policies
        decisions.append(decide_rule(one.metric, one.rule, one.where, evidence, policies))
    return Decision(rules=(*decisions, data) if data is not None else tuple(decisions))


def needs_baseline(rules: Sequence[GatedRule], *, strictly: bool = False) -> list[str]:
    """Return the metrics whose rules compare with the baseline.

    With *strictly*, only those that fail without one.
    """
    return [
        one.metric
        for one in rules
        if one.rule.needs_baseline and not (strictly and one.policies.no_baseline != "fail")
    ]


class MissingError(Exception):
    """There is nothing to compare; *policy* says what becomes of the rule."""

    def __init__(self, reason: str, policy: Policy) -> None:
        super().__init__(reason)
        verdicts: Mapping[Policy, Verdict] = {"fail": "missed", "warn": "warned", "skip": "skipped"}
        self.verdict = verdicts[policy]


def decide_rule(
    metric: str, rule: Rule, where: str, evidence: Evidence, policies: Policies | None = None
) -> RuleVerdict:
    """Decide one rule.

    Without other policies, a missing metric and a missing baseline fail it. A rule that is met by all values must be met by those of
    the last attempt, too, if it may have started over. ``count`` counts all values in any case.
    """
    policies = policies or Policies()
    whole = _decide(metric, rule, where, evidence, policies)
    marked = any(one.earlier for name in (metric, *rule.metrics) for one in evidence.histories.get(name, ()))
    if not marked or whole.verdict != "met" or rule.aggregate.name == "count":
        return whole
    alone = _decide(metric, rule, where, replace(evidence, histories=last_attempts(evidence.histories)), policies)
    remark = " (of the last attempt alone: no `resume` says that it continues the one before)"
    return whole if alone.verdict == "met" else replace(alone, reason=alone.reason + remark)


def _decide(metric: str, rule: Rule, where: str, evidence: Evidence, policies: Policies) -> RuleVerdict:
    value: float | None = None
    limit: float | None = None
    try:
        points = points_of(metric, rule, evidence, policies)
        if rule.over is not None:
            reason = f"{metric} is that of one job; wanted {rule.text}, which a run with `replicates` decides"
            raise MissingError(reason, policies.missing)  # noqa: TRY301 - what follows is what a missing metric gives
        if rule.shape is not None:
            fault = faults_of_shape(points, rule.shape)
            value = aggregate(points, Aggregate(), greater=True)
            met, reason = fault is None, f"{metric} is {'' if fault is None else 'not '}{rule.shape}"
            reason += f": {fault}" if fault is not None else f", over {len(points)} values"
        else:
            value = value_of(metric, rule.aggregate, points, rule, policies)
            limit, source = _limit(metric, rule, evidence, policies)
            met = rule.holds(value, limit)
            reason = explain(rule.aggregate.of(metric), rule, value, limit, source, met=met)
    except MissingError as missing:
        return RuleVerdict(
            metric=metric,
            rule=rule.text,
            where=where,
            value=value,
            limit=limit,
            verdict=missing.verdict,
            reason=str(missing),
        )
    verdict: Verdict = "met" if met else "warned" if policies.severity == "warn" else "missed"
    return RuleVerdict(
        metric=metric, rule=rule.text, where=where, value=value, limit=limit, verdict=verdict, reason=reason
    )


def points_of(metric: str, rule: Rule, evidence: Evidence, policies: Policies) -> Sequence[MetricPoint]:
    """Return the values of *metric*, which *rule* needs.

    Raises:
        MissingError: there are none.
    """
    points = evidence.histories.get(metric, ())
    if points:
        return points
    why = evidence.problems.get(metric) or _logged(evidence.histories)
    raise MissingError(f"{metric} is missing ({why}); wanted {rule.text}", policies.missing)


def value_of(metric: str, how: Aggregate, points: Sequence[MetricPoint], rule: Rule, policies: Policies) -> float:
    """Return the value of a history that counts.

    Raises:
        MissingError: it is too short.
    """
    try:
        return aggregate(points, how, greater=rule.greater)
    except ValueError as error:
        raise MissingError(f"{metric} cannot be judged: {error}; wanted {rule.text}", policies.missing) from error


def _limit(metric: str, rule: Rule, evidence: Evidence, policies: Policies) -> tuple[float, str]:
    """Return the limit of a threshold, and what it comes from."""
    reference = rule.reference
    if reference is None:
        if rule.limit is None:
            raise ValueError(f"the rule {rule.text!r} has neither limit nor reference")
        return rule.limit, ""
    how = reference.aggregate or rule.aggregate
    if reference.metric is not None:
        other = points_of(reference.metric, rule, evidence, policies)
        value = value_of(reference.metric, how, other, rule, policies)
        return reference.limit(value), source_of(how.of(reference.metric), value, reference)
    if evidence.baseline is None:
        reason = f"{metric} has no baseline ({evidence.no_baseline}); wanted {rule.text}"
        raise MissingError(reason, policies.no_baseline)
    value = baseline_value(metric, rule, evidence.baseline, policies)
    return reference.limit(value), source_of(f"that of {evidence.baseline.title}", value, reference)


def baseline_value(metric: str, rule: Rule, baseline: Baseline, policies: Policies) -> float:
    """Return the value of a baseline that *rule* compares with.

    Raises:
        MissingError: the baseline does not have it.
    """
    how = (rule.reference.aggregate if rule.reference is not None else None) or rule.aggregate
    points = baseline.points(metric, how)
    if not points:
        reason = f"the baseline {baseline.title} has no {how.of(metric)}; wanted {rule.text}"
        raise MissingError(reason, policies.no_baseline)
    return value_of(metric, how, points, rule, policies)


def source_of(name: str, value: float, reference: Reference) -> str:
    """Return what a limit comes from, in parentheses."""
    unit = "%" if reference.percent else ""
    tolerance = (
        f" {'-' if reference.tolerance < 0 else '+'} {abs(reference.tolerance):g}{unit}"
        if reference.tolerance
        else ""
    )
    return f" ({name}, {value:.6g}{tolerance})"


def explain(name: str, rule: Rule, value: float, limit: float, source: str, *, met: bool) -> str:
    """Return the reason of a verdict: the value that is called *name*, its limit and where that comes from, and the distance."""
    wanted = f"wanted {rule.operator} {limit:.6g}{source}"
    if not math.isfinite(limit):
        return f"{name} = {value:.6g}, {wanted}: a limit that is not finite is met by nothing"
    if math.isnan(value):
        return f"{name} is NaN, which meets no limit ({wanted})"
    if math.isinf(value):
        return f"{name} is {value:g}, which is no measurement and meets no limit ({wanted})"
    # The difference of two large numbers may be too large for a float.
    distance = f"{abs(value - limit):.6g}"
    return f"{name} = {value:.6g}, {wanted}: " + (f"met with {distance} to spare" if met else f"missed by {distance}")


def _logged(known: Mapping[str, object]) -> str:
    if not known:
        return "the job logged no metrics at all"
    names = sorted(known)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"the job logged {shown}"
