"""Read what a job logged beside its numbers until it has settled, and make tables of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Protocol

from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.core.tables import Table
from aml_train.gate import MOST_BYTES, LoggedSet, columns_of, file_of, is_json, tables_of

_READS: Final = 6
_MOST_FILES: Final = 10


class Logs(Protocol):
    """The part of a job service that is needed here."""

    def logged(self, name: str, *, known: Collection[str], first: Sequence[str] = ()) -> LoggedSet:
        """See :meth:`aml_train.jobs.workspace.JobService.logged`."""

    def read_artifact(self, name: str, path: str, *, most: int) -> bytes | None:
        """See :meth:`aml_train.jobs.workspace.JobService.read_artifact`."""


def settle_logged(
    service: Logs, job: str, *, known: Collection[str], wanted: Sequence[str], clock: Clock, pause: float
) -> LoggedSet:
    """Read what an ended job logged beside its numbers until two reads agree, six times at most.

    A job that logged nothing of the kind is asked once, unless a rule waits for a name that nobody knows.

    Args:
        known: the metrics that MLflow has.
        wanted: names that rules need and MLflow does not have.
        pause: seconds between two reads.

    Raises:
        ServiceError: the service does not answer.
    """
    found = service.logged(job, known=known, first=wanted)
    for attempt in range(1, _READS):
        if not wanted and not found.metrics:
            return found
        clock.sleep(pause)
        previous, found = found, service.logged(job, known=known, first=wanted)
        series = columns_of(found).series
        if found == previous and (attempt > 1 or all(name in series for name in wanted)):
            break
    return found


def read_tables(service: Logs, job: str, found: LoggedSet) -> tuple[tuple[Table, ...], int, str]:
    """Return what was logged as tables, how many more there are, and a sentence where files could not be read."""
    remark = ""
    contents: dict[str, bytes | None] = {}
    files = [path for metric in found.metrics if is_json(metric) and (path := file_of(metric, job)) is not None]
    for path in files[:_MOST_FILES]:
        try:
            contents[path] = service.read_artifact(job, path, most=MOST_BYTES)
        except ServiceError as error:
            remark = f"What the job logged in {path} is not shown: {error.message}"
    tables, more = tables_of(found, job, contents)
    return tables, more, remark
