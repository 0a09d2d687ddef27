"""The gate's rules: how they are read, decided and explained."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.core.events import RuleVerdict
from aml_train.gate.baseline import RunBaseline, ValuesBaseline, read_value, read_values
from aml_train.gate.decide import Decision, Evidence, decide_rule
from aml_train.gate.history import MetricPoint, last_value, percentile, sequence
from aml_train.gate.rules import Policies, parse_rule

INF = math.inf
NAN = math.nan


def points(*values: float) -> list[MetricPoint]:
    return [MetricPoint(step=i, value=v, timestamp=i) for i, v in enumerate(values)]


def decide(rule: str, values: list[float], policies: Policies | None = None, **others: list[float]) -> RuleVerdict:
    histories = {"acc": points(*values), **{name: points(*found) for name, found in others.items()}}
    return decide_rule("acc", parse_rule(rule), "f.yml:3", Evidence(histories=histories), policies)


@pytest.mark.parametrize(
    ("rule", "values", "met", "reason"),
    [
        (">= 0.95", [0.5, 0.96], True, "acc = 0.96, wanted >= 0.95: met with 0.01 to spare"),
        (">= 0.95", [0.96, 0.5], False, "acc = 0.5, wanted >= 0.95: missed by 0.45"),
        (">= 0.95", [0.95], True, "acc = 0.95, wanted >= 0.95: met with 0 to spare"),
        ("> 0.95", [0.95], False, "missed by 0"),
        ("first < 0.6", [0.5, 0.96], True, "first(acc) = 0.5"),
        ("max >= 0.95", [0.96, 0.5], True, "max(acc) = 0.96"),
        ("min < 0.2", [0.9, 0.1, 0.5], True, "min(acc) = 0.1"),
        ("best > 0.8", [0.9, 0.1], True, "best(acc) = 0.9"),
        ("best < 0.2", [0.9, 0.1], True, "best(acc) = 0.1"),
        ("mean == 2", [1.0, 2.0, 3.0], True, "mean(acc) = 2"),
        ("mean(2) >= 2.5", [9.0, 2.0, 3.0], True, "mean(2) of acc = 2.5"),
        ("mean(4) >= 2.5", [9.0, 2.0, 3.0], False, "acc cannot be judged: it has 3 values, and mean(4) needs 4"),
        ("median < 2.1", [1.0, 9.0, 2.0], True, "median(acc) = 2"),
        ("median == 1.5", [1.0, 2.0], True, "median(acc) = 1.5"),
        ("p(50) == 2", [1.0, 2.0, 9.0], True, "p(50) of acc = 2"),
        ("p(95) <= 9.5", [float(i) for i in range(11)], True, "p(95) of acc = 9.5"),
        ("steps >= 3", [1.0, 1.0, 1.0], True, "steps(acc) = 3"),
        ("count >= 4", [1.0, 1.0, 1.0], False, "count(acc) = 3"),
        ("last <= 1e-3", [0.5, 0.001], True, "acc = 0.001"),
        ("== 3", [3.0], True, "acc = 3"),
        ("== 3", [3.1], False, "missed by 0.1"),
        ("< -1", [-2.0], True, "wanted < -1"),
        (">= 0.95", [NAN], False, "acc is NaN, which meets no limit"),
        ("< 0.2", [NAN], False, "acc is NaN"),
        ("min < 0.2", [0.1, NAN], False, "min(acc) is NaN"),
        ("mean < 0.2", [0.1, NAN], False, "mean(acc) is NaN"),
        ("mean(1) < 0.2", [NAN, 0.1], True, "mean(1) of acc = 0.1"),
        (">= 0.95", [INF], False, "acc is inf, which is no measurement and meets no limit (wanted >= 0.95)"),
        ("< 0.95", [-INF], False, "acc is -inf, which is no measurement"),
        ("mean > 0", [INF, -INF], False, "mean(acc) is NaN"),
        ("median > 0", [1.0, 2.0, INF], True, "median(acc) = 2"),
        ("p(100) > 0", [1.0, INF], False, "p(100) of acc is inf"),
        (">= 0", [-0.0], True, "met with 0 to spare"),
        ("mean > 1e308", [1.7e308, 1.7e308], True, "mean(acc) = 1.7e+308"),
        ("median > 1e308", [1.7e308, 1.6e308], True, "median(acc) = 1.65e+308"),
        ("> -1.7e308", [1.7e308], True, "met with inf to spare"),
        ("finite", [1.0, 2.0], True, "acc is finite, over 2 values"),
        ("finite", [1.0, NAN, 2.0], False, "acc is not finite: it is nan at step 1"),
        ("finite", [-INF], False, "it is -inf at step 0"),
        ("increasing", [1.0, 1.0, 2.0], True, "acc is increasing"),
        ("increasing", [1.0, 3.0, 2.0], False, "acc is not increasing: its value 3 is 2, after 3"),
        ("increasing", [1.0, 1.0], False, "acc is not increasing: it stays at 1"),
        ("increasing", [1.0], False, "it has 1 value, and a direction needs 2"),
        ("increasing", [1.0, NAN], False, "not all of its values are finite"),
        ("decreasing", [3.0, 2.0, 1.0], True, "acc is decreasing"),
        ("decreasing", [3.0, 2.0, 2.5], False, "its value 3 is 2.5, after 2"),
    ],
)
def test_a_rule_is_decided_and_explained(rule: str, values: list[float], met: bool, reason: str) -> None:
    decision = decide(rule, values)
    assert decision.met is met
    assert decision.verdict == ("met" if met else "missed")
    assert reason in decision.reason


@pytest.mark.parametrize(
    ("rule", "met", "reason"),
    [
        ("<= metric(train) + 0.1", True, "acc = 0.9, wanted <= 0.95 (train, 0.85 + 0.1): met with 0.05 to spare"),
        ("<= metric(train)", False, "missed by 0.05"),
        ("<= metric('train') + 10%", True, "wanted <= 0.935 (train, 0.85 + 10%)"),
        ("max <= metric(train) + 1", True, "max(acc) = 0.95, wanted <= 1.99 (max(train), 0.99 + 1)"),
        ("min <= last metric(train)", False, "min(acc) = 0.9, wanted <= 0.85 (train, 0.85): missed by 0.05"),
        ("mean(2) < p(100) metric(train)", True, "(p(100) of train, 0.99)"),
        (
            "<= metric(loss, on (odd) days) - 1e-1",
            False,
            "loss, on (odd) days is missing (the job logged acc, train)",
        ),
        ("<= metric(nothing)", False, "nothing is missing (the job logged acc, train); wanted <= metric(nothing)"),
    ],
)
def test_a_metric_is_compared_with_another(rule: str, met: bool, reason: str) -> None:
    decision = decide(rule, [0.95, 0.9], train=[0.99, 0.85])
    assert decision.met is met
    assert reason in decision.reason


@pytest.mark.parametrize(
    ("rule", "value", "limit", "met"),
    [
        (">= baseline", 0.9, 0.9, True),
        (">= baseline - 0.01", 0.895, 0.89, True),
        (">= baseline - 0.01", 0.88, 0.89, False),
        (">= baseline - 1%", 0.892, 0.891, True),
        (">= baseline - 1%", 0.89, 0.891, False),
        ("< baseline", 0.9, 0.9, False),
        ("<= baseline + 5%", 0.945, 0.945, True),
    ],
)
def test_a_metric_is_compared_with_the_baseline(rule: str, value: float, limit: float, met: bool) -> None:
    baseline = ValuesBaseline(title="baseline.json", values={"acc": 0.9}, stands_for_all=True)
    evidence = Evidence(histories={"acc": points(value)}, baseline=baseline)
    decision = decide_rule("acc", parse_rule(rule), "f:1", evidence)
    assert decision.met is met
    assert decision.limit == pytest.approx(limit)
    assert "(that of baseline.json, 0.9" in decision.reason


def test_per_cent_are_of_the_magnitude() -> None:
    """1 % more than a loss of -2 is -1.98: towards greater values, whatever the sign."""
    baseline = ValuesBaseline(title="b", values={"acc": -2.0}, stands_for_all=True)
    evidence = Evidence(histories={"acc": points(-1.99)}, baseline=baseline)
    assert decide_rule("acc", parse_rule("<= baseline + 1%"), "f:1", evidence).limit == pytest.approx(-1.98)
    assert decide_rule("acc", parse_rule(">= baseline - 1%"), "f:1", evidence).limit == pytest.approx(-2.02)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_baseline_that_is_not_finite_is_met_by_nothing(value: float) -> None:
    baseline = ValuesBaseline(title="b", values={"acc": value}, stands_for_all=True)
    for rule in (">= baseline", "<= baseline", "== baseline", "< baseline + 10%"):
        decision = decide_rule(
            "acc", parse_rule(rule), "f:1", Evidence(histories={"acc": points(1)}, baseline=baseline)
        )
        assert decision.verdict == "missed"
        assert "a limit that is not finite is met by nothing" in decision.reason


def test_aggregates_of_the_baseline() -> None:
    run = RunBaseline(title="the job j", histories={"acc": points(0.9, 0.5, 0.7)})
    evidence = Evidence(histories={"acc": points(0.8)}, baseline=run)
    assert decide_rule("acc", parse_rule("max >= baseline"), "f:1", evidence).limit == 0.9
    assert decide_rule("acc", parse_rule("max >= last baseline"), "f:1", evidence).limit == 0.7
    assert decide_rule("acc", parse_rule(">= min baseline"), "f:1", evidence).limit == 0.5
    gone = ValuesBaseline(title="digits version 3", values={"acc": 0.7}, stands_for_all=False)
    evidence = Evidence(histories={"acc": points(0.8)}, baseline=gone)
    assert decide_rule("acc", parse_rule(">= baseline"), "f:1", evidence).met
    missing = decide_rule("acc", parse_rule("max >= baseline"), "f:1", evidence)
    assert missing.verdict == "missed"
    assert missing.reason == "the baseline digits version 3 has no max(acc); wanted max >= baseline"


def test_a_file_stands_for_any_aggregate() -> None:
    file = ValuesBaseline(title="b.json", values={"acc": 0.7}, stands_for_all=True)
    evidence = Evidence(histories={"acc": points(0.8, 0.9, 0.8)}, baseline=file)
    for rule in ("max >= baseline", "mean(3) >= baseline", "p(5) > baseline", "median > baseline"):
        assert decide_rule("acc", parse_rule(rule), "f:1", evidence).met, rule
    assert not decide_rule("acc", parse_rule("steps >= baseline"), "f:1", evidence).met


@pytest.mark.parametrize(
    ("policies", "verdict"),
    [
        (Policies(), "missed"),
        (Policies(severity="warn"), "missed"),
        (Policies(missing="warn"), "warned"),
        (Policies(missing="skip"), "skipped"),
        (Policies(no_baseline="skip"), "missed"),
    ],
)
def test_what_becomes_of_a_missing_metric(policies: Policies, verdict: str) -> None:
    decision = decide_rule("acc", parse_rule("> 0"), "f.yml:3", Evidence(histories={"loss": points(1.0)}), policies)
    assert (decision.verdict, decision.met, decision.value) == (verdict, False, None)
    assert decision.reason == "acc is missing (the job logged loss); wanted > 0"


def test_what_becomes_of_a_missing_baseline() -> None:
    evidence = Evidence(histories={"acc": points(1.0)}, no_baseline="there is no such model")
    rule = parse_rule(">= baseline")
    verdicts = {
        policy: decide_rule("acc", rule, "f:1", evidence, Policies(no_baseline=policy)).verdict
        for policy in ("fail", "warn", "skip")
    }
    assert verdicts == {"fail": "missed", "warn": "warned", "skip": "skipped"}
    decision = decide_rule("acc", rule, "f:1", evidence, Policies(missing="skip", severity="warn"))
    assert decision.verdict == "missed"
    assert decision.reason == "acc has no baseline (there is no such model); wanted >= baseline"


def test_a_rule_may_only_warn() -> None:
    decision = decide("> 2", [1.0], Policies(severity="warn"))
    assert (decision.verdict, decision.met) == ("warned", False)
    assert decide("> 0", [1.0], Policies(severity="warn")).verdict == "met"
    assert Decision(rules=(decision,)).met


def test_a_missing_metric_without_any_other() -> None:
    evidence = Evidence(histories={})
    assert "no metrics at all" in decide_rule("acc", parse_rule("> 0"), "f.yml:3", evidence).reason


def test_one_missed_rule_misses_the_gate() -> None:
    good, bad, warned = decide("> 0", [1.0]), decide("> 2", [1.0]), decide("> 2", [1.0], Policies(severity="warn"))
    assert Decision(rules=()).met
    assert Decision(rules=(good,)).met
    assert not Decision(rules=(good, bad, warned)).met
    assert Decision(rules=(good, bad, warned)).missed == (bad,)
    assert Decision(rules=()).summary == "no rules given"
    assert Decision(rules=(good,)).summary == "1 rule met"
    assert Decision(rules=(good, good)).summary == "2 rules met"
    assert Decision(rules=(good, bad, warned)).summary == "1 met, 1 missed, 1 warned"


def point(step: int, value: float, timestamp: int) -> MetricPoint:
    return MetricPoint(step=step, value=value, timestamp=timestamp)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([point(5, 1, 1), point(2, 2, 9)], [2, 1]),
        ([point(1, 1, 5), point(1, 2, 4)], [2, 1]),
        ([point(0, 1, 0), point(0, 2, 0)], [1, 2]),
        ([point(0, 1, 0), point(1, 2, 1), point(1, 3, 2), point(0, 4, 3)], [4, 3]),
        ([point(-1, 1, 0), point(0, 2, 0)], [1, 2]),
        ([], []),
    ],
    ids=["out of order", "one step, by time", "one step, by order", "resumed", "negative", "none"],
)
def test_the_sequence_of_values(found: list[MetricPoint], expected: list[float]) -> None:
    assert sequence(found) == expected
    if expected:
        assert last_value(found) == expected[-1]


def test_what_was_written_again_does_not_count_but_for_being_finite() -> None:
    resumed = [point(0, 1, 0), point(1, NAN, 1), point(1, 0.5, 2)]
    evidence = Evidence(histories={"acc": resumed})
    assert decide_rule("acc", parse_rule("min < 0.6"), "f:1", evidence).met
    assert not decide_rule("acc", parse_rule("finite"), "f:1", evidence).met
    assert decide_rule("acc", parse_rule("count == 3"), "f:1", evidence).met
    assert decide_rule("acc", parse_rule("steps == 2"), "f:1", evidence).met


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not a rule"),
        ("0.95", "is not a rule"),
        (">=", "is not a rule"),
        ("rising", "is not a rule"),
        ("=> 1", "compares with '=>'"),
        ("!= 1", "compares with '!='"),
        (
            "avg > 1",
            "starts with 'avg'; known are last, first, best, min, max, mean, mean(N), median, p(N), count, steps",
        ),
        ("p > 1", "a percentile is written p(95)"),
        ("p(101) > 1", "a percentile is written p(95)"),
        ("p(x) > 1", "a percentile is written p(95)"),
        ("mean(0) > 1", "the mean of the last values is written mean(5)"),
        ("mean(2.5) > 1", "the mean of the last values is written mean(5)"),
        (f"mean({'9' * 400}) > 1", "the mean of the last values is written mean(5)"),
        (
            "mean(9) > " + "9" * 5000,
            "a rule has at most 500 characters, and 'mean(9) > 999999999999999999999999999999'… has 5010",
        ),
        ("max(3) > 1", "max takes nothing in parentheses"),
        ("best == 1", "== does not say which is better"),
        (">= nan", "which is not a finite number"),
        (">= inf", "which is not a finite number"),
        (">= 1e999", "too large for a float"),
        (">= baseline - 1e999", "too large for a float"),
        (">= 9007199254740993", "which as a float is 9007199254740992"),
        (">= 95%", "which is not a finite number"),
        (">= 0,95", "which is not a finite number"),
        (">= 1 2", "which is not a finite number, nor baseline or metric(NAME)"),
        (">= baseline * 2", "nor baseline or metric(NAME) with a tolerance"),
        (">= metric()", "nor baseline or metric(NAME)"),
        (">= avg baseline", "starts with 'avg'"),
        ("1 >= 2 >= 3", "starts with '1'"),
    ],
)
def test_what_is_no_rule_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse_rule(text)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=True))
def test_a_rule_and_its_opposite_never_both_hold(limit: float, value: float) -> None:
    at_least, below = parse_rule(f">= {limit!r}"), parse_rule(f"< {limit!r}")
    assert at_least.limit == limit
    assert at_least.holds(value, limit) + below.holds(value, limit) == (1 if math.isfinite(value) else 0)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.floats(0, 100))
def test_a_percentile_lies_within_the_values(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert (
        min(values) <= found <= max(values)
        or found == pytest.approx(min(values))
        or found == pytest.approx(max(values))
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"a": 1, "b/c": 0.5}', {"a": 1.0, "b/c": 0.5}),
        ('{"metrics": {"a": -0.0}, "data": "x"}', {"a": 0.0}),
        ('{"a": 1' + "0" * 400 + "}", {"a": INF}),
        ("{}", {}),
        ("", "it is not JSON"),
        ("[1]", "it is not an object of metrics"),
        ('{"a": true}', "'a' is true, not a number"),
        ('{"a": "0.5"}', "'a' is \"0.5\", not a number"),
        ('{"a": null}', "'a' is null, not a number"),
        ("[" * 100_000, "it is not JSON"),
    ],
)
def test_values_of_a_file(content: str, expected: Any) -> None:
    if isinstance(expected, dict):
        assert read_values(content.encode()) == expected
    else:
        with pytest.raises(ValueError, match=re.escape(expected)):
            read_values(content.encode())
    assert math.isnan(read_values(b'{"a": NaN}')["a"])


REPORT = b'{"macro avg": {"f1/score": 0.9, "~": 1}, "folds": [0.1, 0.2], "best": null, "bad": NaN, "": 3}'


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("/macro avg/f1~1score", 0.9),
        ("/macro avg/~0", 1.0),
        ("/folds/1", 0.2),
        ("/", 3.0),
        ("/folds/2", "/folds has no '2'"),
        ("/folds/-1", "/folds has no '-1'"),
        ("/folds/\u00b2", "/folds has no '\u00b2'"),
        (f"/folds/{'9' * 5000}", "/folds has no '999"),
        ("/folds", "'/folds' is [0.1, 0.2], not a number"),
        ("/best", "'/best' is null, not a number"),
        ("/nothing/there", "the document has no 'nothing'"),
        ("/macro avg/f1~1score/more", "/macro avg/f1~1score has no 'more'"),
    ],
)
def test_a_value_in_a_document(pointer: str, expected: float | str) -> None:
    if isinstance(expected, float):
        assert read_value(REPORT, pointer) == expected
    else:
        with pytest.raises(ValueError, match=re.escape(expected)):
            read_value(REPORT, pointer)


def test_a_whole_number_in_a_document_is_exact_or_none() -> None:
    assert read_value(b'{"n": 9007199254740992}', "/n") == 2**53
    with pytest.raises(ValueError, match="'/n' is 9007199254740993, which as a float is 9007199254740992"):
        read_value(b'{"n": 9007199254740993}', "/n")
    assert read_value(b'{"n": 1' + b"0" * 400 + b"}", "/n") == INF
