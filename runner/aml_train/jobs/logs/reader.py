"""Where the bytes of a job's logs come from: Blob storage, else AzureML's artifact service, else nowhere.

Only logs lie in storage that this machine may be unable to reach (a firewall, a private endpoint). Status, metrics and models come from
AzureML itself, so that nothing of a job but its log lines depends on what happens here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from aml_train.core.errors import ServiceError
from aml_train.core.events import Listener, Notice
from aml_train.jobs.logs.follow import LogAddress
from aml_train.jobs.workspace import JobService, StorageUnreachableError

#: Seconds after which a source is tried again that could not be reached: a try may take a time-out.
_AGAIN: Final = 300.0
DEPENDS: Final = "The job's status, gate and model do not depend on its logs."


class LogReader:
    """Reads the logs of one job.

    Args:
        service: both sources.
        job: the job's name.
        listener: is told, once, that a source cannot be reached.
        now: seconds of a clock that only grows.
    """

    def __init__(self, service: JobService, job: str, listener: Listener, now: Callable[[], float]) -> None:
        self._service = service
        self._job = job
        self._listener = listener
        self._now = now
        self._paths: dict[str, str] = {}
        self._problem: StorageUnreachableError | None = None
        self._storage_again = self._service_again = float("-inf")
        self._told: set[str] = set()
        self._final = False

    @property
    def reads_storage(self) -> bool:
        """Whether Blob storage is read: only there is it cheap to ask often."""
        return self._problem is None

    def know(self, logs: Iterable[LogAddress], *, final: bool) -> None:
        """Take the addresses of logs. From a *final* reading on, a source that could not be reached is not tried again."""
        # Each look has new signatures: those of the one before are not kept.
        self._paths = {url: name.path for name, url in logs}
        self._final = final

    def read_log(self, url: str, offset: int) -> Iterator[bytes]:
        """Yield the bytes of the log at *url* from *offset* on; see :meth:`aml_train.jobs.workspace.JobService.read_log`.

        Raises:
            StorageUnreachableError: neither source can be reached; that was told.
            ServiceError: the reading failed otherwise, and may be repeated.
            LogBeganAnewError: see there.
        """
        problem = self._problem
        if problem is None or self._may_try(self._storage_again):
            try:
                for data in self._service.read_log(url, offset):
                    offset += len(data)
                    yield data
            except StorageUnreachableError as error:
                problem = error
            else:
                self._problem = None
                return
            self._problem, self._storage_again = problem, self._now() + _AGAIN
        yield from self._by_service(url, offset, problem)

    def _may_try(self, again: float) -> bool:
        return not self._final and self._now() >= again

    def _by_service(self, url: str, offset: int, problem: StorageUnreachableError) -> Iterator[bytes]:
        refused = self._service_again != float("-inf")
        if refused and not self._may_try(self._service_again):
            raise problem
        try:
            yield from self._service.read_log_by_service(self._job, self._paths[url], offset)
        except ServiceError as error:
            self._service_again = self._now() + _AGAIN
            self._tell(
                "none", f"{problem.message}, and AzureML does not pass them on: {error.message} {DEPENDS}", problem
            )
            raise problem from error
        self._service_again = float("-inf")
        self._tell("service", f"{problem.message}; AzureML's artifact service passes them on instead.", problem)

    def _tell(self, kind: str, text: str, problem: StorageUnreachableError) -> None:
        if kind in self._told:
            return
        self._told.add(kind)
        hint = f" {problem.hint}" if problem.hint else ""
        self._listener(
            Notice(text=f"The logs of the job {self._job} cannot be read from storage: {text}{hint}", level="warning")
        )
