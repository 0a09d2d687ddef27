"""The states of an AzureML job: one enum, and one complete mapping from the service's words. docs/states.md lists them.

Source of the words: ``JobStatus`` of the AzureML REST API (Microsoft.MachineLearningServices, mfe.json, 2025-12-01), ``RunStatus``
of run history (``azureml/mlflow/_restclient/run_artifact``), and azure-ai-ml's ``operations/_run_history_constants.py``. How a job
that ended is told, is in :mod:`aml_train.jobs.endings`.
"""

from __future__ import annotations

import enum
from typing import Final

from aml_train.core.errors import ServiceError


class JobStatus(enum.Enum):
    """Every status that AzureML gives a job. The value is the service's own word."""

    NOT_STARTED = "NotStarted"
    UNAPPROVED = "Unapproved"
    SCHEDULED = "Scheduled"
    QUEUED = "Queued"
    PREPARING = "Preparing"
    PROVISIONING = "Provisioning"
    STARTING = "Starting"
    RUNNING = "Running"
    FINALIZING = "Finalizing"
    CANCEL_REQUESTED = "CancelRequested"
    PAUSING = "Pausing"
    PAUSED = "Paused"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"
    NOT_RESPONDING = "NotResponding"

    @property
    def terminal(self) -> bool:
        """Whether the job is over. From NotResponding alone AzureML may take it back (see :attr:`final`)."""
        return self in _TERMINAL

    @property
    def final(self) -> bool:
        """Whether the job will not change its status any more."""
        return self.terminal and self is not JobStatus.NOT_RESPONDING

    @property
    def waiting(self) -> bool:
        """Whether the job has not begun to run: it waits for nodes or its image."""
        return self in _WAITING

    @property
    def ending(self) -> bool:
        """Whether the job's end is near: its command is over, or it has been told to stop."""
        return self in (JobStatus.FINALIZING, JobStatus.CANCEL_REQUESTED)

    @property
    def limbo(self) -> bool:
        """Whether nothing is known of what comes next: a watch bears it for a while only."""
        return self in _LIMBO


_TERMINAL: Final = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.NOT_RESPONDING})
_WAITING: Final = frozenset(
    {
        JobStatus.NOT_STARTED,
        JobStatus.UNAPPROVED,
        JobStatus.SCHEDULED,
        JobStatus.QUEUED,
        JobStatus.PREPARING,
        JobStatus.PROVISIONING,
        JobStatus.STARTING,
    }
)
_LIMBO: Final = frozenset({JobStatus.PAUSING, JobStatus.PAUSED, JobStatus.UNKNOWN})
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
