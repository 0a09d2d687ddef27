"""Compare two trainings of one lineage. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["identical", "equivalent", "different"]
"""``identical``: every byte of the model. ``equivalent``: the metrics agree within the tolerance. ``different``: neither."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """What one training made.

    Attributes:
        job: its name.
        files: path in the model → SHA-256 of the content.
        metrics: the last value of each.
    """

    job: str
    files: Mapping[str, str]
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference of a file or a metric; None for a missing side."""

    name: str
    original: str | float | None
    repeated: str | float | None


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """The comparison of a training with its repetition."""

    original: str
    repeated: str
    state: State
    files: tuple[Difference, ...] = ()
    metrics: tuple[Difference, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {
            "original": self.original,
            "repeated": self.repeated,
            "state": self.state,
            "files": [vars(one) for one in self.files],
            "metrics": [vars(one) for one in self.metrics],
        }


def compare_trainings(original: Training, repeated: Training, *, tolerance: float) -> Reproduction:
    """Compare bit by bit, then metric by metric.

    Args:
        tolerance: the greatest relative difference of two metrics that count as equal; absolute below one.
    """
    files = tuple(_differences(original.files, repeated.files))
    metrics = tuple(
        one
        for one in _differences(original.metrics, repeated.metrics)
        if not _close(one.original, one.repeated, tolerance)
    )
    state: State = "different" if metrics or not original.metrics else "equivalent"
    if original.files and not files:
        state = "identical"
    return Reproduction(original=original.job, repeated=repeated.job, state=state, files=files, metrics=metrics)


def _differences(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[Difference]:
    for name in sorted({*left, *right}):
        one, other = left.get(name), right.get(name)
        if one != other:
            yield Difference(name=name, original=one, repeated=other)


def _close(one: object, other: object, tolerance: float) -> bool:
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return False
    both_nan = math.isnan(one) and math.isnan(other)
    return both_nan or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
