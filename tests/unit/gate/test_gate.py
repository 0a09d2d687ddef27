from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.gate.decide import Decision, MetricPoint, decide_rule, last_value
from aml_train.gate.rules import parse_rule

INF = math.inf
NAN = math.nan


def points(*values: float) -> list[MetricPoint]:
    return [MetricPoint(step=i, value=v, timestamp=i) for i, v in enumerate(values)]


@pytest.mark.parametrize(
    ("rule", "values", "met", "reason"),
    [
        (">= 0.95", [0.5, 0.96], True, "acc = 0.96, wanted >= 0.95: met with 0.01 to spare"),
        (">= 0.95", [0.96, 0.5], False, "acc = 0.5, wanted >= 0.95: missed by 0.45"),
        (">= 0.95", [0.95], True, "acc = 0.95, wanted >= 0.95: met with 0 to spare"),
        ("> 0.95", [0.95], False, "missed by 0"),
        ("max >= 0.95", [0.96, 0.5], True, "max(acc) = 0.96"),
        ("min < 0.2", [0.9, 0.1, 0.5], True, "min(acc) = 0.1"),
        ("last <= 1e-3", [0.5, 0.001], True, "acc = 0.001"),
        ("== 3", [3.0], True, "acc = 3"),
        ("== 3", [3.1], False, "missed by 0.1"),
        ("< -1", [-2.0], True, "wanted < -1"),
        (">= 0.95", [NAN], False, "acc is NaN, which meets no limit"),
        ("< 0.2", [NAN], False, "acc is NaN"),
        ("min < 0.2", [0.1, NAN], False, "min(acc) is NaN"),
        (">= 0.95", [INF], True, "acc = inf"),
        ("< 0.95", [INF], False, "missed by inf"),
        (">= 0", [-0.0], True, "met with 0 to spare"),
    ],
)
def test_a_rule_is_decided_and_explained(rule: str, values: list[float], met: bool, reason: str) -> None:
    decision = decide_rule("acc", parse_rule(rule), "f.yml:3", {"acc": points(*values)})
    assert decision.met is met
    assert reason in decision.reason


def test_a_missing_metric_fails_and_says_what_there_was() -> None:
    decision = decide_rule("acc", parse_rule("> 0"), "f.yml:3", {"loss": points(1.0)})
    assert not decision.met
    assert decision.value is None
    assert decision.reason == "acc is missing (the job logged loss); wanted > 0"
    assert "no metrics at all" in decide_rule("acc", parse_rule("> 0"), "f.yml:3", {}).reason


def test_one_missed_rule_misses_the_gate() -> None:
    good = decide_rule("acc", parse_rule("> 0"), "f:1", {"acc": points(1.0)})
    bad = decide_rule("acc", parse_rule("> 2"), "f:2", {"acc": points(1.0)})
    assert Decision(rules=()).met
    assert Decision(rules=(good,)).met
    assert not Decision(rules=(good, bad)).met
    assert Decision(rules=(good, bad)).missed == (bad,)


def test_the_last_value_is_that_of_the_highest_step_then_of_the_latest_time() -> None:
    assert (
        last_value([MetricPoint(step=5, value=1.0, timestamp=1), MetricPoint(step=2, value=2.0, timestamp=9)]) == 1.0
    )
    same = [MetricPoint(step=1, value=1.0, timestamp=5), MetricPoint(step=1, value=2.0, timestamp=4)]
    assert last_value(same) == 1.0
    tie = [MetricPoint(step=0, value=1.0, timestamp=0), MetricPoint(step=0, value=2.0, timestamp=0)]
    assert last_value(tie) == 2.0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not a rule"),
        ("0.95", "is not a rule"),
        (">=", "is not a rule"),
        ("=> 1", "compares with '=>'"),
        ("!= 1", "compares with '!='"),
        ("mean > 1", "starts with 'mean'; known are last, min, max"),
        (">= nan", "which is not a finite number"),
        (">= inf", "which is not a finite number"),
        (">= 1e999", "too large for a float"),
        (">= 95%", "which is not a finite number"),
        (">= 0,95", "which is not a finite number"),
        (">= 1 2", "is not a rule"),
    ],
)
def test_what_is_no_rule_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse_rule(text)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=True))
def test_a_rule_and_its_opposite_never_both_hold(limit: float, value: float) -> None:
    at_least, below = parse_rule(f">= {limit!r}"), parse_rule(f"< {limit!r}")
    assert at_least.limit == limit
    assert at_least.holds(value) + below.holds(value) == (0 if math.isnan(value) else 1)
