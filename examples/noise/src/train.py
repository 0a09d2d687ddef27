"""Train the digits model from one seed: a replicate."""

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


def train(*, epochs: int, seed: int) -> Iterator[tuple[MLPClassifier, float]]:
    """Train a network, and yield it with its accuracy after each epoch.

    The data are split in the same way whatever the seed is: it changes the network's first weights and the order of the images.
    """
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images / 16.0, labels, test_size=0.2, stratify=labels, random_state=0)
    train_images, val_images, train_labels, val_labels = parts
    model = MLPClassifier(hidden_layer_sizes=(32,), batch_size=32, learning_rate_init=0.01, random_state=seed)
    for _ in range(epochs):
        model.partial_fit(train_images, train_labels, classes=np.arange(10))
        yield model, float(model.score(val_images, val_labels))


def main() -> None:
    """Train, log every epoch, save the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", type=Path, default=Path("outputs/model"))
    arguments = parser.parse_args()
    arguments.model.mkdir(parents=True, exist_ok=True)
    with mlflow.start_run():
        for number, (model, accuracy) in enumerate(train(epochs=arguments.epochs, seed=arguments.seed), 1):
            mlflow.log_metric("val/accuracy", accuracy, step=number)
            print(f"epoch {number}/{arguments.epochs}  val accuracy {accuracy:.4f}", flush=True)
            joblib.dump(model, arguments.model / "model.joblib")


if __name__ == "__main__":
    main()
