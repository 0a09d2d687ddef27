"""Numbers and durations in text from outside."""

from __future__ import annotations

import pytest

from aml_train.core.text import iso_seconds, whole


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("007", 7),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        ("9" * 5000, None),  # int() raises for more than 4300 digits
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1_000", None),
        (" 1", None),
        ("1\n", None),
        ("\u00b2", None),  # a digit by str.isdigit, no integer by int()
        ("\u0663", None),  # three in Arabic
    ],
)
def test_ascii_digits_are_a_number_and_nothing_else(text: str, expected: int | None) -> None:
    assert whole(text) == expected


def test_longer_numbers_where_they_are_allowed() -> None:
    assert whole("9" * 255, most=255) == 10**255 - 1
    assert whole("9" * 256, most=255) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT2M", 120.0),
        ("P1DT1H1.5S", 90001.0),
        ("PT999999999S", 999_999_999),
        ("", None),
        ("2m", None),
        ("P", None),
        ("PT", None),
        ("PT1000000000S", None),
        (f"PT{'0' * 36}2M and more", None),
        ("P\u0663D", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert iso_seconds(text) == seconds
