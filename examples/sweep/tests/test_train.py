import pytest

from train import train


def test_training_improves() -> None:
    accuracies = [accuracy for _, accuracy in train(epochs=4, learning_rate=0.01, width=16)]
    assert accuracies[-1] > accuracies[0]
    assert accuracies[-1] > 0.8


def test_a_trial_gives_the_same_again() -> None:
    first, second = ([accuracy for _, accuracy in train(epochs=2, learning_rate=0.01, width=8)] for _ in range(2))
    assert first == second


def test_no_epochs_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one epoch is needed, not 0"):
        list(train(epochs=0, learning_rate=0.01, width=8))
