import json
from pathlib import Path

import numpy as np

from digits.data import load_split
from digits.saving import METRICS_FILE, load_model, save_model
from digits.training import new_model, train


def test_a_saved_model_predicts_as_before(tmp_path: Path) -> None:
    digits = load_split()
    model = new_model(learning_rate=0.01, seed=0)
    (epoch,) = train(model, digits, epochs=1)
    folder = tmp_path / "outputs" / "model"

    save_model(folder, model, epoch)

    assert np.array_equal(load_model(folder).predict_proba(digits.val_images), model.predict_proba(digits.val_images))
    assert json.loads((folder / METRICS_FILE).read_text()) == {
        "number": 1,
        "train_loss": epoch.train_loss,
        "val_loss": epoch.val_loss,
        "val_accuracy": epoch.val_accuracy,
    }
