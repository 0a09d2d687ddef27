"""A recorded decision follows from the metrics, or the reason why not."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aml_train.core.events import RuleVerdict
from aml_train.gate.decide import Decision
from aml_train.gate.history import MetricPoint
from aml_train.gate.recompute import fault_of_rule


def points(*values: float) -> list[MetricPoint]:
    return [MetricPoint(step=step, value=value, timestamp=step) for step, value in enumerate(values)]


def rule(text: str, value: float | None, limit: float | None, verdict: Any = "met") -> RuleVerdict:
    return RuleVerdict(metric="acc", rule=text, value=value, limit=limit, verdict=verdict)


HISTORIES = {"acc": points(0.5, 0.9), "other": points(0.8), "nan": points(math.nan)}


@pytest.mark.parametrize(
    "recorded",
    [
        rule(">= 0.9", 0.9, 0.9),
        rule("first >= 0.9", 0.5, 0.9, "warned"),
        rule(">= baseline - 1%", 0.9, 0.85),
        rule(">= metric(other)", 0.9, 0.8),
        rule("increasing", None, None),
        rule("decreasing", None, None, "missed"),
        rule(">= baseline", None, None, "skipped"),
        rule("as the baseline's", None, None),
        RuleVerdict(metric="nan", rule=">= 0.5", value=math.nan, limit=0.5, verdict="missed"),
    ],
)
def test_what_follows(recorded: RuleVerdict) -> None:
    assert fault_of_rule(recorded, HISTORIES) is None


@pytest.mark.parametrize(
    ("recorded", "reason"),
    [
        (rule("?", 0.9, 0.9), "the rule cannot be read"),
        (rule(">= 0.9", 0.9, 0.9, "good"), "'good' is no verdict"),
        (rule(">= 0.9", 0.95, 0.9), "the value was 0.95, and the job's metrics give 0.9"),
        (rule(">= 0.9", 0.9, 0.5), "the limit was 0.5, and the rule gives 0.9"),
        (rule(">= 0.95", 0.9, 0.95), "recorded as met, and is not met"),
        (rule(">= 0.5", 0.9, 0.5, "missed"), "recorded as missed, and is met"),
        (rule("decreasing", None, None), "recorded as met, and is not met"),
        (rule(">= 0.9", None, None), "recorded as met without value or limit"),
        (rule(">= metric(gone)", 0.9, 0.8), "the value 0.9 was recorded, and now"),
    ],
)
def test_what_does_not_follow(recorded: RuleVerdict, reason: str) -> None:
    assert reason in (fault_of_rule(recorded, HISTORIES) or "")


@pytest.mark.parametrize(
    ("verdicts", "word"),
    [
        ([], "none"),
        (["met", "warned"], "passed"),
        (["skipped", "skipped"], "skipped"),
        (["met", "missed"], "failed"),
        (["met", "else"], "failed"),
    ],
)
def test_the_word_of_verdicts(verdicts: list[str], word: str) -> None:
    assert Decision(rules=tuple(rule(">= 1", 1.0, 1.0, one) for one in verdicts)).word == word
