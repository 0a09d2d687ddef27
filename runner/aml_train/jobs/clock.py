"""Time, passed in so that tests need not wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Time, passed in so that tests need not wait. *now* is monotonic, in seconds."""

    now: Callable[[], float]
    sleep: Callable[[float], None]
