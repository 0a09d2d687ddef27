from pathlib import Path

import numpy as np
import pytest
from steps.network import read_model, train, write_model
from steps.split import Split, read_images, read_split, split_images, write_split

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def split() -> Split:
    return split_images(*read_images(DATA), test_share=0.2, seed=0)


def test_the_images_of_the_project_are_read() -> None:
    images, labels = read_images(DATA)
    assert images.shape == (len(labels), 64)
    assert images.min() >= 0
    assert images.max() <= 1
    assert sorted(set(labels)) == list(range(10))


def test_a_line_with_too_few_values_is_refused(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "digits.csv.gz", np.zeros((2, 3)), delimiter=",")
    with pytest.raises(ValueError, match="3 values in a line, not 65"):
        read_images(tmp_path)


def test_a_split_is_read_as_it_was_written(tmp_path: Path, split: Split) -> None:
    write_split(tmp_path / "new", split)
    found = read_split(tmp_path / "new")
    assert all(np.array_equal(getattr(found, name), value) for name, value in vars(split).items())


def test_both_parts_have_every_digit(split: Split) -> None:
    assert set(split.train_labels) == set(split.test_labels) == set(range(10))


def test_a_trained_model_is_read_as_it_was_written(tmp_path: Path, split: Split) -> None:
    *_, model = train(split, epochs=3, learning_rate=0.01, seed=0)
    write_model(tmp_path, model)
    found = read_model(tmp_path)
    assert np.array_equal(found.predict(split.test_images), model.predict(split.test_images))
    assert found.score(split.test_images, split.test_labels) > 0.8


def test_no_epochs_is_an_error(split: Split) -> None:
    with pytest.raises(ValueError, match="at least one epoch is needed, not 0"):
        list(train(split, epochs=0, learning_rate=0.01, seed=0))
