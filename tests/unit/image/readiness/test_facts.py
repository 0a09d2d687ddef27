"""The facts of the probe: an image may say anything."""

from __future__ import annotations

import pytest

from aml_train.image.readiness.facts import python_version


@pytest.mark.parametrize(
    ("version", "parts"),
    [("3.11.7", (3, 11, 7)), ("3.\u00b2", (3,)), (f"3.{'9' * 5000}", (3,)), ("", ()), ("3.11rc1", (3,))],
)
def test_the_version_of_python(version: str, parts: tuple[int, ...]) -> None:
    assert python_version({"python": {"version": version}}) == parts
    assert python_version({"python": None}) is None
