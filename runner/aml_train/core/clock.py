"""Time, passed in so that tests need not wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Time, passed in so that tests need not wait. *now* is monotonic, in seconds."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


def _now() -> float:
    return time.monotonic()


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


SYSTEM_CLOCK: Final = Clock(now=_now, sleep=_sleep)
"""The time of this machine, looked up in ``time`` at each call: a simulation puts its own there."""


def elapsed() -> float:
    """Return seconds of a clock that never goes back and runs during a suspend.

    ``time.monotonic`` is halted during a suspend on Linux: a time-out would come late by as much (clock_gettime(2),
    CLOCK_BOOTTIME). Elsewhere it is what there is.
    """
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)
