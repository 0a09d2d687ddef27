"""Durations and sizes, as people read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_SLOW: Final = 0.5


def duration(seconds: float) -> str:
    """Return a duration for people: ``0.4 s``, ``2 min 05 s``, ``1 h 02 min``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(count: float) -> str:
    """Return a number of bytes for people, in decimal units."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def slowest(times: Iterable[tuple[str, float]]) -> str:
    """Return in one line what took half a second and more: names and durations; empty where nothing did."""
    return ", ".join(f"{name} {duration(seconds)}" for name, seconds in times if seconds >= _SLOW)
