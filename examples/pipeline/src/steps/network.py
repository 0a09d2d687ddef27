"""A small neural network, trained epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import joblib
from sklearn.neural_network import MLPClassifier

from steps.split import CLASSES, Split

MODEL_FILE = "model.joblib"


def train(split: Split, *, epochs: int, learning_rate: float, seed: int) -> Iterator[MLPClassifier]:
    """Train a network, and yield it after each epoch.

    Raises:
        ValueError: if there is no epoch to train.
    """
    if epochs < 1:
        raise ValueError(f"at least one epoch is needed, not {epochs}")
    model = MLPClassifier(
        hidden_layer_sizes=(64,), batch_size=32, learning_rate_init=learning_rate, random_state=seed
    )
    for _ in range(epochs):
        model.partial_fit(split.train_images, split.train_labels, classes=CLASSES)
        yield model


def write_model(folder: Path, model: MLPClassifier) -> None:
    """Write *model* into *folder*; create it if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    joblib.dump(model, folder / MODEL_FILE)


def read_model(folder: Path) -> MLPClassifier:
    """Read what :func:`write_model` wrote."""
    return joblib.load(folder / MODEL_FILE)
