"""The states of an AzureML job: one enum, and one complete mapping from the service's words.

Source of the words: ``JobStatus`` of the AzureML REST API (Microsoft.MachineLearningServices, mfe.json, 2025-12-01)
and ``RunStatus`` of run history; the two lists are the same but for their order.
"""

from __future__ import annotations

import enum
from typing import Final

from aml_train.errors import (
    AmlTrainError,
    CancelledError,
    JobFailedError,
    NotRespondingError,
    ServiceError,
)


class JobStatus(enum.Enum):
    """Every status that AzureML gives a job. The value is the service's own word."""

    NOT_STARTED = "NotStarted"
    QUEUED = "Queued"
    PREPARING = "Preparing"
    PROVISIONING = "Provisioning"
    STARTING = "Starting"
    RUNNING = "Running"
    FINALIZING = "Finalizing"
    CANCEL_REQUESTED = "CancelRequested"
    PAUSED = "Paused"
    SCHEDULED = "Scheduled"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"
    NOT_RESPONDING = "NotResponding"

    @property
    def terminal(self) -> bool:
        """Whether the job will not change its status any more."""
        return self in _TERMINAL

    @property
    def waiting(self) -> bool:
        """Whether the job has not begun to run: it waits for nodes or its image."""
        return self in _WAITING


_TERMINAL: Final = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.NOT_RESPONDING})
_WAITING: Final = frozenset(
    {
        JobStatus.NOT_STARTED,
        JobStatus.SCHEDULED,
        JobStatus.QUEUED,
        JobStatus.PREPARING,
        JobStatus.PROVISIONING,
        JobStatus.STARTING,
    }
)
# Spellings met in answers of older API versions.
_SYNONYMS: Final = {
    "cancelled": JobStatus.CANCELED,
    "finished": JobStatus.COMPLETED,
    "notresponding": JobStatus.NOT_RESPONDING,
}
_BY_WORD: Final = {status.value.lower(): status for status in JobStatus} | _SYNONYMS


def parse_status(word: str | None) -> JobStatus:
    """Return the status for the service's *word*.

    Raises:
        ServiceError: if the word is missing or not one we know. An unknown word is never taken for a success.
    """
    status = _BY_WORD.get((word or "").lower())
    if status is None:
        raise ServiceError(
            f"AzureML reported the job status {word!r}, which this version does not know.",
            hint="Look at the job in the studio; please report the word so that it can be given a meaning.",
        )
    return status


def failure_of(status: JobStatus, *, job: str, reason: str | None, tail: str) -> AmlTrainError | None:
    """Return the error that a terminal *status* ends the run with, or None for Completed.

    Args:
        status: a terminal status.
        job: the job's name.
        reason: the service's own explanation, if it gave one.
        tail: the last lines of the job's log.

    Raises:
        ValueError: if *status* is not terminal.
    """
    because = f": {reason}" if reason else ""
    log = f"\nThe last lines of its log:\n{tail}" if tail else ""
    match status:
        case JobStatus.COMPLETED:
            return None
        case JobStatus.FAILED:
            return JobFailedError(f"The job {job} failed{because}{log}")
        case JobStatus.CANCELED:
            return CancelledError(f"The job {job} was cancelled{because}", hint="A cancelled job never passes.")
        case JobStatus.NOT_RESPONDING:
            return NotRespondingError(
                f"AzureML lost contact with the job {job}{because}{log}",
                hint="Its node may have run out of memory or been taken away; run again to start another attempt.",
            )
        case _:
            raise ValueError(f"{status} is not terminal")
