"""Two moons in the plane, and a logistic regression on their coordinates' powers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Points:
    """Points as rows of x and y, and which moon each belongs to: 0 or 1."""

    places: np.ndarray
    moons: np.ndarray


def make_moons(count: int, *, noise: float = 0.2, seed: int) -> Points:
    """Make *count* points; the same seed always makes the same."""
    random = np.random.default_rng(seed)
    angles = random.uniform(0, np.pi, count)
    moons = random.integers(0, 2, count)
    upper = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    lower = np.stack([1 - np.cos(angles), 0.5 - np.sin(angles)], axis=1)
    places = np.where(moons[:, None] == 0, upper, lower) + random.normal(0, noise, (count, 2))
    return Points(places=places, moons=moons)


def features(places: np.ndarray, degree: int) -> np.ndarray:
    """Return a column of ones, and every product of powers of x and y up to *degree*.

    Raises:
        ValueError: the degree is less than 1.
    """
    if degree < 1:
        raise ValueError(f"the degree must be at least 1, not {degree}")
    x, y = places.T
    powers = [(i, total - i) for total in range(degree + 1) for i in range(total + 1)]
    return np.stack([x**i * y**j for i, j in powers], axis=1)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How good the weights are on the validation points after *step* steps."""

    step: int
    loss: float
    accuracy: float


def judge(weights: np.ndarray, points: Points, degree: int, step: int) -> Progress:
    """Return loss and accuracy of *weights* on *points*."""
    chances = _chances(features(points.places, degree), weights)
    chosen = np.clip(np.where(points.moons == 1, chances, 1 - chances), 1e-12, 1)
    accuracy = ((chances > 0.5) == points.moons).mean()
    return Progress(step=step, loss=float(-np.log(chosen).mean()), accuracy=float(accuracy))


def train(points: Points, *, degree: int, steps: int, rate: float = 0.5) -> Iterator[np.ndarray]:
    """Yield the weights after each step of gradient descent."""
    rows = features(points.places, degree)
    weights = np.zeros(rows.shape[1])
    for _ in range(steps):
        weights = weights - rate * rows.T @ (_chances(rows, weights) - points.moons) / len(rows)
        yield weights


def _chances(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
