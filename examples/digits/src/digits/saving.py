"""The model's folder: ``model.joblib``, and ``metrics.json`` for other programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import joblib
from sklearn.neural_network import MLPClassifier

from digits.training import Epoch

MODEL_FILE = "model.joblib"
METRICS_FILE = "metrics.json"


def save_model(folder: Path, model: MLPClassifier, last: Epoch) -> None:
    """Write *model* and its last epoch's figures into *folder*; create it if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    joblib.dump(model, folder / MODEL_FILE)
    (folder / METRICS_FILE).write_text(json.dumps(asdict(last), indent=2) + "\n", encoding="utf-8")


def load_model(folder: Path) -> MLPClassifier:
    """Read the model that :func:`save_model` wrote."""
    return joblib.load(folder / MODEL_FILE)
