"""Durations as Azure writes them: ISO 8601, without years and months. Pure."""

from __future__ import annotations

import re

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def seconds_of(text: str) -> float | None:
    """Return a duration of days, hours, minutes and seconds in seconds; None where *text* is none."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
