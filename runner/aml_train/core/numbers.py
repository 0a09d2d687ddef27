"""Numbers and durations in text from outside."""

from __future__ import annotations

import re
from typing import Final

_DIGITS: Final = re.compile(r"[0-9]+")
_DURATION: Final = re.compile(
    r"P(?:([0-9]{1,9})D)?(?:T(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})(?:\.[0-9]+)?S)?)?"
)


def whole(text: str, *, most: int = 18) -> int | None:
    """Return the number that *text* is in ASCII digits; None for any other text.

    ``int`` alone reads digits of other scripts, raises for some characters that ``str.isdigit`` calls digits, such as ``²``, and
    for more than 4300 digits.

    Args:
        most: digits; what has more is no number either. 18 fit in 64 bits.
    """
    return int(text) if len(text) <= most and _DIGITS.fullmatch(text) else None


def iso_seconds(text: str) -> int | None:
    """Return a duration of ISO 8601 such as ``PT2M`` in whole seconds.

    None for any other text, and for numbers of more than 9 digits.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
