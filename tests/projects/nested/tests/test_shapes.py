import pytest


def test_shapes() -> None:
    assert pytest.approx(1.0) == 1.0
