"""The grammar of one gate rule, such as ``mean(5) < 0.2``, and policies. Pure.

Others are ``>= 0.95`` and ``>= baseline - 1%``.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, Literal, cast, get_args

from aml_train.core.text import whole

AggregateName = Literal["last", "first", "best", "min", "max", "mean", "median", "p", "count", "steps"]
Operator = Literal[">=", ">", "<=", "<", "=="]
Shape = Literal["finite", "increasing", "decreasing"]
Over = Literal["mean", "median", "worst", "ci95.low", "ci95.high"]
"""Which value counts of those that the replicates of a job have."""

Policy = Literal["fail", "warn", "skip"]
"""The effect of a rule that is missed (``fail``, ``warn``) or has no values."""

DataPolicy = Literal["fail", "warn", "ignore"]
"""The effect on the gate if the data of candidate and baseline differ."""

AGGREGATES: Final[tuple[AggregateName, ...]] = get_args(AggregateName)
OPERATORS: Final[tuple[Operator, ...]] = get_args(Operator)
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)
OVER: Final[tuple[Over, ...]] = get_args(Over)

COMPARE: Final[dict[Operator, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}
_WORDS: Final = "last, first, best, min, max, mean, mean(N), median, p(N), count, steps"
_RULE: Final = re.compile(r"(?P<left>[^<>=!~]*)(?P<operator>[<>=!~]+)\s*(?P<right>[^<>=!~\s].*)", re.DOTALL)
_AGGREGATE: Final = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:\((?P<argument>[^()]*)\))?")
_OVER: Final = re.compile(r"replicates\b\s*(?P<word>[\w.]*)\s*(?P<rest>.*)", re.DOTALL)
_LONGEST: Final = 500
"""Characters of a rule: twice the longest name of a metric."""
_NUMBER_TEXT: Final = r"(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_NUMBER: Final = re.compile(rf"[+-]?{_NUMBER_TEXT}")
_REFERENCE: Final = re.compile(
    rf"""(?:(?P<aggregate>\w+(?:\(\s*\d+(?:\.\d*)?\s*\))?)\s+)?
    (?P<what>baseline|metric\((?P<metric>.+)\))
    (?:\s*(?P<sign>[+-])\s*(?P<amount>{_NUMBER_TEXT})\s*(?P<percent>%)?)?""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Policies:
    """The effects of a missed rule, of a missing metric, and of a missing baseline."""

    severity: Literal["fail", "warn"] = "fail"
    missing: Policy = "fail"
    no_baseline: Policy = "fail"


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """Which value of a history counts.

    Attributes:
        name: ``p`` is a percentile, ``mean`` with an argument that of the last values; ``steps`` counts steps, ``count`` values.
        argument: per cent of ``p``; number of values of ``mean``; else None.
    """

    name: AggregateName = "last"
    argument: float | None = None

    @property
    def text(self) -> str:
        """As it is written in a rule."""
        return self.name if self.argument is None else f"{self.name}({self.argument:g})"

    def of(self, metric: str) -> str:
        """Return how the value of *metric* is called in an explanation."""
        if self.name == "last":
            return metric
        return f"{self.name}({metric})" if self.argument is None else f"{self.text} of {metric}"


