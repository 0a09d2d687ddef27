import math

import numpy as np
import pytest

from digits.data import load_split
from digits.training import Epoch, new_model, train


@pytest.fixture(scope="module")
def epochs() -> list[Epoch]:
    return list(train(new_model(learning_rate=0.01, seed=0), load_split(), epochs=5))


def test_training_improves_on_its_first_epoch(epochs: list[Epoch]) -> None:
    assert epochs[-1].val_accuracy > epochs[0].val_accuracy
    assert epochs[-1].train_loss < epochs[0].train_loss / 2
    assert epochs[-1].val_accuracy > 0.9


def test_epochs_are_counted_and_their_figures_finite(epochs: list[Epoch]) -> None:
    assert [epoch.number for epoch in epochs] == [1, 2, 3, 4, 5]
    assert all(math.isfinite(epoch.train_loss) and math.isfinite(epoch.val_loss) for epoch in epochs)


def test_the_same_seed_trains_to_the_same_model() -> None:
    digits = load_split()
    models = [new_model(learning_rate=0.01, seed=7) for _ in range(2)]
    first, second = (list(train(model, digits, epochs=2)) for model in models)
    assert first == second
    assert all(np.array_equal(*weights) for weights in zip(models[0].coefs_, models[1].coefs_, strict=True))


def test_no_epochs_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one epoch is needed, not 0"):
        list(train(new_model(learning_rate=0.01, seed=0), load_split(), epochs=0))
