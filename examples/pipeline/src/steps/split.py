"""The data: images from a file of the project, split into two parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

CLASSES = np.arange(10)
IMAGES_FILE = "digits.csv.gz"
SPLIT_FILE = "split.npz"
_LARGEST_PIXEL = 16.0


@dataclass(frozen=True, kw_only=True)
class Split:
    """Rows of 64 numbers between 0 and 1, and their digits, in two parts."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def read_images(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read the images of *folder* and their digits: 64 pixels and a digit in a line.

    Raises:
        ValueError: a line has another number of values.
    """
    rows = np.loadtxt(folder / IMAGES_FILE, delimiter=",", ndmin=2)
    if rows.shape[1] != 65:
        raise ValueError(f"{IMAGES_FILE} has {rows.shape[1]} values in a line, not 65")
    return rows[:, :64] / _LARGEST_PIXEL, rows[:, 64].astype(int)


def split_images(images: np.ndarray, labels: np.ndarray, *, test_share: float, seed: int) -> Split:
    """Split the images, with equal shares of every digit."""
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=test_share, stratify=labels, random_state=seed
    )
    return Split(
        train_images=train_images, train_labels=train_labels, test_images=test_images, test_labels=test_labels
    )


def write_split(folder: Path, split: Split) -> None:
    """Write *split* into *folder*; create it if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / SPLIT_FILE, **vars(split))


def read_split(folder: Path) -> Split:
    """Read what :func:`write_split` wrote."""
    with np.load(folder / SPLIT_FILE) as found:
        return Split(**{name: found[name] for name in found.files})
