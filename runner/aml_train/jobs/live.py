"""The active job of a run: submitted in a thread, cancelled on interrupt."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from aml_train.core.clock import Clock
from aml_train.core.errors import CancelledError, ServiceError
from aml_train.core.events import JobNamed, JobStatusChanged, Listener, Notice
from aml_train.core.threads import CancelToken, in_background
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.workspace import JobView, Workspace

_PAUSE: Final = 0.25
#: Seconds for which the request to cancel is repeated, and for which the end of the job is awaited.
TIMEOUT: Final = 60.0


def request_cancel(
    service: Workspace,
    name: str,
    *,
    clock: Clock,
    may_appear: Callable[[], bool] = lambda: False,
    timeout: float = TIMEOUT,
) -> bool:
    """Request the job's cancellation until the service acknowledges it.

    Args:
        may_appear: whether a job that is not there may still come: its submission is on its way.
        timeout: seconds for which the request is repeated while the service does not answer.

    Returns:
        whether there is such a job.

    Raises:
        ServiceError: the service refuses, or has not answered in time.
    """
    began = clock.now()
    while True:
        problem: ServiceError | None = None
        appearing = may_appear()
        try:
            if service.cancel(name):
                return True
        except ServiceError as error:
            if not error.transient:
                raise
            problem = error
        if problem is None and not appearing:
            return False
        if clock.now() - began >= timeout:
            raise problem or ServiceError(f"AzureML has shown no job {name} within {timeout:.0f} s.")
        clock.sleep(_PAUSE)


def await_end(service: Workspace, name: str, *, clock: Clock, timeout: float = TIMEOUT) -> JobView:
    """Return the job's view at its end, or the last one after the time-out.

    Raises:
        ServiceError: the service refuses, or does not answer at the end of it.
    """
    began = clock.now()
    while True:
        try:
            view = service.details(name)
            if view.status.terminal or clock.now() - began >= timeout:
                return view
        except ServiceError as error:
            if not error.transient or clock.now() - began >= timeout:
                raise
        clock.sleep(_PAUSE)


_CALL_OFF_PATIENCE: Final = 1.0


class LiveJob:
    """One job, and what an interruption of the run does to it.

    Args:
        listener: receives the job's name as soon as such a job may exist.
    """

    def __init__(self, name: str, service: Workspace, clock: Clock, listener: Listener) -> None:
        self.name = name
        self._service = service
        self._clock = clock
        self._listener = listener
        self._submission: CancelToken | None = None
        self._submitting: Future[JobView] | None = None
        listener(JobNamed(job=name))

    def submit(self, job: JobSpec) -> JobView:
        """Submit it in a separate thread: an interruption does not await its uploads.

        Raises:
            InvalidError: the SDK refuses the job.
            ServiceError: the service refuses, or the job's fate is not known.
        """
        return self.send(lambda submission: self._service.submit(job, submission))

    def send(self, send: Callable[[CancelToken], JobView]) -> JobView:
        """Submit it by *send*, in the same way."""
        submission = CancelToken()
        # An interruption may come between any two lines: it finds first the one, then both.
        self._submission = submission
        submitting: Future[JobView] = Future()
        self._submitting = submitting
        in_background(lambda: send(submission), "submit", submitting)
        return submitting.result()

    def call_off(self) -> None:
        """Request the job's cancellation without awaiting its end; a submission that is not sent yet is given up.

        Raises:
            ServiceError: the service refuses or does not answer.
        """
        if self._submission is None or not self._submission.cancel():
            self._request_cancel()

    def interrupt(self, *, cancel: bool) -> CancelledError:
        """Detach from the job, or *cancel* it and await its end; return the run's error."""
        name = self.name
        if self._submission is not None and self._submission.cancel():
            # The work that it had begun ends by itself; its temporary files are given a moment to be removed.
            concurrent.futures.wait([self._submitting] if self._submitting else [], timeout=_CALL_OFF_PATIENCE)
            return CancelledError("Interrupted before the job was submitted.")
        if not cancel:
            return CancelledError(
                f"Interrupted: the job {name} continues.",
                hint=f"Gate it later: aml-train attach {name}. Or cancel it in the studio.",
            )
        self._listener(Notice(text=f"Interrupted: cancelling the job {name}.", level="warning"))
        try:
            return self._cancel()
        except ServiceError as error:
            return CancelledError(
                f"Interrupted, but the job {name} could not be cancelled: {error.message}",
                hint="It may still be running: cancel it in the studio.",
            )
        except KeyboardInterrupt:
            return CancelledError(
                f"Interrupted again: the end of the job {name} was not awaited.",
                hint="See in the studio that it has ended.",
            )

    def _cancel(self) -> CancelledError:
        if not self._request_cancel():
            return CancelledError(f"Interrupted while submitting; there is no job {self.name}.")
        self._listener(Notice(text=f"AzureML has taken note; waiting for the end of {self.name}."))
        view = await_end(self._service, self.name, clock=self._clock)
        self._listener(JobStatusChanged(job=self.name, status=view.status.value))
        return CancelledError(f"Interrupted: the job {self.name} is {view.status.value}.")

    def _request_cancel(self) -> bool:
        """Request the cancellation; only the runner's third signal ends that."""
        request = functools.partial(
            request_cancel, self._service, self.name, clock=self._clock, may_appear=self._may_appear
        )
        with contextlib.suppress(KeyboardInterrupt):
            return request()
        self._listener(Notice(text=f"Still requesting the cancellation of {self.name}.", level="warning"))
        return request()

    def _may_appear(self) -> bool:
        return self._submitting is not None and not self._submitting.done()
