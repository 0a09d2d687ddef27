"""Softmax regression on scikit-learn's handwritten digits, by gradient descent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split


@dataclass(frozen=True)
class Epoch:
    """The model's figures after one pass over the training images."""

    number: int
    train_loss: float
    val_loss: float
    val_accuracy: float


def load_split(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training and validation images, and the labels of both.

    Pixels are from 0 to 1; the last value is a constant.
    """
    digits = load_digits()
    images = np.hstack([digits.data / 16.0, np.ones((len(digits.data), 1))])
    return tuple(train_test_split(images, digits.target, test_size=0.25, random_state=seed, stratify=digits.target))


def probabilities(weights: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return the probability of each digit for each image."""
    scores = images @ weights
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def loss(weights: np.ndarray, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross-entropy."""
    return float(-np.log(probabilities(weights, images)[np.arange(len(labels)), labels]).mean())


def confusion(weights: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return how often each validation digit (row) is taken for each digit (column)."""
    _, images, _, labels = load_split(seed)
    return confusion_matrix(labels, probabilities(weights, images).argmax(axis=1), labels=range(10))


def train(epochs: int, learning_rate: float, seed: int = 0) -> Iterator[tuple[Epoch, np.ndarray]]:
    """Yield each epoch with the weights after it."""
    images, val_images, labels, val_labels = load_split(seed)
    weights = np.zeros((images.shape[1], 10))
    order = np.random.default_rng(seed)
    for number in range(1, epochs + 1):
        for batch in np.array_split(order.permutation(len(labels)), 20):
            gradient = probabilities(weights, images[batch])
            gradient[np.arange(len(batch)), labels[batch]] -= 1
            weights = weights - learning_rate * images[batch].T @ gradient / len(batch)
        found = probabilities(weights, val_images).argmax(axis=1)
        accuracy = float((found == val_labels).mean())
        yield Epoch(number, loss(weights, images, labels), loss(weights, val_images, val_labels), accuracy), weights
