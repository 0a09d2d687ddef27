"""Gate rules: their grammar, and that better values never do worse."""

from __future__ import annotations

from collections.abc import Sequence

from aml_train.gate.baseline import ValuesBaseline
from aml_train.gate.decide import Evidence, decide_rule
from aml_train.gate.history import MetricPoint
from aml_train.gate.rules import AGGREGATES, OPERATORS, SHAPES, Rule, parse_rule
from fuzz.target import Target, require

_VALUES = (-1e300, -3.0, -0.5, 0.0, 0.1, 0.5, 2.0, 5.0, 1e300)
_ORDER = {"skipped": 0, "missed": 1, "warned": 1, "met": 2}


def seeds() -> Sequence[str]:
    """Return rules of every form."""
    return [
        *(f"{how} {operator} 0.5" for how in AGGREGATES for operator in OPERATORS if how != "p"),
        *(
            "p(95) <= 0.5",
            "mean(5) < 1e-3",
            ">= baseline - 1%",
            "max >= last baseline + 0.01",
            "< metric(val/a b) * 2",
        ),
        *("< metric('x') + 2%", ">= p(50) metric(loss) - .5", "== 1_000", ">0", *SHAPES),
    ]


def _decided(rule: Rule, values: Sequence[float], baseline: float) -> int:
    points = [MetricPoint(step=number, value=value, timestamp=number) for number, value in enumerate(values)]
    other = ValuesBaseline(title="b", values={"m": baseline}, stands_for_all=True)
    histories = {
        "m": points,
        **{name: [MetricPoint(step=0, value=0.25, timestamp=0)] for name in rule.metrics if name != "m"},
    }
    decision = decide_rule("m", rule, "f.yml:1", Evidence(histories=histories, baseline=other))
    require(decision.reason, "a decision gives no reason")
    return _ORDER[decision.verdict]


def check(text: str) -> None:
    """Parse a rule; decide it over growing values."""
    try:
        rule = parse_rule(text)
    except ValueError as error:
        require(repr(text)[:5] in str(error) or "rule" in str(error), "the refusal does not quote the rule")
        return
    require(parse_rule(rule.text) == rule, "the rule's own text means another rule")
    require(parse_rule(f"  {text}\t") == rule, "spaces around a rule change it")
    if rule.shape is not None or rule.aggregate.name in ("count", "steps") or "m" in rule.metrics:
        _decided(rule, [1.0, 2.0], 1.0)
        return
    verdicts = [_decided(rule, [value] * int(min(rule.aggregate.argument or 2, 50)), 0.5) for value in _VALUES]
    if rule.operator != "==":
        ordered = sorted(verdicts) if rule.greater else sorted(verdicts, reverse=True)
        require(verdicts == ordered, f"a better value does worse: {verdicts}")
    _decided(rule, [float("nan")], 0.5)
    require(_decided(rule, [float("nan")] * 3, 0.5) < _ORDER["met"], "NaN meets a rule")
    _decided(rule, [0.5], float("inf"))


TARGET = Target(
    kind="text",
    reads=("aml_train.gate.rules", "aml_train.gate.decide"),
    seeds=seeds,
    check=check,
    words=(
        *AGGREGATES,
        *OPERATORS,
        *SHAPES,
        "baseline",
        "metric(",
        ")",
        "(",
        "%",
        " - ",
        " + ",
        "0.5",
        "1e-3",
        "1_000",
        "p(95)",
    ),
)
