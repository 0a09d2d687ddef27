import numpy as np
import pytest

from moons import features, judge, make_moons, train


def accuracy(degree: int) -> float:
    validation = make_moons(400, seed=2)
    *_, weights = train(make_moons(800, seed=1), degree=degree, steps=300)
    return judge(weights, validation, degree, 300).accuracy


def test_moons_are_bent_and_no_line_tells_them_apart() -> None:
    assert 0.8 < accuracy(1) < accuracy(3)


def test_the_loss_falls() -> None:
    points = make_moons(200, seed=3)
    losses = [judge(weights, points, 2, step).loss for step, weights in enumerate(train(points, degree=2, steps=50))]
    assert losses == sorted(losses, reverse=True)


def test_the_same_seed_makes_the_same_points() -> None:
    first, second = make_moons(50, seed=4), make_moons(50, seed=4)
    assert np.array_equal(first.places, second.places)
    assert set(first.moons) == {0, 1}


def test_a_degree_has_all_its_products() -> None:
    places = np.array([[2.0, 3.0]])
    assert sorted(features(places, 2)[0]) == [1, 2, 3, 4, 6, 9]
    with pytest.raises(ValueError, match="at least 1, not 0"):
        features(places, 0)
