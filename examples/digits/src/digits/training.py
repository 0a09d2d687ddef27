"""A small neural network, trained epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier

from digits.data import CLASSES, Digits


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The figures of one pass over the training data.

    Attributes:
        number: counted from 1.
        train_loss: the mean loss of the pass.
        val_loss, val_accuracy: on the validation part, after the pass.
    """

    number: int
    train_loss: float
    val_loss: float
    val_accuracy: float


def new_model(*, learning_rate: float, seed: int) -> MLPClassifier:
    """Make an untrained model; the same seed always trains to the same weights."""
    return MLPClassifier(hidden_layer_sizes=(64,), batch_size=32, learning_rate_init=learning_rate, random_state=seed)


def train(model: MLPClassifier, digits: Digits, *, epochs: int) -> Iterator[Epoch]:
    """Train *model* in place, and yield each epoch's figures at its end.

    Raises:
        ValueError: if there is no epoch to train.
    """
    if epochs < 1:
        raise ValueError(f"at least one epoch is needed, not {epochs}")
    for number in range(1, epochs + 1):
        model.partial_fit(digits.train_images, digits.train_labels, classes=CLASSES)
        yield Epoch(
            number=number,
            train_loss=float(model.loss_),
            val_loss=float(log_loss(digits.val_labels, model.predict_proba(digits.val_images), labels=CLASSES)),
            val_accuracy=float(model.score(digits.val_images, digits.val_labels)),
        )
