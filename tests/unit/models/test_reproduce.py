"""Two trainings compared."""

from __future__ import annotations

import dataclasses
import math

import pytest

from aml_train.models.reproduce import Training, compare_trainings

ORIGINAL = Training(job="one", files={"m/a": "00", "m/b": "11"}, metrics={"loss": 0.25, "accuracy": 0.95})
DIFFERENT = Training(job="two", files={"m/a": "00", "m/b": "22"}, metrics={"loss": 0.26, "accuracy": 0.95})


def test_identical_bytes_count_whatever_the_metrics_say() -> None:
    repeated = dataclasses.replace(ORIGINAL, job="two", metrics={"loss": 9.0})
    found = compare_trainings(ORIGINAL, repeated, tolerance=0.0)
    assert (found.state, found.files) == ("identical", ())
    assert [one.name for one in found.metrics] == ["accuracy", "loss"]


@pytest.mark.parametrize(
    ("one", "other", "tolerance", "state"),
    [
        (0.25, 0.25, 0.0, "equivalent"),
        (0.25, 0.2500001, 1e-6, "equivalent"),
        (0.25, 0.2500021, 1e-6, "different"),
        (2e9, 2e9 + 1000, 1e-6, "equivalent"),
        (math.nan, math.nan, 0.0, "equivalent"),
        (math.nan, 0.1, 1.0, "different"),
        (math.inf, math.inf, 0.0, "equivalent"),
        (math.inf, -math.inf, 1.0, "different"),
    ],
)
def test_metrics_within_a_tolerance(one: float, other: float, tolerance: float, state: str) -> None:
    left = dataclasses.replace(ORIGINAL, metrics={"loss": one})
    right = dataclasses.replace(DIFFERENT, metrics={"loss": other})
    assert compare_trainings(left, right, tolerance=tolerance).state == state


def test_missing_files_and_metrics_are_differences() -> None:
    repeated = dataclasses.replace(DIFFERENT, files={"m/a": "00"}, metrics={"accuracy": 0.95})
    found = compare_trainings(ORIGINAL, repeated, tolerance=1e-6)
    assert [(one.name, one.original, one.repeated) for one in (*found.files, *found.metrics)] == [
        ("m/b", "11", None),
        ("loss", 0.25, None),
    ]
    assert found.facts()["state"] == "different"


def test_without_metrics_other_bytes_are_a_difference() -> None:
    one, two = (dataclasses.replace(side, metrics={}) for side in (ORIGINAL, DIFFERENT))
    assert compare_trainings(one, two, tolerance=1.0).state == "different"
