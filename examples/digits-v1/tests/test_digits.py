import numpy as np
import pytest

from digits import confusion, load_split, probabilities, train


def test_probabilities_add_up_to_1() -> None:
    images, *_ = load_split()
    weights = np.random.default_rng(0).normal(size=(images.shape[1], 10))
    assert probabilities(weights, images).sum(axis=1) == pytest.approx(np.ones(len(images)))


def test_training_improves_on_its_first_epoch() -> None:
    epochs = [epoch for epoch, _ in train(5, learning_rate=0.5)]
    assert [epoch.number for epoch in epochs] == [1, 2, 3, 4, 5]
    assert epochs[-1].val_loss < epochs[0].val_loss
    assert epochs[-1].val_accuracy > 0.85


def test_what_is_right_stands_on_the_diagonal() -> None:
    ((epoch, weights),) = train(1, learning_rate=0.5)
    matrix = confusion(weights)
    assert matrix.trace() / matrix.sum() == pytest.approx(epoch.val_accuracy)


def test_the_same_seed_trains_to_the_same_weights() -> None:
    (*_, (_, first)), (*_, (_, second)) = (list(train(2, 0.5, seed=7)) for _ in range(2))
    assert np.array_equal(first, second)
