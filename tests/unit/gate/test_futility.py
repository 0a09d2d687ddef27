"""What is decided before a job's end: against the gate's own decision on whole histories."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from aml_train.gate.decide import Evidence, decide_gate
from aml_train.gate.futility import hopeless, unmeetable
from aml_train.gate.history import MetricPoint, sequence
from aml_train.gate.rules import Certainty, Policies, Rule, StopRule, parse_rule

NAN, INF = math.nan, math.inf


@dataclass(frozen=True, kw_only=True)
class OneRule:
    """A rule of a gate."""

    metric: str
    rule: Rule
    where: str = "aml-train.yml:9"
    policies: Policies = field(default_factory=Policies)


def points(*values: float, steps: Sequence[int] | None = None) -> list[MetricPoint]:
    numbers = range(len(values)) if steps is None else steps
    return [
        MetricPoint(step=step, value=value, timestamp=at)
        for at, (step, value) in enumerate(zip(numbers, values, strict=True))
    ]


def lost(text: str, history: list[MetricPoint], certainty: Certainty = "impossible", **policies: str) -> bool:
    rule = OneRule(metric="m", rule=parse_rule(text), policies=Policies(**policies))  # type: ignore[arg-type]
    return bool(unmeetable([rule], {"m": history}, certainty))


@pytest.mark.parametrize(
    ("rule", "history", "impossible", "violated"),
    [
        ("finite", points(1, NAN), True, True),
        ("finite", points(1, INF, 2), True, True),
        ("finite", points(1, 2), False, False),
        ("count <= 2", points(1, 2, 3), True, True),
        ("count <= 3", points(1, 2, 3), False, False),
        ("count < 3", points(1, 2, 3), True, True),
        ("count == 2", points(1, 2, 3), True, True),
        ("count == 3", points(1, 2, 3), False, False),
        ("count >= 9", points(1), False, False),
        ("count <= 2", points(1, 2, 3, steps=[0, 0, 0]), True, True),
        ("steps <= 2", points(1, 2, 3), True, True),
        # Values under one step are one step as soon as another one comes.
        ("steps <= 2", points(1, 2, 3, steps=[0, 0, 0]), False, False),
        ("steps < 2", points(1, 2, 3, steps=[0, 0, 0]), True, True),
        ("steps <= 2", points(1, 2, 3, steps=[0, 1, 1]), False, False),
        # A step may be logged again.
        ("max < 5", points(1, 9), False, True),
        ("max < 5", points(1, 9, 2, steps=[0, 1, 1]), False, False),
        ("max <= 9", points(1, 9), False, False),
        ("max >= 5", points(1, 2), False, False),
        ("max >= 5", points(1, INF), False, True),
        ("max == 5", points(1, 9), False, True),
        ("min > 0", points(1, -1), False, True),
        ("min < 0", points(1, 2), False, False),
        ("best < 0.1", points(0.5), False, False),
        ("best < 0.1", points(-INF), False, True),
        ("min >= baseline", points(-1), False, False),
        ("count <= count metric(other)", points(1, 2), False, False),
        ("mean < 1", points(5, NAN), False, True),
        ("mean(2) < 1", points(5, NAN), False, False),
        ("p(95) < 1", points(5, NAN), False, True),
        ("last < 1", points(5, NAN), False, False),
        ("increasing", points(1, 3, 2), False, True),
        ("increasing", points(1, 1), False, False),
        ("decreasing", points(3, 2, NAN), False, True),
    ],
)
def test_what_no_further_value_makes_good(
    rule: str, history: list[MetricPoint], impossible: bool, violated: bool
) -> None:
    assert lost(rule, history) is impossible
    assert lost(rule, history, "violated") is violated
    assert not lost(rule, history, "violated", severity="warn")


RULES = (
    "finite", "increasing", "decreasing", "last < {}", "first > {}", "min < {}", "min > {}", "max < {}", "max >= {}", "best > {}",
    "best < {}", "mean < {}", "mean(3) < {}", "median < {}", "p(90) < {}", "== {}", "max == {}", "steps <= {n}", "steps == {n}",
    "count <= {n}", "count < {n}", "count == {n}", "steps >= {n}", "count >= {n}", "max < max metric(other)",
)  # fmt: skip


def curve(chance: random.Random) -> list[MetricPoint]:
    """One history in the order of arrival: steps are missing, come twice or late, clocks differ, values are no numbers."""
    level, fall = chance.uniform(0, 2), chance.uniform(-0.2, 0.3)
    odd, again = chance.choice((0.0, 0.0, 0.05)), chance.choice((0.0, 0.0, 0.1, 0.5))
    found: list[MetricPoint] = []
    for number in range(chance.randint(1, 16)):
        step = 0 if again == 0.5 else chance.randint(0, number) if chance.random() < again else number
        value = level - fall * number + chance.gauss(0, 0.1)
        value = chance.choice((NAN, INF, -INF)) if chance.random() < odd else round(value, 2)
        late = chance.choice((0, 0, -3000)) if again else 0
        found.append(MetricPoint(step=step, value=value, timestamp=1000 * number + late))
    return found


def rules(chance: random.Random) -> list[OneRule]:
    chosen = chance.sample(RULES, chance.randint(1, 3))
    texts = [text.format(round(chance.uniform(-2, 3), 1), n=chance.randint(1, 18)) for text in chosen]
    policies = [chance.choice((Policies(), Policies(), Policies(severity="warn"))) for _ in texts]
    return [
        OneRule(metric="m", rule=parse_rule(text), policies=policy)
        for text, policy in zip(texts, policies, strict=True)
    ]


def steps_once(history: list[MetricPoint]) -> bool:
    return len({point.step for point in history}) == len(history)


def test_no_run_that_passes_is_given_up_at_any_time() -> None:
    """10,000 curves: the gate decides the whole one, and each beginning is asked whether it can still pass."""
    chance = random.Random(46)  # noqa: S311
    passed = failed = foreseen = of_decidable = 0
    hours = ran = 0
    for _ in range(10_000):
        gate, histories = rules(chance), {"m": curve(chance), "other": curve(chance)}
        whole = histories["m"]
        met = decide_gate(gate, Evidence(histories=histories)).met
        certainty: Certainty = "violated" if steps_once(whole) and chance.random() < 0.5 else "impossible"
        first = next(
            (
                length
                for length in range(1, len(whole) + 1)
                if unmeetable(gate, {"m": whole[:length], "other": histories["other"]}, certainty)
            ),
            None,
        )
        passed, failed = passed + met, failed + (not met)
        if met:
            assert first is None, (gate, whole, first)
            continue
        if decide_gate([one for one in gate if of_every_value(one)], Evidence(histories=histories)).missed:
            # What every value counts for is known as soon as it is so.
            of_decidable += 1
            assert first is not None, (gate, whole)
        if first is not None:
            foreseen, hours, ran = foreseen + 1, hours + len(whole) - first, ran + len(whole)
    assert passed > 3000
    assert failed > 5000
    assert of_decidable > 400
    assert foreseen > failed * 0.2
    assert hours > ran * 0.4


def of_every_value(one: OneRule) -> bool:
    return one.rule.shape == "finite" or (one.rule.aggregate.name == "count" and one.rule.operator in ("<", "<="))


def test_what_is_given_up_is_lost_whatever_comes_after() -> None:
    """The other way round: from beginnings that are given up, no continuation passes, also none that logs every step again."""
    chance, given_up = random.Random(7), 0  # noqa: S311
    while given_up < 500:
        gate, begun = rules(chance), curve(chance)
        if not unmeetable(gate, {"m": begun, "other": []}, "impossible"):
            continue
        given_up += 1
        for _ in range(10):
            after = [
                MetricPoint(step=one.step, value=chance.choice((-1.0, 0.5, 2.0)), timestamp=10**6) for one in begun
            ]
            more = [replace_time(one, 10**7) for one in curve(chance)]
            whole = [*begun, *chance.choice((after, more, [*after, *more]))]
            assert not decide_gate(gate, Evidence(histories={"m": whole, "other": whole})).met


def replace_time(point: MetricPoint, later: int) -> MetricPoint:
    return MetricPoint(step=point.step, value=point.value, timestamp=point.timestamp + later)


def stop(kind: str, **others: object) -> StopRule:
    return StopRule(metric="m", kind=kind, text=kind, where="f:1", **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "history", "reason"),
    [
        (stop("nan"), points(1, NAN, 2), "m is nan at step 1"),
        (stop("nan"), points(1, -INF), "m is -inf at step 1"),
        (stop("nan"), points(1, 2), ""),
        (stop("no-improvement", number=2), points(3, 1, 2, 2), "m has not improved for 2 steps; its best value is 1"),
        (stop("no-improvement", number=2), points(3, 1, 2), ""),
        (stop("no-improvement", number=2, greater=True), points(3, 1, 4), ""),
        # What meets the gate by now is not given up.
        (stop("no-improvement", number=2, goals=(parse_rule("< 3"), parse_rule("min < 2"))), points(3, 1, 2, 2), ""),
        (
            stop("no-improvement", number=2, goals=(parse_rule("< 3"), parse_rule("< 2"))),
            points(3, 1, 2, 2),
            "best value is 1",
        ),
        (stop("no-improvement", number=2, greater=True), points(3, 3, NAN), "its best value is 3"),
        (stop("no-improvement", number=2), points(3, 2, 1, 0.5, steps=[0, 0, 1, 1]), ""),
        (
            stop("below-baseline", number=2, margin=20.0, greater=True),
            points(0.1, 0.2, 0.3),
            "m is 0.3 at step 2, where the baseline has 0.6: worse by more than 20 %",
        ),
        (stop("below-baseline", number=2, margin=50.0, greater=True), points(0.1, 0.2, 0.3), ""),
        (stop("below-baseline", number=2, margin=20.0, greater=True), points(0.1, 0.2), ""),
        (stop("below-baseline", number=2, margin=20.0), points(0.1, 0.2, 0.3), ""),
        (stop("below-baseline", number=2, margin=20.0), points(0.1, 0.2, NAN), "m is nan at step 2"),
        (stop("below-baseline", number=4, margin=20.0, greater=True), points(0.9, 0.1, steps=[3, 5]), "at step 5"),
    ],
)
def test_curves_without_hope(rule: StopRule, history: list[MetricPoint], reason: str) -> None:
    baseline = points(0.2, 0.4, 0.6)
    found = hopeless([rule], {"m": history}, {"m": baseline})
    assert [one.reason for one in found] == ([found[0].reason] if reason else [])
    assert not reason or reason in found[0].reason
    assert sequence(baseline) == [0.2, 0.4, 0.6]
    if rule.kind == "below-baseline":
        assert not hopeless([rule], {"m": history}, {})
