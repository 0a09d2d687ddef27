"""Watch a job to its end: poll its status, follow its logs, enforce limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError, ServiceError
from aml_train.core.events import JobStatusChanged, Listener, Notice
from aml_train.jobs.live import await_end, request_cancel
from aml_train.jobs.logs.report import JobLogs, cause_of, quote_logs
from aml_train.jobs.pace import Cadence, Exceeded, Limits, Pace, Timing
from aml_train.jobs.states import JobStatus, failure_of
from aml_train.jobs.workspace import JobView, Workspace

_MAY_RUN: Final = "The job may still be running; run the same command again to attach to it."
#: Seconds between two failures in a row, from which on the machine must have been asleep meanwhile: no request was sent.
_ASLEEP: Final = 300.0
#: Seconds for which a cancelled job's end is awaited: nodes may take minutes to stop a container.
_CONFIRM: Final = 600.0
#: Seconds between two readings of the ends of logs, where the first one fails: the verdict waits for no more than these.
_LAST_READS: Final = (0.5, 2.0)
#: Seconds of waiting after which the reason is reported.
_LONG_WAIT: Final = 300.0


class Watch:
    """One watch. *timing* has the times, *last* the last view.

    Args:
        listener: receives the job's statuses, and what the user should know.
        logs: reads the job's logs, and reports their lines.
        scanned: is called after each look at a job that has begun; returns a bound that the job has exceeded, or None.
    """

    def __init__(
        self,
        service: Workspace,
        name: str,
        *,
        clock: Clock,
        pace: Pace,
        limits: Limits,
        listener: Listener,
        logs: JobLogs,
        scanned: Callable[[JobView], Exceeded | None] = lambda _: None,
    ) -> None:
        self._scanned = scanned
        self._service = service
        self._name = name
        self._clock = clock
        self._pace = pace
        self._limits = limits
        self._listener = listener
        self._logs = logs
        self._cadence = Cadence(pace, clock.now())
        self.timing = Timing(clock.now())
        self._view: JobView | None = None
        self.last: JobView | None = None
        self._reported_wait = False
        self._outage: float | None = None
        self._failed_at = 0.0
        self._reading: float | None = None
        self._over: Exceeded | None = None

    def run(self) -> tuple[JobView, AmlTrainError | None]:
        """Follow the job to its end.

        Returns:
            the job's last view, and the error that it ends the run with (None for Completed).

        Raises:
            TimedOutError: when a limit is exceeded; the job has been cancelled by then, or that it could not be is said.
            CancelledError: when the job may not cost more; as above.
            ServiceError: if the service is out for longer than the limit, or reports an unknown status.
        """
        while True:
            view = self._look()
            if view is not None and view.status.terminal and self._is_over(view):
                logs = self._logs.end(view.error)
                tail = "" if view.status is JobStatus.COMPLETED else quote_logs(logs)
                return view, failure_of(
                    view.status, job=self._name, reason=view.error, tail=tail, cause=cause_of(logs), codes=view.codes
                )
            now = self._clock.now()
            if view is not None and self.timing.waiting_seconds(now) > _LONG_WAIT and not self._reported_wait:
                self._reported_wait = True
                if reason := self._why_waiting():
                    self._listener(Notice(text=f"The job {self._name} still waits. {reason}"))
            over = self.timing.exceeded(now, self._limits, self._name) or self._over
            if over is not None:
                self._end(over)
            if self.timing.silent_seconds(now) > self._limits.outage and view is not None:
                raise ServiceError(
                    f"The job {self._name} has been {view.status.value} for {self.timing.silent_seconds(now):.0f} s.",
                    hint=f"Look at it in the studio. {_MAY_RUN}",
                )
            self._rest()

    def _is_over(self, view: JobView) -> bool:
        """Return whether an ended job is over: AzureML may resume NotResponding.

        https://learn.microsoft.com/javascript/api/@azure/arm-machinelearning/knownjobstatus
        """
        return view.status.final or self.timing.silent_seconds(self._clock.now()) >= self._limits.silence

    def _look(self) -> JobView | None:
        """Poll the job and read its logs; None if the service does not answer."""
        try:
            view = self._service.details(self._name)
            now = self._clock.now()
            self._cadence.scanned(now, view.status)
            if self._view is None or view.status is not self._view.status:
                self._listener(JobStatusChanged(job=self._name, status=view.status.value))
            if self.timing.seen(now, view):
                text = f"AzureML has put the job {self._name} back into the queue: its nodes were taken away."
                self._listener(Notice(text=text, level="warning"))
            self._view = self.last = view
            self._reading = now
        except ServiceError as error:
            if not error.transient:
                raise
            self._cadence.scanned(self._clock.now(), None)
            self._outlast(error)
            return None
        if self._outage is not None:
            self._listener(Notice(text="AzureML answers again."))
            self._outage = None
        if not view.status.terminal:
            self._over = self._scanned(view)
        self._read_logs(view)
        return view

    def _read_logs(self, view: JobView) -> None:
        """Try a few times to read the logs' ends; whatever happens, the status is known."""
        final = view.status.terminal and self._is_over(view)
        for pause in (*_LAST_READS, 0.0):
            if self._logs.read(view, final=final) or not final:
                return
            self._clock.sleep(pause)

    def _rest(self) -> None:
        """Wait until the next poll, and read the job's logs meanwhile."""
        now = self._clock.now()
        until = now + self._cadence.pause(now)
        readable = self._outage is None
        self._cadence.received(now, grew=self._logs.has_grown(), began=self._reading)
        while (left := until - self._clock.now()) > 0:
            tailed = self._logs.turn() if readable else ()
            self._clock.sleep(min(left, self._pace.log) if tailed else left)
            if tailed and left > self._pace.log:
                began = self._clock.now()
                if not self._logs.read_some(tailed):
                    readable = False  # The next look renews the addresses.
                    continue
                if self._cadence.received(self._clock.now(), grew=self._logs.has_grown(), began=began):
                    return

    def _outlast(self, error: ServiceError) -> None:
        """Tolerate an outage up to the limit, not counting time of sleep."""
        now = self._clock.now()
        if self._outage is None:
            self._outage = now
            text = f"AzureML does not answer ({error.message}); the job continues, trying again."
            self._listener(Notice(text=text, level="warning"))
        elif now - self._failed_at > _ASLEEP:
            self._outage += now - self._failed_at
        self._failed_at = now
        if now - self._outage > self._limits.outage:
            raise ServiceError(
                f"AzureML has not answered for {now - self._outage:.0f} s: {error.message}",
                hint="\n".join(filter(None, (_MAY_RUN, error.hint))),
            ) from error

    def _why_waiting(self) -> str:
        """Return why the job waits, as far as AzureML says."""
        try:
            found = self._service.find(self._name)
            placement = None if found is None else found.placement
            return "" if placement is None else self._service.waiting_reason(placement)
        except ServiceError:
            return ""

    def _end(self, over: Exceeded) -> NoReturn:
        """Cancel the job, wait until that is confirmed, and end the run."""
        why = self._why_waiting() if over.waiting else ""
        self._logs.end()
        self._listener(Notice(text=f"{over.text}: cancelling it.", level="warning"))
        try:
            if request_cancel(self._service, self._name, clock=self._clock):
                view = self.last = await_end(self._service, self._name, clock=self._clock, timeout=_CONFIRM)
                self._listener(JobStatusChanged(job=self._name, status=view.status.value))
                done = f"its cancellation was requested, and it is {view.status.value}."
            else:
                done = "it is not there any more."
        except ServiceError as error:
            raise over.error(
                f"{over.text}; it could not be cancelled: {error.message}",
                hint="It may still be running: cancel it in the studio.",
            ) from error
        raise over.error(" ".join(filter(None, (f"{over.text}; {done}", why))), hint=over.remedy)
