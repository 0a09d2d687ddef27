"""Fit a line by gradient descent: with a rate that is too large, the loss grows until it is infinite."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator

import mlflow

POINTS = [(x / 10, 2 * x / 10 + 1) for x in range(-10, 11)]


def losses(*, steps: int, rate: float) -> Iterator[float]:
    """Yield the mean squared error before each step."""
    slope = shift = 0.0
    for _ in range(steps):
        errors = [(slope * x + shift - y, x) for x, y in POINTS]
        loss = sum(error * error for error, _ in errors) / len(errors)
        yield loss if math.isfinite(loss) else math.inf
        slope -= rate * 2 * sum(error * x for error, x in errors) / len(errors)
        shift -= rate * 2 * sum(error for error, _ in errors) / len(errors)


def main() -> None:
    """Train, and log each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes, as on a real model")
    arguments = parser.parse_args()
    with mlflow.start_run():
        for step, loss in enumerate(losses(steps=arguments.steps, rate=arguments.rate)):
            mlflow.log_metric("loss", loss, step=step)
            print(f"step {step}  loss {loss:.4g}", flush=True)
            time.sleep(arguments.pause)


if __name__ == "__main__":
    main()
