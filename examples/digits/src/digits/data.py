"""The digits that scikit-learn carries, split once and for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

CLASSES = np.arange(10)
_LARGEST_PIXEL = 16.0


@dataclass(frozen=True, kw_only=True)
class Digits:
    """A split of the data: 8x8 images as rows of 64 numbers, and their digits.

    The numbers are between 0 and 1.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    val_images: np.ndarray
    val_labels: np.ndarray


def load_split(*, val_share: float = 0.2, seed: int = 0) -> Digits:
    """Split into a training and a validation part, with equal shares of every digit."""
    images, labels = load_digits(return_X_y=True)
    train_images, val_images, train_labels, val_labels = train_test_split(
        images / _LARGEST_PIXEL, labels, test_size=val_share, stratify=labels, random_state=seed
    )
    return Digits(train_images=train_images, train_labels=train_labels, val_images=val_images, val_labels=val_labels)