LAST: Final = Aggregate()


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The value that another is compared with, if it is no number.

    It is another metric's value, or the baseline's, and a tolerance.

    Attributes:
        metric: the other metric's name; None for the same metric of the baseline.
        aggregate: which of its values; None for the one that is on the left-hand side.
        tolerance: added to it, with its sign.
        percent: whether the tolerance is per cent of its magnitude.
    """

    metric: str | None = None
    aggregate: Aggregate | None = None
    tolerance: float = 0.0
    percent: bool = False

    def limit(self, value: float) -> float:
        """Return the limit that the value referred to gives, exact in decimal.

        It is calculated as by hand: 0.6 + 50% is 0.9, to the last digit.
        """
        if not math.isfinite(value):
            return value
        exact, tolerance = Decimal(repr(value)), Decimal(repr(self.tolerance))
        return float(exact + (abs(exact) * tolerance / 100 if self.percent else tolerance))


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One threshold over the values of one metric, or what their course must be.

    Attributes:
        text: the rule as the user wrote it.
        shape: ``finite``, ``increasing`` or ``decreasing``; None for a threshold.
        aggregate: which value of the history is compared.
        operator: how it is compared with the limit.
        limit: the finite number on the right-hand side; None where there is a reference.
        reference: what gives the limit; None where it is a number.
        over: which value of those of all replicates is compared; None for a rule that holds for each of them.
    """

    text: str
    shape: Shape | None = None
    over: Over | None = None
    aggregate: Aggregate = LAST
    operator: Operator = ">="
    limit: float | None = None
    reference: Reference | None = None

    @property
    def greater(self) -> bool:
        """Whether greater values are better."""
        return self.operator in (">", ">=")

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics whose history the rule needs besides its own."""
        return (self.reference.metric,) if self.reference is not None and self.reference.metric is not None else ()

    @property
    def needs_baseline(self) -> bool:
        """Whether the rule compares with the baseline."""
        return self.reference is not None and self.reference.metric is None

    def holds(self, value: float, limit: float) -> bool:
        """Return whether *value* meets *limit*; NaN and infinities never do."""
        return math.isfinite(value) and math.isfinite(limit) and COMPARE[self.operator](value, limit)


def parse_rule(text: str) -> Rule:
    """Parse a rule: ``[replicates WORD] [AGGREGATE] OPERATOR LIMIT``, or a shape such as ``finite``.

    A limit is a number, ``baseline``, or ``metric(NAME)``; the last two may have an aggregate in front, and a tolerance
    behind: ``- 0.01``, ``+ 2%``.

    Raises:
        ValueError: if the text is no rule; the message says what would be one.
    """
    given = text.strip()
    if len(given) > _LONGEST:
        raise ValueError(f"a rule has at most {_LONGEST} characters, and {given[:40]!r}… has {len(given)}")
    if given in SHAPES:
        return Rule(text=given, shape=given)
    if (over := _OVER.fullmatch(given)) is not None:
        if over["word"] not in OVER or over["rest"] in ("", *SHAPES):
            raise ValueError(f"{text!r}: write `replicates` with one of {', '.join(OVER)}, and a comparison")
        rule = parse_rule(over["rest"])
        if rule.over is not None or (over["word"] == "worst" and rule.operator == "=="):
            raise ValueError(f"{text!r} does not say which replicate is the worst, or says `replicates` twice")
        return replace(rule, text=given, over=cast("Over", over["word"]))
    match = _RULE.fullmatch(given)
    if match is None:
        raise ValueError(
            f"{text!r} is not a rule; write for example '>= 0.95', 'min < 0.2', '>= baseline - 1%' or 'finite'"
        )
    if match["operator"] not in OPERATORS:
        raise ValueError(f"{text!r} compares with {match['operator']!r}; known are {' '.join(OPERATORS)}")
    comparison = cast("Operator", match["operator"])
    how = _aggregate(match["left"].strip(), text)
    if how.name == "best" and comparison == "==":
        raise ValueError(f"{text!r} asks for the best value, and == does not say which is better; write min or max")
    right = match["right"].strip()
    if _NUMBER.fullmatch(right):
        return Rule(text=given, aggregate=how, operator=comparison, limit=_number(right, text))
    reference = _reference(right, text)
    return Rule(text=given, aggregate=how, operator=comparison, reference=reference)


def _aggregate(given: str, text: str) -> Aggregate:
    if not given:
        return LAST
    match = _AGGREGATE.fullmatch(given)
    if match is None or match["name"] not in AGGREGATES:
        raise ValueError(f"{text!r} starts with {given!r}; known are {_WORDS}")
    name, argument = cast("AggregateName", match["name"]), match["argument"]
    if name == "p":
        if argument is None or not _NUMBER.fullmatch(argument.strip()) or not 0 <= float(argument) <= 100:
            raise ValueError(f"{text!r}: a percentile is written p(95), with a number from 0 to 100")
        return Aggregate(name=name, argument=float(argument))
    if argument is None:
        return Aggregate(name=name)
    if name != "mean":
        raise ValueError(f"{text!r}: {name} takes nothing in parentheses")
    if not 1 <= (whole(argument.strip()) or 0) <= 1_000_000:
        raise ValueError(f"{text!r}: the mean of the last values is written mean(5), with a whole number from 1")
    return Aggregate(name=name, argument=float(argument))


def _reference(given: str, text: str) -> Reference:
    match = _REFERENCE.fullmatch(given)
    if match is None:
        raise ValueError(
            f"{text!r} compares with {given!r}, which is not a finite number, nor baseline or metric(NAME)"
            " with a tolerance such as - 0.01 or - 1%"
        )
    amount = 0.0
    if match["amount"] is not None:
        amount = _number(match["amount"], text) * (-1 if match["sign"] == "-" else 1)
    metric = match["metric"]
    if metric is not None:
        metric = metric.strip()
        if len(metric) > 1 and metric[0] == metric[-1] and metric[0] in "\"'":
            metric = metric[1:-1]
        if not metric:
            raise ValueError(f"{text!r} compares with a metric without a name")
    return Reference(
        metric=metric,
        aggregate=_aggregate(match["aggregate"], text) if match["aggregate"] else None,
        tolerance=amount,
        percent=match["percent"] is not None,
    )


def _number(given: str, text: str) -> float:
    """Return a number that a float holds; a whole one to the last digit.

    Raises:
        ValueError: if it is too large, or a whole number that would be rounded.
    """
    number = float(given)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} compares with {given!r}, which is too large for a float")
    digits = given.replace("_", "").lstrip("+")
    if re.fullmatch(r"-?\d+", digits) and Decimal(digits) != Decimal(number):
        raise ValueError(f"{text!r} compares with {given!r}, which as a float is {int(number)}")
    return number


Certainty = Literal["impossible", "violated"]
"""What has to hold before a rule is given up while the job runs; see :mod:`aml_train.gate.futility`."""
COUNTS: Final = ("count", "steps")
#: Aggregates that every value takes part in, whatever comes after it.
_OF_ALL: Final = ("min", "max", "best", "mean", "median", "p")


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """One rule of ``watch.stop`` besides those of the gate.

    Attributes:
        metric: the metric's name; ``job`` for the silence of the job.
        kind: what is looked for.
        text: the rule as it is written.
        where: ``file:line``.
        number: steps without a better value, the step of the comparison, or seconds of silence.
        margin: by how many per cent of the baseline's value a curve may be worse.
        greater: whether greater values are better.
        goals: the gate's bounds of the metric: while it meets them all, its curve is not given up.
    """

    metric: str
    kind: Literal["nan", "no-improvement", "below-baseline", "silence"]
    text: str
    where: str
    number: float = 0.0
    margin: float = 0.0
    greater: bool = False
    goals: tuple[Rule, ...] = ()


def decidable(rule: Rule, policies: Policies, certainty: Certainty) -> bool:
    """Return whether a rule of the gate can be decided before the job's end, and ends the run then.

    A limit that is another metric's value or the baseline's may still change.
    """
    if policies.severity != "fail" or rule.over is not None:
        return False
    if rule.shape is not None:
        return rule.shape == "finite" or certainty == "violated"
    if rule.limit is None:
        return False
    if rule.aggregate.name in COUNTS:
        return rule.operator in ("<", "<=", "==")
    of_the_last = rule.aggregate.name == "mean" and rule.aggregate.argument is not None
    return certainty == "violated" and rule.aggregate.name in _OF_ALL and not of_the_last


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How replicates are judged.

    Attributes:
        planned: how many there are at most.
        alpha: the greatest probability of a false green of a test.
        early: whether the first of them may decide, before the others have ended.
    """

    planned: int
    alpha: float
    early: bool
