"""Watch a job to its end: polling with back-off, logs, time-outs, patience with outages; then settle its metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.errors import AmlTrainError, ServiceError, TimedOutError
from aml_train.events import JobStatusChanged, Listener, LogLine, Notice
from aml_train.gate.history import MetricPoint
from aml_train.jobs.cancel import tell_to_cancel
from aml_train.jobs.clock import Clock
from aml_train.jobs.logs import LogFollower
from aml_train.jobs.service import JobService, JobView
from aml_train.jobs.states import JobStatus, failure_of
from aml_train.lines import Piece


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a job is asked for, in seconds.

    The pause between two polls is a fixed share of the time watched so far: a short job's end is found at once, a
    long one's costs few calls.
    """

    shortest: float = 0.25
    longest: float = 30.0
    share: float = 0.05

    def pause(self, elapsed: float) -> float:
        """Return the seconds to wait when *elapsed* seconds have been watched."""
        return min(self.longest, max(self.shortest, self.share * elapsed))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a watch in seconds; None for no bound. *patience* bounds an outage of the service."""

    total: float | None = None
    queue: float | None = None
    patience: float = 3600.0


_METRIC_READS: Final = 6
_MAY_RUN: Final = "The job may still be running; run the same command again to attach to it."


def watch(
    service: JobService, name: str, *, clock: Clock, pace: Pace, limits: Limits, listener: Listener
) -> tuple[JobView, AmlTrainError | None]:
    """Follow the job until it has ended; its log lines and statuses go to *listener*.

    Returns:
        the job's last view, and the error that it ends the run with (None for Completed).

    Raises:
        TimedOutError: when a limit is exceeded; the job has been asked to cancel by then.
        ServiceError: if the service stays away longer than our patience, or reports an unknown status.
    """

    def pass_on(path: str, piece: Piece) -> None:
        listener(LogLine(source="job", text=piece.text, origin=path, more=piece.more))

    follower = LogFollower(service, pass_on)
    began = clock.now()
    outage: float | None = None
    status: JobStatus | None = None
    while True:
        try:
            view = service.details(name)
            if view.status is not status:
                status = view.status
                listener(JobStatusChanged(job=name, status=status.value))
            follower.follow(view.log_files, final=view.status.terminal)
        except ServiceError as error:
            if not error.transient:
                raise
            outage = _outlast(error, outage, clock, limits, listener)
        else:
            if outage is not None:
                listener(Notice(text="AzureML answers again."))
                outage = None
            if view.status.terminal:
                tail = "" if view.status is JobStatus.COMPLETED else follower.tail
                return view, failure_of(view.status, job=name, reason=view.error, tail=tail)
        _enforce(service, name, status, clock.now() - began, limits, clock)
        clock.sleep(pace.pause(clock.now() - began))


def _outlast(error: ServiceError, since: float | None, clock: Clock, limits: Limits, listener: Listener) -> float:
    """Bear an outage as long as our patience lasts; return when it began."""
    if since is None:
        listener(
            Notice(text=f"AzureML does not answer ({error.message}); the job goes on, trying again.", level="warning")
        )
        return clock.now()
    if clock.now() - since > limits.patience:
        raise ServiceError(
            f"AzureML has not answered for {clock.now() - since:.0f} s: {error.message}",
            hint="\n".join(filter(None, (_MAY_RUN, error.hint))),
        ) from error
    return since


def _enforce(
    service: JobService, name: str, status: JobStatus | None, elapsed: float, limits: Limits, clock: Clock
) -> None:
    over: str | None = None
    if limits.total is not None and elapsed > limits.total:
        over = f"The job {name} has not ended within {limits.total:g} s (watch.timeout)"
    elif limits.queue is not None and elapsed > limits.queue and (status is None or status.waiting):
        word = status.value if status else "unknown"
        over = f"The job {name} has not started within {limits.queue:g} s (watch.queue-timeout); its status is {word}"
    if over:
        tell_to_cancel(service, name, clock=clock)
        raise TimedOutError(
            f"{over}; it has been told to cancel.", hint="Raise the limit, or look for quota and nodes."
        )


def settle_metrics(
    service: JobService, name: str, metrics: Sequence[str], *, clock: Clock, pause: float = 0.5
) -> tuple[Mapping[str, float], Mapping[str, Sequence[MetricPoint]]]:
    """Read the metrics of an ended job until two reads agree, six times at most.

    Args:
        metrics: the names whose whole history is wanted.
        pause: seconds between two reads.

    Returns:
        every metric's last value, and the history of each one in *metrics* that exists.

    Raises:
        ServiceError: if the service does not answer.
    """
    previous: object = None
    last: Mapping[str, float] = {}
    histories: dict[str, Sequence[MetricPoint]] = {}
    for attempt in range(_METRIC_READS):
        if attempt:
            clock.sleep(pause)
        last = service.last_metrics(name)
        histories = {metric: service.metric_history(name, metric) for metric in metrics if metric in last}
        missing = any(metric not in last for metric in metrics)
        reading = _comparable(last, histories)
        if reading == previous and (not missing or attempt >= 2):
            break
        previous = reading
    return last, histories


def _comparable(last: Mapping[str, float], histories: Mapping[str, Sequence[MetricPoint]]) -> object:
    """Return a reading in which NaN equals NaN."""

    def word(value: float) -> object:
        return "nan" if math.isnan(value) else value

    return (
        {name: word(value) for name, value in last.items()},
        {name: [(p.step, p.timestamp, word(p.value)) for p in points] for name, points in histories.items()},
    )
