"""Virtual time of a replay: replaces the functions of :mod:`time` in one place."""

from __future__ import annotations

import _thread
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

#: Real seconds in which the main thread handles an interruption that another thread has brought about.
_HANDLED: Final = 0.3


class VirtualTime:
    """The clock of a replay: it moves by sleeps and by the moments of answers.

    Args:
        began: seconds since the epoch at which the recording began.
        interrupt_at: the moment of the recorded interruption; None for none.
    """

    def __init__(self, began: float, interrupt_at: float | None) -> None:
        self.began = began
        self._interrupt_at = interrupt_at
        self._now = 0.0
        self._lock = threading.Lock()
        self._interrupted = False
        self._yield = time.sleep

    def now(self) -> float:
        """Return the seconds since the recording began."""
        return self._now

    def reach(self, moment: float) -> None:
        """Move to *moment*, unless it is over."""
        with self._lock:
            self._now = max(self._now, moment)

    def sleep(self, seconds: float) -> None:
        """Let *seconds* pass.

        Raises:
            KeyboardInterrupt: the recorded run was interrupted meanwhile, and this is the main thread.
        """
        until = self._now + max(seconds, 0.0)
        self.interrupt_before(until)
        self.reach(until)
        self._yield(0)

    def interrupt_before(self, moment: float) -> None:
        """Interrupt the main thread once, if the recorded run was before *moment*."""
        with self._lock:
            if self._interrupt_at is None or moment < self._interrupt_at or self._interrupted:
                return
            self._interrupted = True
        self.reach(self._interrupt_at)
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        # The main thread waits for this one: it handles the interruption before this one continues.
        _thread.interrupt_main()
        self._yield(_HANDLED)

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
