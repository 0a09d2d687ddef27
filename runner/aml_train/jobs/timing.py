"""Since when a job waits, runs, or is in a state that nobody understands; and which bound it has exceeded. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from aml_train.core.errors import AmlTrainError, CancelledError, TimedOutError
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView


@dataclass(frozen=True, kw_only=True)
class Cap:
    """A bound of what the job may cost: *seconds* that it may run, and *text* that says why."""

    seconds: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a watch in seconds; None for no bound.

    Attributes:
        total: of everything since the watch began, over all attempts.
        queue: of the time before the job runs; it begins anew when AzureML puts the job back into the queue.
        run: of the time since the job has been Running.
        cap: what it may cost.
        spent: how much of *total* is gone when the watch begins.
        patience: of an outage of the service, and of a state that says nothing.
        silence: of NotResponding, from which AzureML may take a job back.
    """

    total: float | None = None
    queue: float | None = None
    run: float | None = None
    cap: Cap | None = None
    spent: float = 0.0
    patience: float = 3600.0
    silence: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Exceeded:
    """A bound that was exceeded: what it ends the run with, and why. *waiting* where the job never ran."""

    error: type[AmlTrainError]
    text: str
    remedy: str
    waiting: bool = False


class Timing:
    """What a watch knows of a job's times, by a monotonic clock of its own.

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
        self.requeued = 0
        self.cancelled = False

    def seen(self, now: float, view: JobView) -> bool:
        """Take note of the job's state; return whether AzureML has put it back into the queue."""
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
                self.requeued += 1
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
        """Return for how long the job has been in a state that says nothing of what comes next."""
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
    """Return how long ago the job was started, or made, by the service's clock alone; 0 where it does not say."""
    begin = view.started if since_start else view.created
    if begin is None or view.observed is None:
        return 0.0
    return max(0.0, (view.observed - begin).total_seconds())
