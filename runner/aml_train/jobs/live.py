"""The job that a run answers for, from the moment on that it may exist until it has ended."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from aml_train.core.clock import Clock
from aml_train.core.errors import CancelledError, ServiceError
from aml_train.core.events import JobNamed, JobStatusChanged, Listener, Notice
from aml_train.core.threads import CancelToken, in_background
from aml_train.jobs.cancel import await_end, tell_to_cancel
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.workspace import JobService, JobView

_CALL_OFF_PATIENCE: Final = 1.0
#: How many more interruptions do not keep the service from being told.
_STUBBORN: Final = 1


class LiveJob:
    """One job, and what an interruption of the run does to it.

    Args:
        name: the job's name.
        service: the workspace.
        clock: time.
        listener: is told that from now on there may be such a job.
    """

    def __init__(self, name: str, service: JobService, clock: Clock, listener: Listener) -> None:
        self.name = name
        self._service = service
        self._clock = clock
        self._listener = listener
        self._submission: CancelToken | None = None
        self._submitting: Future[JobView] | None = None
        listener(JobNamed(job=name))

    def submit(self, job: JobSpec) -> JobView:
        """Submit it, in a thread of its own: an interruption does not wait for the SDK's uploads.

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

    def interrupt(self, *, cancel: bool) -> CancelledError:
        """Let go of the job, or *cancel* it and wait until the service has ended it; return what the run ends with."""
        name = self.name
        if self._submission is not None and self._submission.cancel():
            # What it had begun ends by itself; its temporary files are given a moment to go.
            concurrent.futures.wait([self._submitting] if self._submitting else [], timeout=_CALL_OFF_PATIENCE)
            return CancelledError("Interrupted before the job was submitted.")
        if not cancel:
            return CancelledError(
                f"Interrupted: the job {name} goes on.",
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
        if not self._tell():
            return CancelledError(f"Interrupted while submitting; there is no job {self.name}.")
        self._listener(Notice(text=f"AzureML has taken note; waiting for the end of {self.name}."))
        view = await_end(self._service, self.name, clock=self._clock)
        self._listener(JobStatusChanged(job=self.name, status=view.status.value))
        return CancelledError(f"Interrupted: the job {self.name} is {view.status.value}.")

    def _tell(self) -> bool:
        """Tell the service to cancel the job. The runner's second signal does not end the telling; a third one does."""
        for _ in range(_STUBBORN):
            with contextlib.suppress(KeyboardInterrupt):
                return self._tell_once()
            self._listener(Notice(text=f"Still telling AzureML to cancel {self.name}.", level="warning"))
        return self._tell_once()

    def _tell_once(self) -> bool:
        return tell_to_cancel(self._service, self.name, clock=self._clock, may_appear=self._may_appear)

    def _may_appear(self) -> bool:
        return self._submitting is not None and not self._submitting.done()
