"""What counts of the values of a job that ran in several attempts."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import pytest

from aml_train.core.events import RuleVerdict
from aml_train.gate.decide import Evidence, decide_rule
from aml_train.gate.history import MetricPoint, joined, of_attempts
from aml_train.gate.recompute import fault_of_rule
from aml_train.gate.rules import parse_rule

RESTART = datetime.datetime.fromtimestamp(100.0, datetime.UTC)

Values = Sequence[tuple[int, float]]


def history(before: Values, after: Values = ()) -> list[MetricPoint]:
    """Return the values of an attempt that began at second 1, and of one that began at second 100."""
    points = [MetricPoint(step=step, value=value, timestamp=1000 + i) for i, (step, value) in enumerate(before)]
    return points + [MetricPoint(step=s, value=v, timestamp=100_000 + i) for i, (s, v) in enumerate(after)]


FALLEN = ([(0, 0.1), (1, 0.5), (2, 0.99)], [(0, 0.2), (1, 0.3)])
CONTINUED = ([(0, 9.0), (1, 5.0), (2, 4.0)], [(2, 3.0), (3, 2.0)])
FOLDS = ([(0, 0.5), (1, 0.9)], [(0, 0.5), (1, 0.95)])


@pytest.mark.parametrize(
    ("rule", "values", "restarted", "declared", "met"),
    [
        # The restarted job logs fewer steps than its predecessor did.
        (">= 0.9", FALLEN, True, False, False),
        (">= 0.9", FALLEN, True, True, False),
        (">= 0.9", FALLEN, False, False, False),
        ("max >= 0.9", FALLEN, False, False, False),
        ("< 0.5", FALLEN, True, False, True),
        # A value that the last attempt did not log again cannot be hidden by a step that falls back.
        ("max < 0.9", FALLEN, False, False, False),
        ("max < 0.9", FALLEN, True, False, True),
        ("steps >= 3", FALLEN, False, False, False),
        ("finite", ([(0, float("nan")), (1, 1.0)], [(0, 1.0), (1, 1.0)]), False, False, False),
        # It resumed: everything counts, and what was done again counts once.
        ("max < 5", CONTINUED, True, True, False),
        ("first >= 9", CONTINUED, True, True, True),
        ("steps >= 4", CONTINUED, True, True, True),
        ("decreasing", CONTINUED, True, True, True),
        # It may have, and nothing says so: the last attempt's values must do alone.
        ("first >= 9", CONTINUED, True, False, False),
        ("max < 5", CONTINUED, True, False, False),
        ("<= 2", CONTINUED, True, False, True),
        # No attempts, but the same steps several times.
        ("count >= 4", FOLDS, False, False, True),
        (">= 0.95", FOLDS, False, False, True),
        ("increasing", FOLDS, False, False, True),
    ],
)
def test_only_what_the_last_attempt_continues_helps_a_rule(
    rule: str, values: tuple[Values, Values], *, restarted: bool, declared: bool, met: bool
) -> None:
    points = history(*values)
    counted = of_attempts({"acc": points}, points if declared else None, RESTART if restarted else None)
    verdict = decide_rule("acc", parse_rule(rule), "f.yml:3", Evidence(histories=counted))
    assert (verdict.verdict == "met") == met, verdict.reason
    assert fault_of_rule(verdict, counted) is None
    forged = RuleVerdict(metric="acc", rule=rule, value=verdict.value, limit=verdict.limit, verdict="met")
    assert (fault_of_rule(forged, counted) is None) == met


def test_a_metric_of_an_earlier_attempt_alone_does_not_count() -> None:
    points = history([(0, 1.0)])
    assert of_attempts({"acc": points}, None, RESTART) == {"acc": []}
    assert of_attempts({"acc": points}, None, None) == {"acc": points}


def test_what_was_lost_and_done_again_counts_once() -> None:
    before, after = history([(0, 1.0), (10, 2.0), (20, 3.0)]), history([], [(10, 5.0), (15, 6.0)])
    assert [(one.step, one.value) for one in joined(before, after)] == [(0, 1.0), (10, 5.0), (15, 6.0)]
    unnumbered = history([(0, 1.0), (0, 2.0)], [(0, 3.0)])
    assert [one.value for one in joined(unnumbered[:2], unnumbered[2:])] == [1.0, 2.0, 3.0]
