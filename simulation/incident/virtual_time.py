"""Virtual time of a replay: replaces the functions of :mod:`time` in one place."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any


class VirtualTime:
    """The clock of a replay: it moves by sleeps and by the moments of answers.

    Args:
        began: seconds since the epoch at which the recording began.

    Attributes:
        before_sleep: is called before each sleep with the moment of its end.
    """

    def __init__(self, began: float) -> None:
        self.began = began
        self.before_sleep: Callable[[float], None] = lambda _until: None
        self._now = 0.0
        self._lock = threading.Lock()
        self._yield = time.sleep

    def now(self) -> float:
        """Return the seconds since the recording began."""
        return self._now

    def reach(self, moment: float) -> None:
        """Move to *moment*, unless it is over."""
        with self._lock:
            self._now = max(self._now, moment)

    def sleep(self, seconds: float) -> None:
        """Let *seconds* pass."""
        until = self._now + max(seconds, 0.0)
        self.before_sleep(until)
        self.reach(until)
        self._yield(0)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Use this time in the whole process during the block."""
        originals = {name: getattr(time, name) for name in ("sleep", "monotonic", "time", "clock_gettime")}
        gettime = time.clock_gettime

        def clock_gettime(clock: int) -> float:
            return self._now if clock == getattr(time, "CLOCK_BOOTTIME", None) else gettime(clock)

        ours: dict[str, Any] = {
            "sleep": self.sleep,
            "monotonic": self.now,
            "time": lambda: self.began + self._now,
            "clock_gettime": clock_gettime,
        }
        try:
            for name, function in ours.items():
                setattr(time, name, function)
            yield
        finally:
            for name, function in originals.items():
                setattr(time, name, function)
