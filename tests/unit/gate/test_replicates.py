"""Rules over replicates: their grammar, their values, and how often a test is wrong."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from aml_train.core.events import RuleVerdict
from aml_train.gate.baseline import RunBaseline, ValuesBaseline
from aml_train.gate.decide import Baseline, Decision, Evidence, decide_rule
from aml_train.gate.history import MetricPoint
from aml_train.gate.replicates import compare, decide_replicates, spread_of
from aml_train.gate.rules import Policies, Rule, Sampling, parse_rule
from aml_train.gate.student import above, levels, quantile
from scripts.docs import noise

NAN, INF = math.nan, math.inf
#: t, degrees of freedom, scipy.stats.t.sf(t, df), and probability, degrees of freedom, scipy.stats.t.isf(p, df), by scipy 1.17.1.
SCIPY = json.loads((Path(__file__).parent / "student.json").read_text())


@dataclass(frozen=True)
class Given:
    """A rule of a gate."""

    rule: Rule
    metric: str = "acc"
    where: str = "aml-train.yml:4"
    policies: Policies = field(default_factory=Policies)


def points(*values: float) -> list[MetricPoint]:
    return [MetricPoint(step=step, value=value, timestamp=step) for step, value in enumerate(values)]


def evidence(values: Sequence[float | None], **others: Sequence[float]) -> list[Evidence]:
    """Return what each replicate logged as acc, in that order, and as other metrics."""
    return [
        Evidence(
            histories={
                **({} if value is None else {"acc": points(value)}),
                **{name: points(given[place]) for name, given in others.items()},
            },
            replicate=f"seed = {place + 1}",
        )
        for place, value in enumerate(values)
    ]


def measured(*values: float) -> list[Baseline]:
    return [RunBaseline(title="digits version 3", histories={"acc": points(value)}) for value in values]


def decide(
    text: str,
    values: Sequence[float | None],
    baseline: Sequence[Baseline] = (),
    *,
    planned: int | None = None,
    alpha: float = 0.05,
    early: bool = False,
    policies: Policies | None = None,
    **others: Sequence[float],
) -> Decision:
    rule = Given(parse_rule(text), policies=policies or Policies())
    sampling = Sampling(planned=planned or len(values), alpha=alpha, early=early)
    return decide_replicates([rule], evidence(values, **others), baseline, sampling)


def verdict(*args: object, **options: object) -> RuleVerdict:
    (found,) = decide(*args, **options).rules  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(("t", "freedom", "wanted"), SCIPY["above"])
def test_the_distribution_is_scipys(t: float, freedom: float, wanted: float) -> None:
    assert above(t, freedom) == pytest.approx(wanted, rel=1e-9, abs=0)
    assert above(-t, freedom) == pytest.approx(1 - wanted, rel=1e-9)


@pytest.mark.parametrize(("probability", "freedom", "wanted"), SCIPY["quantile"])
def test_the_quantile_is_scipys(probability: float, freedom: float, wanted: float) -> None:
    assert quantile(probability, freedom) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_the_distribution_with_one_and_two_degrees_of_freedom_is_known_exactly() -> None:
    for t in (-50.0, -1.0, -1e-7, 0.0, 0.3, 2.0, 1e3, 1e8, INF):
        assert above(t, 1) == pytest.approx(0.5 - math.atan(t) / math.pi, rel=1e-9, abs=1e-16)
        two = 0.5 - (t / (2 * math.sqrt(2 + t * t)) if t < INF else 0.5)
        assert above(t, 2) == pytest.approx(two, rel=1e-6, abs=1e-16)


@pytest.mark.parametrize("planned", [2, 3, 5, 10, 50])
@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.2])
def test_the_looks_spend_alpha_and_no_more(planned: int, alpha: float) -> None:
    (fixed,) = levels(alpha, planned, early=False)
    assert fixed == (planned, alpha)
    looks = list(levels(alpha, planned, early=True))
    assert [count for count, _ in looks] == list(range(looks[0][0], planned + 1))
    assert looks[0][0] == 2 or planned == 50  # what is spent on two of fifty is less than any number
    assert math.fsum(level for _, level in looks) == pytest.approx(alpha, rel=1e-12)
    assert all(level > 0 for _, level in looks)


@pytest.mark.parametrize(
    ("text", "value", "met"),
    [
        ("replicates mean >= 0.9", 0.92, True),
        ("replicates mean >= 0.93", 0.92, False),
        ("replicates median < 0.93", 0.92, True),
        ("replicates worst >= 0.9", 0.90, True),
        ("replicates worst <= 0.93", 0.94, False),
        ("replicates ci95.low >= 0.89", 0.92 - 4.302652729749464 * 0.02 / math.sqrt(3), False),
        ("replicates ci95.high <= 0.97", 0.92 + 4.302652729749464 * 0.02 / math.sqrt(3), True),
        ("replicates mean max >= 0.9", 0.92, True),
        ("replicates mean >= metric(base) + 0.1", 0.92, True),
        ("replicates worst >= metric(base)", 0.90, True),
    ],
)
def test_a_word_names_one_value_of_those_of_all(text: str, value: float, *, met: bool) -> None:
    found = verdict(text, (0.90, 0.92, 0.94), base=(0.8, 0.82, 0.81))
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.met is met, found.reason
    assert found.rule == f"{text} over 3 replicates"


@pytest.mark.parametrize(
    "text",
    [
        "replicates >= 0.9", "replicates best >= 1", "replicates mean finite", "replicates mean", "replicates", "replicates ci95 >= 1",
        "replicates worst == 1", "replicates mean replicates mean >= 1",
    ],
)  # fmt: skip
def test_what_is_no_rule_over_replicates(text: str) -> None:
    with pytest.raises(ValueError, match="replicate"):
        parse_rule(text)


def test_a_rule_without_a_word_holds_for_each_and_the_furthest_is_shown() -> None:
    found = verdict(">= 0.9", (0.95, 0.7, 0.85))
    assert (found.value, found.verdict) == (0.7, "missed")
    assert "seed = 2; met by 1 of 3" in found.reason
    assert verdict("finite", (0.95, NAN, 0.85)).verdict == "missed"
    assert verdict("== 1", (1.0, 1.0, 1.0)).met
    assert not verdict(">= 0.9", (0.95, INF)).met


@pytest.mark.parametrize(
    "text",
    ["replicates mean >= 0.1", "replicates worst >= 0.1", "replicates ci95.low >= 0.1", ">= baseline", ">= 0.1"],
)
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_value_that_is_not_finite_meets_nothing(text: str, bad: float) -> None:
    assert verdict(text, (0.9, 0.91, bad), measured(0.1, 0.11)).verdict == "missed"
    if "baseline" in text:
        assert verdict(text, (0.9, 0.91, 0.92), measured(0.1, bad)).verdict == "missed"


@pytest.mark.parametrize("text", ["replicates mean >= 0.1", ">= baseline", ">= 0.1", "finite"])
@pytest.mark.parametrize(("policy", "word"), [("fail", "missed"), ("warn", "warned"), ("skip", "skipped")])
def test_a_replicate_without_the_metric_is_missing(text: str, policy: str, word: str) -> None:
    policies = Policies(missing=policy)  # type: ignore[arg-type]
    found = verdict(text, (0.9, None, 0.92), measured(0.1, 0.11), policies=policies)
    assert (found.verdict, "seed = 2" in found.reason) == (word, True)


def test_without_a_baseline_a_test_is_missed_and_bootstrap_skips_it() -> None:
    assert verdict(">= baseline", (0.9, 0.91)).verdict == "missed"
    rule = Given(parse_rule(">= baseline"))
    sampling = Sampling(planned=2, alpha=0.05, early=False)
    found = decide_replicates([rule], evidence((0.9, 0.91)), (), sampling, bootstrap=True)
    assert found.word == "skipped"


def test_values_that_do_not_spread_are_compared_as_numbers_and_never_early() -> None:
    same = measured(0.9, 0.9, 0.9)
    assert verdict(">= baseline", (0.9, 0.9, 0.9), same).met
    assert not verdict(">= baseline", (0.89, 0.89, 0.89), same).met
    assert verdict(">= baseline - 2%", (0.89, 0.89, 0.89), same).met
    assert verdict("<= baseline", (0.1, 0.1), measured(0.1)).met
    for values in ((0.99, 0.99), (0.5, 0.5)):
        assert not decide(">= baseline", values, same, planned=5, early=True).final


@pytest.mark.parametrize(
    "text", [">= 0.9", "replicates mean max >= 0.9", "replicates worst max >= 0.9", "max >= baseline"]
)
def test_what_an_attempt_logged_before_it_started_over_makes_nothing_better(text: str) -> None:
    good = points(0.95, 0.96)
    over = [replace(one, earlier=True) for one in points(0.99, 0.98)] + points(0.1)
    rule, sampling = Given(parse_rule(text)), Sampling(planned=2, alpha=0.2, early=False)
    for histories, met in ((good, True), (over, False)):
        seen = [Evidence(histories={"acc": one}, replicate="") for one in (good, histories)]
        assert decide_replicates([rule], seen, measured(0.5, 0.51), sampling).met is met


@pytest.mark.parametrize("word", ["mean", "median", "worst", "ci95.low", "ci95.high"])
def test_a_value_over_all_replicates_is_decided_at_the_end_only(word: str) -> None:
    for count in range(1, 5):
        assert not decide(f"replicates {word} >= 0.9", (0.1, 0.99, 0.1, 0.99)[:count], planned=5, early=True).final


def test_one_job_does_not_decide_a_rule_over_replicates() -> None:
    rule = parse_rule("replicates mean >= 0.1")
    found = decide_rule("acc", rule, "a.yml:1", evidence((0.9,))[0])
    assert (found.verdict, "a run with `replicates`" in found.reason) == ("missed", True)


def test_a_fixed_value_is_a_bar_and_one_measured_value_spreads_as_the_candidate() -> None:
    values = (0.95, 0.96, 0.94, 0.95, 0.95)
    file = [ValuesBaseline(title="b.json", values={"acc": 0.94}, stands_for_all=True)]
    bar, one = verdict(">= baseline", values, file), verdict(">= baseline", values, measured(0.94))
    assert bar.met
    assert not one.met
    assert "its one value is taken to spread as these do" in one.reason
    # scipy.stats.ttest_1samp and ttest_ind(equal_var=True), alternative="greater".
    assert compare(values, [0.94], exact=True) == pytest.approx(0.01705471158370481, rel=1e-9)
    assert compare(values, [0.94], exact=False) == pytest.approx(0.13313231398315492, rel=1e-9)


def test_the_direction_follows_the_operator() -> None:
    low, high = (0.10, 0.11, 0.12), measured(0.5, 0.52, 0.51)
    assert verdict("<= baseline", low, high).met
    assert not verdict(">= baseline", low, high).met
    found = verdict("< baseline + 10%", low, high)
    assert found.met
    assert found.limit == pytest.approx(0.561)


def test_a_red_end_leaves_the_other_rules_undecided_and_a_warning_does_not_end() -> None:
    rules = [Given(parse_rule(">= 0.9")), Given(parse_rule("replicates mean >= 0.5"))]
    sampling = Sampling(planned=5, alpha=0.05, early=True)
    found = decide_replicates(rules, evidence((0.95, 0.8)), (), sampling)
    assert (found.final, [one.verdict for one in found.rules]) == (True, ["missed", "skipped"])
    warned = Policies(severity="warn")
    rules = [Given(parse_rule(">= 0.9"), policies=warned), rules[1]]
    assert not decide_replicates(rules, evidence((0.95, 0.8)), (), sampling).final
    late = Sampling(planned=5, alpha=0.05, early=False)
    assert not decide_replicates([Given(parse_rule(">= 0.9"))], evidence((0.95, 0.8)), (), late).final


_EXPERIMENTS = 2000
#: Three standard deviations of the share of false greens among the experiments.
_ERROR = 3 * math.sqrt(0.05 * 0.95 / _EXPERIMENTS)


def green_share(
    rng: random.Random, rule: str, *, shift: float, spread: float, replicates: int, baseline: int, early: bool
) -> float:
    """Return how many experiments pass: the decisions are asked for as replicates end, one after another."""
    greens = 0
    for _ in range(_EXPERIMENTS):
        known = measured(*(rng.gauss(1.0, 0.01) for _ in range(baseline)))
        values = [rng.gauss(1.0 + shift, spread) for _ in range(replicates)]
        for count in range(1 if early else replicates, replicates + 1):
            found = decide(rule, values[:count], known, planned=replicates, early=early)
            if found.final:
                greens += found.met
                # What ended later changes nothing: an attached run decides the same.
                assert decide(rule, values, known, planned=replicates, early=early).met == found.met
                break
        else:
            raise AssertionError("all replicates decide")
    return greens / _EXPERIMENTS


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize(("replicates", "baseline", "spread"), [(3, 5, 0.03), (5, 2, 0.002), (4, 1, 0.01)])
def test_false_greens_are_no_more_than_alpha(replicates: int, baseline: int, spread: float, *, early: bool) -> None:
    """A candidate that is exactly at the limit, the worst case, passes in at most 5 of 100 experiments."""
    rng = random.Random(20260131)  # noqa: S311
    share = green_share(
        rng, ">= baseline - 0.02", shift=-0.02, spread=spread, replicates=replicates, baseline=baseline, early=early
    )
    assert share <= 0.05 + _ERROR


@pytest.mark.parametrize(("replicates", "early"), noise.DESIGNS)
def test_the_figures_of_the_documentation_are_the_codes(replicates: int, *, early: bool) -> None:
    """With equal spreads, too, false greens are rare; and the better the candidate is, the more often it passes."""
    shares, line = noise.row(replicates, early=early)
    assert shares[0] <= 0.05 + _ERROR
    assert shares == sorted(shares)
    assert line in (Path(__file__).parents[3] / noise.PAGE).read_text(encoding="utf-8").splitlines()


def test_an_equal_candidate_passes_with_the_proposed_margin() -> None:
    spread = 0.01 / math.sqrt(2.5)
    margin = spread_of([1.0 + step * spread for step in (-2, -1, 0, 1, 2)], alpha=0.05, power=0.9).margin
    rng = random.Random(7)  # noqa: S311
    rule = f">= baseline - {margin:.6f}"
    assert green_share(rng, rule, shift=0.0, spread=0.01, replicates=5, baseline=5, early=False) >= 0.9
