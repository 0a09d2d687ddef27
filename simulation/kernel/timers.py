"""Virtual time: a clock, and what happens at which time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Timer:
    """An action at a time; without one it was cancelled."""

    action: Callable[[], object] | None


class Timers:
    """Timers in the order of their times.

    Those of equal times are in the order in which they were made.

    Attributes:
        now: virtual nanoseconds since the beginning.
    """

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = itertools.count()

    def at(self, when: int, action: Callable[[], object]) -> Timer:
        """Call *action* at a time, or at once if that is over."""
        timer = Timer(action)
        heapq.heappush(self._heap, (max(when, self.now), next(self._sequence), timer))
        return timer

    def expire(self) -> None:
        """Call what is due.

        Cancelled timers at the front are removed, so that time does not move to them.
        """
        while self._heap and (self._heap[0][0] <= self.now or self._heap[0][2].action is None):
            timer = heapq.heappop(self._heap)[2]
            action, timer.action = timer.action, None
            if action is not None:
                action()

    def move(self, end: int | None) -> bool:
        """Move to the next timer and call what is due.

        Return False if there is none until *end*.
        """
        if not self._heap or (end is not None and self._heap[0][0] > end):
            return False
        self.now = max(self.now, self._heap[0][0])
        self.expire()
        return True
