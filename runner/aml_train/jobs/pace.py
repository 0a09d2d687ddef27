"""Polling of a job, its times and its time limits. Pure.

The status is polled often if the job may be about to end, seldom otherwise."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from aml_train.core.errors import AmlTrainError, CancelledError, TimedOutError
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView

#: A job that is about to end is polled this often, in seconds, for so long.
_NEAR: Final = 1.0
_NEAR_SECONDS: Final = 60.0
#: How many gaps between two lines of the log are remembered, and by how much a silence must exceed the longest of them.
_GAPS: Final = 20
_UNUSUAL: Final = 1.25


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a job is polled, in seconds.

    The pause between two questions is a fixed share of the time for which the job has been in its state: a short job's end is found at
    once, a long one's costs few calls.

    Attributes:
        shortest, longest: bounds of the pause.
        share: of the time in the state.
        log: how often a log is read between two polls: it is in Blob storage, and costs no call for the status.
    """

    shortest: float = 0.25
    longest: float = 60.0
    share: float = 0.05
    log: float = 0.5

    def pause(self, elapsed: float) -> float:
        """Return the seconds to wait for a job that is in its state for *elapsed* seconds."""
        return min(self.longest, max(self.shortest, self.share * elapsed))


class Cadence:
    """Decides when a job is polled next, by its state and by the growth of its log.

    Three things announce an end: the state Finalizing, which AzureML passes through while it stores outputs; a cancellation; and a log that falls
    silent for longer than it ever was. The job is then asked for at once, and again as the silence doubles.
    """

    def __init__(self, pace: Pace, now: float) -> None:
        self._pace = pace
        self._status: JobStatus | None = None
        self._since = now
        self._gaps: deque[float] = deque(maxlen=_GAPS)
        self._grew: float | None = None
        self._asks_at: float | None = None

    def scanned(self, now: float, status: JobStatus | None) -> None:
        """Take note of an answer (*status*), or of none (None)."""
        if status is not None and status is not self._status:
            self._status, self._since = status, now

    def received(self, now: float, *, grew: bool, began: float | None = None) -> bool:
        """Record a reading of the logs; return whether the job should be polled now.

        Args:
            now: when they had been read.
            grew: whether there was something new.
            began: when reading began: much text takes a while, which is no silence. None for *now*.
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
        if now < self._asks_at:
            return False
        self._asks_at = self._grew + 2 * (now - self._grew)
        return True

    def pause(self, now: float) -> float:
        """Return the seconds until the next poll, at the latest."""
        inside = now - self._since
        near = self._status is not None and (self._status.ending or self._status is JobStatus.NOT_RESPONDING)
        soon = min(_NEAR, self._pace.longest)
        return soon if near and inside < _NEAR_SECONDS else self._pace.pause(inside)


@dataclass(frozen=True, kw_only=True)
class Cap:
    """A bound on the job's cost: *seconds* that it may run, and *text* that says why."""

    seconds: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a watch in seconds; None for no bound.

    Attributes:
        total: of everything since the watch began, over all attempts.
        queue: of the time before the job runs; it starts again when AzureML puts the job back into the queue.
        run: of the time since the job has been Running.
        cap: what it may cost.
        spent: how much of *total* is gone when the watch begins.
        outage: of an outage of the service, and of a state that says nothing.
        silence: of NotResponding, from which AzureML may take a job back.
    """

    total: float | None = None
    queue: float | None = None
    run: float | None = None
    cap: Cap | None = None
    spent: float = 0.0
    outage: float = 3600.0
    silence: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Exceeded:
    """An exceeded bound: the run's error and its text. *waiting* if the job never ran."""

    error: type[AmlTrainError]
    text: str
    remedy: str
    waiting: bool = False


class Timing:
    """The times of a watched job, by a separate monotonic clock.

    How long a job had been waiting or running before the watch began is the difference of two times that the service's own clock gave:
    this machine's date does not matter.

    Args:
        now: when the watch begins, in seconds of the clock.
    """

    def __init__(self, now: float) -> None:
        self._began = now
        self._status: JobStatus | None = None
        self._waiting_since: float | None = now
        self._running_since: float | None = None
        self._limbo_since: float | None = None
        self.cancelled = False

    def seen(self, now: float, view: JobView) -> bool:
        """Record the job's state; return whether AzureML has put it back into the queue."""
        status, before = view.status, self._status
        self._status = status
        if status is JobStatus.CANCEL_REQUESTED:
            self.cancelled = True
        if not (status.limbo or status is JobStatus.NOT_RESPONDING):
            self._limbo_since = None
        elif self._limbo_since is None:
            self._limbo_since = now
        if status is before:
            return False
        if status.waiting:
            back = self._running_since is not None
            if before is None:
                self._waiting_since = now - _gone(view, since_start=False)
            elif back:
                self._waiting_since, self._running_since = now, None
            return back
        if status is JobStatus.RUNNING and self._running_since is None:
            self._running_since = now - (_gone(view, since_start=True) if before is None else 0.0)
        self._waiting_since = None
        return False

    def running_seconds(self, now: float) -> float:
        """Return for how long the job has been running; 0 where it has not begun."""
        return 0.0 if self._running_since is None else now - self._running_since

    def waiting_seconds(self, now: float) -> float:
        """Return for how long the job has been waiting; 0 where it does not."""
        return 0.0 if self._waiting_since is None else now - self._waiting_since

    def silent_seconds(self, now: float) -> float:
        """Return for how long the job's state has not said what comes next."""
        return 0.0 if self._limbo_since is None else now - self._limbo_since

    def exceeded(self, now: float, limits: Limits, name: str) -> Exceeded | None:
        """Return the bound that the job has exceeded, or None."""
        word = self._status.value if self._status else "unknown"
        gone = now - self._began + limits.spent
        if limits.total is not None and gone > limits.total:
            return Exceeded(
                error=TimedOutError,
                text=f"The job {name} has not ended within {limits.total:g} s (watch.timeout); its status is {word}",
                remedy="Raise watch.timeout, or let the job do less.",
            )
        if limits.queue is not None and self._waiting_since is not None and now - self._waiting_since > limits.queue:
            return Exceeded(
                error=TimedOutError,
                text=f"The job {name} has not started within {limits.queue:g} s (watch.queue-timeout); its status is {word}",
                remedy="Look for quota and free nodes of its compute, or raise watch.queue-timeout.",
                waiting=True,
            )
        running = self.running_seconds(now)
        if limits.run is not None and running > limits.run:
            return Exceeded(
                error=TimedOutError,
                text=f"The job {name} has run for more than {limits.run:g} s (watch.run-timeout)",
                remedy="Raise watch.run-timeout, or let the job do less.",
            )
        if limits.cap is not None and running > limits.cap.seconds:
            return Exceeded(
                error=CancelledError,
                text=f"The job {name} has reached its bound: {limits.cap.text}",
                remedy="Raise the bound under `cost`, or let the job do less.",
            )
        return None


def _gone(view: JobView, *, since_start: bool) -> float:
    """Return the seconds since the job's start, or creation; 0 if unknown."""
    begin = view.started if since_start else view.created
    if begin is None or view.observed is None:
        return 0.0
    return max(0.0, (view.observed - begin).total_seconds())
