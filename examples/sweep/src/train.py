"""Train the digits model with one set of hyperparameters: a trial of the sweep."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import joblib
import mlflow
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier


def train(*, epochs: int, learning_rate: float, width: int) -> Iterator[tuple[MLPClassifier, float]]:
    """Train a network, and yield it with its accuracy after each epoch.

    Raises:
        ValueError: if there is no epoch to train.
    """
    if epochs < 1:
        raise ValueError(f"at least one epoch is needed, not {epochs}")
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images / 16.0, labels, test_size=0.2, stratify=labels, random_state=0)
    train_images, val_images, train_labels, val_labels = parts
    model = MLPClassifier(
        hidden_layer_sizes=(width,), batch_size=32, learning_rate_init=learning_rate, random_state=0
    )
    for _ in range(epochs):
        model.partial_fit(train_images, train_labels, classes=np.arange(10))
        yield model, float(model.score(val_images, val_labels))


def main() -> None:
    """Train, log every epoch, save the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--model", type=Path, default=Path("outputs/model"))
    arguments = parser.parse_args()
    with mlflow.start_run():
        for number, (model, accuracy) in enumerate(
            train(epochs=arguments.epochs, learning_rate=arguments.learning_rate, width=arguments.width), 1
        ):
            mlflow.log_metrics({"val/accuracy": accuracy, "train/loss": float(model.loss_)}, step=number)
            print(f"epoch {number:>3}/{arguments.epochs}  val accuracy {accuracy:.4f}", flush=True)
    arguments.model.mkdir(parents=True, exist_ok=True)
    joblib.dump(model, arguments.model / "model.joblib")


if __name__ == "__main__":
    main()
