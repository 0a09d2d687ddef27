"""The decision on a training that was preempted and resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from aml_train.core.errors import GateFailedError
from aml_train.gate.history import MetricPoint
from aml_train.resume_check import ResumeCheck


def points(steps: Sequence[int], last: float = 0.1) -> list[MetricPoint]:
    return [MetricPoint(step=step, value=last + 20 - step, timestamp=i) for i, step in enumerate(steps)]


GOOD = ResumeCheck(
    undisturbed="d-1",
    attempts=("d-2", "d-3"),
    source="d-2",
    every=5,
    tolerance=0.01,
    progress=(points(range(20)), points(range(12)), points(range(10, 20))),
    metrics={"loss": (points(range(20)), points(range(12)), points(range(10, 20)))},
)


def after(steps: Sequence[int]) -> ResumeCheck:
    return replace(GOOD, progress=(*GOOD.progress[:2], points(steps)))


def test_a_training_that_continues_holds() -> None:
    assert GOOD.problems == ()
    assert GOOD.repeated == 2
    GOOD.require()
    assert after(range(12, 20)).problems == after(range(6, 20)).problems == ()
    assert GOOD.facts()["metrics"]["loss"]["resumed"][0][0] == 10


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (after(range(20)), "the second attempt starts from the beginning, at step 0"),
        (after(range(5, 20)), "the second attempt starts at step 5, and the first one had logged step 11"),
        (after(range(15, 20)), "the second attempt starts at step 15, and leaves out those after 11"),
        (after([10, 11, 12, 11, 13]), "the steps of the second attempt fall back, to 11"),
        (after([]), "d-3 did not log the metric of `resume`"),
        (replace(GOOD, source=None), "d-2 left no checkpoints"),
        (replace(GOOD, metrics={"loss": (points([19]), [], points([19], 0.3))}), "loss is 1.3, and 1.1 undisturbed"),
        (replace(GOOD, metrics={"acc": (points([19]), [], [])}), "the second attempt did not log acc"),
    ],
)
def test_a_false_contract_is_refused(found: ResumeCheck, problem: str) -> None:
    assert found.problems == (problem,)
    with pytest.raises(GateFailedError, match="The training does not resume as `resume` says"):
        found.require()
