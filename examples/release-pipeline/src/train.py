"""Train the moons model and log it to MLflow: as an AzureML job, or by hand."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import mlflow

from moons import judge, make_moons, train

_EVERY = 50


def main(argv: Sequence[str] | None = None) -> None:
    """Train, log every fiftieth step, save the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--degree", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--model-dir", type=Path, default=Path("outputs/model"))
    arguments = parser.parse_args(argv)

    training, validation = make_moons(800, seed=1), make_moons(400, seed=2)
    with mlflow.start_run():
        mlflow.log_params({"degree": arguments.degree, "steps": arguments.steps})
        for step, weights in enumerate(train(training, degree=arguments.degree, steps=arguments.steps), 1):
            if step % _EVERY == 0 or step == arguments.steps:
                progress = judge(weights, validation, arguments.degree, step)
                mlflow.log_metrics({"val/accuracy": progress.accuracy, "val/loss": progress.loss}, step=step)
                print(f"step {step:>4}  loss {progress.loss:.4f}  accuracy {progress.accuracy:.4f}", flush=True)
    arguments.model_dir.mkdir(parents=True, exist_ok=True)
    model = {"degree": arguments.degree, "weights": weights.tolist()}
    (arguments.model_dir / "model.json").write_text(json.dumps(model) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
