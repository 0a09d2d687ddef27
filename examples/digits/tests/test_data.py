import numpy as np
import pytest

from digits.data import CLASSES, Digits, load_split


@pytest.fixture(scope="module")
def digits() -> Digits:
    return load_split(seed=0)


def test_every_image_is_on_one_side_only(digits: Digits) -> None:
    train = {row.tobytes() for row in digits.train_images}
    val = {row.tobytes() for row in digits.val_images}
    assert len(train) + len(val) == 1797
    assert not train & val


def test_every_digit_has_the_same_share_on_both_sides(digits: Digits) -> None:
    train = np.bincount(digits.train_labels, minlength=10) / len(digits.train_labels)
    val = np.bincount(digits.val_labels, minlength=10) / len(digits.val_labels)
    assert np.allclose(train, val, atol=0.005)


def test_pixels_lie_between_0_and_1(digits: Digits) -> None:
    for images in (digits.train_images, digits.val_images):
        assert images.shape[1] == 64
        assert images.min() == 0.0
        assert images.max() == 1.0
    assert set(digits.val_labels) == set(CLASSES)


def test_the_seed_decides_the_split(digits: Digits) -> None:
    assert np.array_equal(load_split(seed=0).val_images, digits.val_images)
    assert not np.array_equal(load_split(seed=1).val_images, digits.val_images)
