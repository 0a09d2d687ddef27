"""Whole numbers in text from outside."""

from __future__ import annotations

import re
from typing import Final

_DIGITS: Final = re.compile(r"[0-9]+")


def whole(text: str, *, most: int = 18) -> int | None:
    """Return the number that *text* is in ASCII digits; None for any other text.

    ``int`` alone reads digits of other scripts, raises for some characters that ``str.isdigit`` calls digits, such as ``²``, and
    for more than 4300 digits.

    Args:
        most: digits; what has more is no number either. 18 fit in 64 bits.
    """
    return int(text) if len(text) <= most and _DIGITS.fullmatch(text) else None
