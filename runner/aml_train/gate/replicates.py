"""Decide rules over the replicates of a job, which differ in one input, such as the seed. Pure.

A rule without a word holds for each replicate; ``replicates mean >= 0.9`` compares one value of those of all. A rule that compares with the
baseline is a test: it is met if the replicates show that the candidate is better than the limit, with an error of at most ``alpha``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from aml_train.core.events import RuleVerdict
from aml_train.gate.baseline import ValuesBaseline
from aml_train.gate.decide import (
    Baseline,
    Decision,
    Evidence,
    GatedRule,
    MissingError,
    baseline_value,
    decide_rule,
    explain,
    points_of,
    source_of,
    value_of,
)
from aml_train.gate.history import MetricPoint, aggregate, last_attempts
from aml_train.gate.recompute import over_replicates as recorded_over
from aml_train.gate.rules import Aggregate, Over, Policies, Reference, Rule, Sampling, parse_rule
from aml_train.gate.student import above, levels, quantile

_WORSE: Final = ("met", "skipped", "warned", "missed")
_INTERVAL: Final = 0.025
"""What lies outside of a two-sided interval of 95 %, at each end."""


def compare(values: Sequence[float], limits: Sequence[float], *, exact: bool) -> float:
    """Return how likely at least two *values* so much greater than *limits* are, if their true mean is no greater.

    With several limits this is Welch's statistic. Its degrees of freedom are the lesser number of values less one: with these the error never
    exceeds the level, whatever the two spreads are (Mickey and Brown, Annals of Mathematical Statistics 37, 1966), while Welch's own estimate
    gives up to 8 % instead of 5 % for few values. A single limit is *exact*, or one measured value whose spread is taken to be the candidate's.
    Values that do not differ at all are compared as numbers.
    """
    count, others = len(values), len(limits)
    distance, own = mean_of(values) - mean_of(limits), _variance(values)
    if others > 1:
        variance, freedom = own / count + _variance(limits) / others, min(count, others) - 1
    else:
        variance, freedom = own / count + (0.0 if exact else own), count - 1
    if variance > 0.0:
        return above(distance / math.sqrt(variance), freedom)
    return 0.0 if distance >= 0.0 else 1.0


def mean_of(values: Sequence[float]) -> float:
    """Return the mean of values; that of equal ones is each of them, to the last digit."""
    return values[0] if len(set(values)) == 1 else _combined(values, "mean")


def _variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = mean_of(values)
    try:
        return math.fsum((one - mean) ** 2 for one in values) / (len(values) - 1)
    except OverflowError:
        return math.inf


def over_replicates(values: Sequence[float], word: Over, *, greater: bool) -> float:
    """Return the value of those of all replicates that *word* names; NaN where one of them is no finite number.

    The limits of ``ci95`` are those of Student's two-sided 95 % interval of the mean.

    Raises:
        ValueError: an interval has fewer than two values.
    """
    if not all(map(math.isfinite, values)):
        return math.nan
    if word in ("mean", "median"):
        return mean_of(values) if word == "mean" else _combined(values, "median")
    if word == "worst":
        return min(values) if greater else max(values)
    if len(values) < 2:
        raise ValueError(f"{word} needs two replicates")
    half = quantile(_INTERVAL, len(values) - 1) * math.sqrt(_variance(values) / len(values))
    return mean_of(values) + (half if word == "ci95.high" else -half)


def _combined(values: Sequence[float], name: str) -> float:
    points = [MetricPoint(step=place, value=value, timestamp=0) for place, value in enumerate(values)]
    return aggregate(points, Aggregate(name="median" if name == "median" else "mean"), greater=True)


def fault_of_value(recorded: RuleVerdict, histories: Sequence[Sequence[MetricPoint]]) -> str | None:
    """Return why the value of a recorded rule over replicates does not follow from their metrics; None if it does.

    Args:
        recorded: the rule.
        histories: the values of its metric that each replicate logged, in their order.
    """
    text, count = recorded_over(recorded.rule)
    rule = parse_rule(text)
    if recorded.value is None or rule.shape is not None:
        return None
    try:
        last = [[one for one in points if not one.earlier] for points in histories[:count]]
        values = [aggregate(points, rule.aggregate, greater=rule.greater) for points in last]
        if len(values) < count:
            return f"{recorded.metric} {text}: {len(values)} of {count} replicates are left"
        if rule.over is not None:
            known = [over_replicates(values, rule.over, greater=rule.greater)]
        elif is_tested(rule):
            known = [mean_of(values[:first]) for first in range(1, count + 1)]
        else:
            known = values if rule.operator == "==" else [min(values) if rule.greater else max(values)]
    except ValueError as error:
        return f"{recorded.metric} {text}: the value {recorded.value:.6g} was recorded, and now {error}"
    if math.isfinite(recorded.value) and recorded.value not in known:
        return (
            f"{recorded.metric} {text}: the value was {recorded.value:.6g}, and the replicates give {known[-1]:.6g}"
        )
    return None


def is_tested(rule: Rule) -> bool:
    """Return whether a rule over replicates is a test against the baseline."""
    return rule.over is None and rule.needs_baseline and rule.operator != "=="


class Spread(NamedTuple):
    """How much a metric spreads over replicates; *margin* is what a gate should allow for it."""

    mean: float
    deviation: float
    least: float
    greatest: float
    margin: float


def spread_of(values: Sequence[float], *, alpha: float, power: float) -> Spread:
    """Return how much a metric spreads over at least two replicates.

    With the margin as its tolerance, the test against the baseline passes an equal candidate with *power*, if both have so many replicates that
    spread alike: the sum of the two quantiles of Student's distribution, in standard errors of the difference.
    """
    variance, count = _variance(values), len(values)
    factor = quantile(alpha, count - 1) + quantile(1.0 - power, count - 1)
    margin = factor * math.sqrt(2 * variance / count)
    return Spread(mean_of(values), math.sqrt(variance), min(values), max(values), margin)


def decide_replicates(
    rules: Sequence[GatedRule],
    evidence: Sequence[Evidence],
    baselines: Sequence[Baseline],
    sampling: Sampling,
    *,
    data: RuleVerdict | None = None,
    bootstrap: bool = False,
) -> Decision:
    """Decide every rule over the replicates that have ended.

    Args:
        rules: the gate.
        evidence: that of each replicate, the first ones of those that are planned in their order, whichever has ended first.
        baselines: the replicates of the baseline, itself first; none where there is none.
        sampling: how they are judged.
        data: the decision on the data, if one is made.
        bootstrap: whether rules that lack a baseline are skipped.

    Returns:
        the decision; not ``final`` as long as further replicates could change it.
    """
    # Each is judged by its last attempt, where that may have started over.
    evidence = [replace(one, histories=last_attempts(one.histories)) for one in evidence]
    found = []
    for one in rules:
        policies = replace(one.policies, no_baseline="skip") if bootstrap else one.policies
        judged = _Judged(one.metric, one.rule, one.where, policies, evidence, baselines, sampling)
        verdict, final = judged.decide()
        found.append((replace(verdict, rule=f"{one.rule.text} over {len(evidence)} replicates"), final))
    ended = len(evidence) >= sampling.planned
    red = sampling.early and any(final and verdict.verdict == "missed" for verdict, final in found)
    if red and not ended:
        why = f"is not decided: the run ended early, after {len(evidence)} of {sampling.planned} replicates"
        found = [
            (verdict if final else replace(verdict, verdict="skipped", reason=f"{verdict.metric} {why}"), True)
            for verdict, final in found
        ]
    verdicts = [verdict for verdict, _ in found] + ([data] if data is not None else [])
    return Decision(rules=tuple(verdicts), final=ended or (sampling.early and all(final for _, final in found)))


@dataclass(frozen=True)
class _Judged:
    """One rule, and what it is decided over."""

    metric: str
    rule: Rule
    where: str
    policies: Policies
    evidence: Sequence[Evidence]
    baselines: Sequence[Baseline]
    sampling: Sampling

    def decide(self) -> tuple[RuleVerdict, bool]:
        """Return the verdict, and whether further replicates cannot change it."""
        rule, ended = self.rule, len(self.evidence) >= self.sampling.planned
        tested = is_tested(rule)
        if rule.over is None and not tested:
            verdict = self._each()
            return verdict, ended or verdict.verdict == "missed"
        try:
            values = [self._value(one) for one in self.evidence]
            if tested:
                return self._test(values)
            if not ended:  # more replicates may change it to either side
                return self._verdict(None, None, met=False, reason=f"{self.metric} is judged at the end"), False
            return self._word(values, rule.over or "mean"), True
        except MissingError as missing:
            verdict = self._verdict(None, None, met=False, reason=str(missing))
            return replace(verdict, verdict=missing.verdict), ended or missing.verdict == "missed"

    def _verdict(self, value: float | None, limit: float | None, met: bool, reason: str) -> RuleVerdict:
        return RuleVerdict(
            metric=self.metric,
            rule=self.rule.text,
            where=self.where,
            value=value,
            limit=limit,
            verdict="met" if met else "warned" if self.policies.severity == "warn" else "missed",
            reason=reason,
        )

    def _each(self) -> RuleVerdict:
        """Decide the rule for each replicate; the one that is the furthest from meeting it counts."""
        verdicts = [decide_rule(self.metric, self.rule, self.where, one, self.policies) for one in self.evidence]

        def badness(place: int) -> tuple[int, float]:
            one = verdicts[place]
            short = 0.0
            if one.value is not None and one.limit is not None and math.isfinite(one.value - one.limit):
                short = one.limit - one.value if self.rule.greater else one.value - one.limit
            return _WORSE.index(one.verdict), short

        worst = max(range(len(verdicts)), key=badness)
        met = sum(one.met for one in verdicts)
        reason = (
            f"{verdicts[worst].reason} ({self.evidence[worst].replicate}; met by {met} of {len(verdicts)} replicates)"
        )
        return replace(verdicts[worst], reason=reason)

    def _value(self, evidence: Evidence, metric: str | None = None) -> float:
        """Return the value of one replicate, of the rule's metric or of the one that it compares with."""
        rule, name = self.rule, metric or self.metric
        how = rule.aggregate
        if metric is not None and rule.reference is not None:
            how = rule.reference.aggregate or how
        try:
            return value_of(name, how, points_of(name, rule, evidence, self.policies), rule, self.policies)
        except MissingError as missing:
            missing.args = (f"{missing} ({evidence.replicate})",)
            raise

    def _of_baseline(self) -> list[float]:
        if not self.baselines:
            why = self.evidence[0].no_baseline
            reason = f"{self.metric} has no baseline ({why}); wanted {self.rule.text}"
            raise MissingError(reason, self.policies.no_baseline)
        return [baseline_value(self.metric, self.rule, one, self.policies) for one in self.baselines]

    def _word(self, values: Sequence[float], word: Over) -> RuleVerdict:
        """Compare one value of those of all replicates."""
        rule, reference, source = self.rule, self.rule.reference, ""
        name = f"{word} of {rule.aggregate.of(self.metric)} over {len(values)} replicates"
        try:
            value = over_replicates(values, word, greater=rule.greater)
            if reference is None:
                limit = rule.limit if rule.limit is not None else math.nan
            else:
                others = (
                    self._of_baseline()
                    if reference.metric is None
                    else [self._value(one, reference.metric) for one in self.evidence]
                )
                against = over_replicates(others, word, greater=rule.greater)
                whose = self._whose(len(others)) if reference.metric is None else f"{word} of {reference.metric}"
                limit, source = reference.limit(against), source_of(whose, against, reference)
        except ValueError as error:
            raise MissingError(f"{name} cannot be judged: {error}", self.policies.missing) from error
        met = rule.holds(value, limit)
        return self._verdict(value, limit, met=met, reason=explain(name, rule, value, limit, source, met=met))

    def _whose(self, count: int) -> str:
        return f"that of {self.baselines[0].title}" + (f", {count} replicates" if count > 1 else "")

    def _test(self, values: Sequence[float]) -> tuple[RuleVerdict, bool]:
        """Test whether the candidate is better than the limit that the baseline gives, at each look in turn."""
        rule, sampling, known = self.rule, self.sampling, self._of_baseline()
        reference = rule.reference or Reference()
        limits, sign = [reference.limit(one) for one in known], 1.0 if rule.greater else -1.0
        first = self.baselines[0]
        exact = isinstance(first, ValuesBaseline) and first.stands_for_all
        source = source_of(self._whose(len(known)), mean_of(known), reference)
        if not all(map(math.isfinite, (*values, *limits))):
            reason = f"{self.metric} is {_shown(values)}, wanted {rule.operator} {_shown(limits)}{source}: a value that is not finite meets no limit"
            return self._verdict(mean_of(values), mean_of(limits), met=False, reason=reason), True
        text = f"{self.metric} has too few replicates to be tested, {len(values)} of {sampling.planned}"
        last = self._verdict(mean_of(values), mean_of(limits), met=False, reason=text)
        for count, level in levels(sampling.alpha, sampling.planned, early=sampling.early):
            if count > len(values):
                return last, False
            seen, early = values[:count], count < sampling.planned
            chance = compare([sign * one for one in seen], [sign * one for one in limits], exact=exact)
            # Of values that are all the same the spread is not known: they decide at the end only.
            decides = not early or len(set(seen)) > 1
            met, worse = decides and chance <= level, early and decides and 1.0 - chance <= level
            relation = "<=" if chance <= level else ">"
            said = "shown" if met else "shown to be missed" if worse else "not shown"
            after = f", after {count} of {sampling.planned} replicates" if early else ""
            alone = "; its one value is taken to spread as these do" if len(known) == 1 and not exact else ""
            reason = (
                f"mean of {rule.aggregate.of(self.metric)} over {count} replicates = {mean_of(seen):.6g}, wanted {rule.operator}"
                f" {mean_of(limits):.6g}{source}: {said}{after}, p = {chance:.3g} {relation} {level:.3g}{alone}"
            )
            last = self._verdict(mean_of(seen), mean_of(limits), met=met, reason=reason)
            if met or worse:
                return last, True
        return last, True


def _shown(values: Sequence[float]) -> str:
    return ", ".join(f"{one:.6g}" for one in values)
