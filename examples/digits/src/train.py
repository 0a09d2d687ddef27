"""Train the digits model and log it to MLflow: as an AzureML job, or by hand.

Nothing here knows where it runs. On AzureML, and on the local AzureML, the job's environment variables name the
tracking server and the run, and ``mlflow.start_run`` attaches to that run. README.md says how to run it without.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import mlflow

from digits.data import load_split
from digits.saving import save_model
from digits.training import new_model, train


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model-dir", type=Path, default=Path("outputs/model"))
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Train, log every epoch, save the model."""
    arguments = parse_arguments(argv)
    digits = load_split(seed=arguments.seed)
    model = new_model(learning_rate=arguments.learning_rate, seed=arguments.seed)
    print(f"{len(digits.train_labels)} images to train on, {len(digits.val_labels)} to validate with", flush=True)
    with mlflow.start_run():
        mlflow.log_params(
            {"epochs": arguments.epochs, "learning_rate": arguments.learning_rate, "seed": arguments.seed}
        )
        for epoch in train(model, digits, epochs=arguments.epochs):
            mlflow.log_metrics(
                {
                    "train/loss": epoch.train_loss,
                    "val/loss": epoch.val_loss,
                    "val/accuracy": epoch.val_accuracy,
                },
                step=epoch.number,
            )
            print(
                f"epoch {epoch.number:>3}/{arguments.epochs}  train loss {epoch.train_loss:.4f}  "
                f"val loss {epoch.val_loss:.4f}  val accuracy {epoch.val_accuracy:.4f}",
                flush=True,
            )
    save_model(arguments.model_dir, model, epoch)
    print(f"saved the model to {arguments.model_dir}", flush=True)


if __name__ == "__main__":
    main()
