"""How often a job is asked for: often where its end may be near, seldom otherwise, and never more often than the budget allows. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from aml_train.jobs.states import JobStatus

_WINDOW: Final = 12 * 3600.0
#: Of the budget, what may be spent at once, and what of that is kept for the end.
_BURST: Final = 150
_RESERVE: Final = 60
#: A job that is about to end is asked for this often, in seconds, for so long.
_NEAR: Final = 1.0
_NEAR_SECONDS: Final = 60.0
#: How many gaps between two lines of the log are remembered, and by how much a silence must exceed the longest of them.
_GAPS: Final = 20
_UNUSUAL: Final = 1.25


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a job is asked for, in seconds.

    The pause between two questions is a fixed share of the time for which the job has been in its state: a short job's end is found at
    once, a long one's costs few calls.

    Attributes:
        shortest, longest: bounds of the pause.
        share: of the time in the state.
        log: how often a log is read between two questions: it lies in Blob storage, and no status is asked for.
        calls: how many questions twelve hours may cost at most; None for no bound.
    """

    shortest: float = 0.25
    longest: float = 60.0
    share: float = 0.05
    log: float = 0.5
    calls: int | None = None

    def pause(self, elapsed: float) -> float:
        """Return the seconds to wait when the job has been in its state for *elapsed* seconds."""
        return min(self.longest, max(self.shortest, self.share * elapsed))


class Cadence:
    """Decides when a job is asked for next, by its state and by what its log does.

    Three things announce an end: the state Finalizing, which AzureML passes through while it stores outputs; a cancellation; and a log that falls
    silent for longer than it ever was. The job is then asked for at once, and again as the silence doubles.

    Args:
        pace: see :class:`Pace`.
        now: seconds of a monotonic clock.
    """

    def __init__(self, pace: Pace, now: float) -> None:
        self._pace = pace
        self._began = now
        self._calls = 0
        self._status: JobStatus | None = None
        self._since = now
        self._gaps: deque[float] = deque(maxlen=_GAPS)
        self._grew: float | None = None
        self._asks_at: float | None = None

    def looked(self, now: float, status: JobStatus | None) -> None:
        """Take note of an answer (*status*), or of none (None)."""
        self._calls += 1
        if status is not None and status is not self._status:
            self._status, self._since = status, now

    def heard(self, now: float, *, grew: bool, began: float | None = None) -> bool:
        """Take note of a look at the logs; return whether the job should be asked for now.

        Args:
            now: when they had been read.
            grew: whether there was something new.
            began: when reading began: what is much takes a while, in which nobody was silent. None for *now*.
        """
        if grew:
            if self._grew is not None:
                self._gaps.append(max(0.0, (now if began is None else began) - self._grew))
            self._grew, self._asks_at = now, None
            return False
        if self._grew is None or self._status is not JobStatus.RUNNING:
            return False
        if self._asks_at is None:
            self._asks_at = self._grew + _UNUSUAL * max(self._gaps, default=self._pace.log)
        if now < self._asks_at or self._room(now) < 1:
            return False
        self._asks_at = self._grew + 2 * (now - self._grew)
        return True

    def pause(self, now: float) -> float:
        """Return the seconds until the job is asked for again at the latest."""
        inside = now - self._since
        near = self._status is not None and (self._status.ending or self._status is JobStatus.NOT_RESPONDING)
        soon = min(_NEAR, self._pace.longest)
        wanted = soon if near and inside < _NEAR_SECONDS else self._pace.pause(inside)
        missing = 1 - self._room(now, near=near)
        return max(wanted, missing / self._rate()) if missing > 0 else wanted

    def _rate(self) -> float:
        """Return how many calls a second the budget gives beside the burst."""
        return ((self._pace.calls or 0) - _BURST) / _WINDOW

    def _room(self, now: float, *, near: bool = False) -> float:
        """Return how many calls the budget has room for."""
        if self._pace.calls is None:
            return 1.0
        burst = _BURST if near else _BURST - _RESERVE
        return burst + self._rate() * (now - self._began) - self._calls
