"""Tell the service to cancel a job until it has taken note, and see the job to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.jobs.workspace import JobService, JobView

_PAUSE: Final = 0.25
#: Seconds for which the service is told again, and for which the end of the job is waited for.
PATIENCE: Final = 60.0


def tell_to_cancel(
    service: JobService,
    name: str,
    *,
    clock: Clock,
    may_appear: Callable[[], bool] = lambda: False,
    patience: float = PATIENCE,
) -> bool:
    """Tell the service to cancel the job until it has taken note.

    Args:
        may_appear: whether a job that is not there may still come: its submission is on its way.
        patience: seconds for which a service that does not answer is told again.

    Returns:
        whether there is such a job.

    Raises:
        ServiceError: the service refuses, or has not answered within *patience*.
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
        if clock.now() - began >= patience:
            raise problem or ServiceError(f"AzureML has shown no job {name} within {patience:.0f} s.")
        clock.sleep(_PAUSE)


def await_end(service: JobService, name: str, *, clock: Clock, patience: float = PATIENCE) -> JobView:
    """Return the job's view when it has ended, or the last one when *patience* (seconds) is over.

    Raises:
        ServiceError: the service refuses, or does not answer at the end of it.
    """
    began = clock.now()
    while True:
        try:
            view = service.details(name)
            if view.status.terminal or clock.now() - began >= patience:
                return view
        except ServiceError as error:
            if not error.transient or clock.now() - began >= patience:
                raise
        clock.sleep(_PAUSE)
