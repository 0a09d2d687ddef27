"""States and endings of AzureML jobs, each ending with its error and remedy. Pure.

docs/states.md has the tables. Source of the words: ``JobStatus`` of the AzureML REST API (Microsoft.MachineLearningServices, mfe.json,
2025-12-01), ``RunStatus`` of run history (``azureml/mlflow/_restclient/run_artifact``), and azure-ai-ml's
``operations/_run_history_constants.py``.

The error of a failed job is an ``ErrorResponse`` of run history: a ``code`` (its generated model names ServiceError, UserError,
ValidationError, AzureStorageError, TransientError, RequestThrottled), a chain of ``innerError`` codes, and a message. Failures of the
cluster are ``UserError`` too; their message begins with ``AzureMLCompute job failed.`` and a word for the cause:

- ``PreemptionError: Nodes of this job got pre-empted.`` (Azure/MachineLearningNotebooks#1242, microsoft/MLOpsPython#346),
- ``FailedPullingImage: Unable to pull docker image`` (Azure/MachineLearningNotebooks#1371, #1479),
- ``AcrRefreshTokenRetrievalError`` (solliancenet/tech-immersion-data-ai#40),
- ``OrchestrateJobError`` (getindata/kedro-azureml#6).

Only that beginning counts: the rest of a message may quote what the job itself printed."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.core.errors import (
    AmlTrainError,
    CancelledError,
    JobFailedError,
    NotRespondingError,
    PreemptedError,
    ServiceError,
)


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
        """Whether the job is over; AzureML may resume NotResponding (see :attr:`final`)."""
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
        """Whether the end is near: the command is over, or is being cancelled."""
        return self in (JobStatus.FINALIZING, JobStatus.CANCEL_REQUESTED)

    @property
    def limbo(self) -> bool:
        """Whether the next state is unknown: a watch tolerates that for a while only."""
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
_STATUS_BY_WORD: Final = {status.value.lower(): status for status in JobStatus} | _SYNONYMS


def parse_status(word: str | None) -> JobStatus:
    """Return the status for the service's *word*.

    Raises:
        ServiceError: if the word is missing or not one we know. An unknown word is never taken for a success.
    """
    status = _STATUS_BY_WORD.get((word or "").lower())
    if status is None:
        raise ServiceError(
            f"AzureML reported the job status {word!r}, which this version does not know.",
            hint="Look at the job in the studio; please report the word so that it can be given a meaning.",
        )
    return status


class Ending(enum.Enum):
    """Every way in which a job ends. The value is the word for it in reports."""

    COMPLETED = "completed"
    SCRIPT = "script-failed"
    OUT_OF_MEMORY = "out-of-memory"
    USER = "user-error"
    IMAGE_PULL = "image-pull-failed"
    IMAGE_UNREACHABLE = "image-registry-unreachable"
    QUOTA = "no-quota"
    PREEMPTED = "preempted"
    SERVICE = "service-error"
    UNEXPLAINED = "failed"
    CANCELLED = "cancelled"
    NOT_RESPONDING = "not-responding"


@dataclass(frozen=True, kw_only=True)
class Consequence:
    """The consequence of an ending: the error's class, its text, and a remedy."""

    error: type[AmlTrainError] | None
    says: str
    remedy: str


CONSEQUENCES: Final = {
    Ending.COMPLETED: Consequence(error=None, says="completed", remedy="none is needed: the gate decides"),
    Ending.SCRIPT: Consequence(
        error=JobFailedError,
        says="failed: its command ended with exit code {exit_code}",
        remedy="Correct what the last lines of its log show, and run again.",
    ),
    Ending.OUT_OF_MEMORY: Consequence(
        error=JobFailedError,
        says="failed: its command was killed, with exit code {exit_code}",
        remedy="The memory ran out, as a rule: use smaller batches, fewer workers, a larger shm_size or a larger VM size.",
    ),
    Ending.USER: Consequence(
        error=JobFailedError,
        says="failed by its own request",
        remedy="Correct what AzureML complains of: inputs, outputs, identity or settings of the job.",
    ),
    Ending.IMAGE_PULL: Consequence(
        error=JobFailedError,
        says="failed: its nodes could not pull the image",
        remedy="Correct the image's name. In an Azure Container Registry, give the compute's identity the role AcrPull; for another"
        " private registry, make a connection of the workspace with its credentials.",
    ),
    Ending.IMAGE_UNREACHABLE: Consequence(
        error=JobFailedError,
        says="failed: its nodes got no answer from the image's registry, or reached its limit of pulls",
        remedy="Let the compute's network out to that registry (subnet, firewall, DNS, private endpoint), or copy the image into the"
        " workspace's own registry. Docker Hub also limits pulls without sign-in; run again later.",
    ),
    Ending.QUOTA: Consequence(
        error=ServiceError,
        says="failed: there is no quota for its nodes",
        remedy="Ask for more quota (https://learn.microsoft.com/azure/machine-learning/how-to-manage-quotas),"
        " or use another VM size, tier or fewer nodes.",
    ),
    Ending.PREEMPTED: Consequence(
        error=PreemptedError,
        says="was preempted: Azure took its nodes back",
        remedy="Let it be submitted again with `retry: {{preempted: N}}`, write checkpoints, or use dedicated nodes.",
    ),
    Ending.SERVICE: Consequence(
        error=JobFailedError,
        says="failed by a fault of AzureML, not of the job",
        remedy="Run again: the next attempt is submitted. If it stays, look at https://status.azure.com, and ask Azure's support.",
    ),
    Ending.UNEXPLAINED: Consequence(
        error=JobFailedError,
        says="failed",
        remedy="AzureML does not say why: look at the job's logs in the studio, those under system_logs as well.",
    ),
    Ending.CANCELLED: Consequence(
        error=CancelledError, says="was cancelled", remedy="A cancelled job never passes; run again to train."
    ),
    Ending.NOT_RESPONDING: Consequence(
        error=NotRespondingError,
        says="does not answer: AzureML lost contact with it",
        remedy="Its node may have run out of memory or been taken away; run again to start another attempt.",
    ),
}

_CAUSE: Final = re.compile(r"\s*(?:UserError: )?AzureMLCompute job failed\.\s+([A-Za-z]+):")
#: Docker's words for a registry that cannot be reached, or limits pulls: Go's net and net/http
#: (Azure/MachineLearningNotebooks#1371 shows one), and https://docs.docker.com/docker-hub/usage/pulls/. Image pulls alone are looked at.
_NO_ANSWER: Final = re.compile(
    r"client\.timeout|request canceled while waiting|dial tcp|i/o timeout|no such host|tls handshake timeout|connection (?:refused|reset)"
    r"|context deadline exceeded|network is unreachable|temporary failure in name resolution|toomanyrequests|pull rate limit"
    r"|503 service unavailable",
    re.IGNORECASE,
)
_LONGEST_READ: Final = 20_000
_EXIT: Final = re.compile(r"exited with (?:status )?code:? (-?\d{1,10})\b")
_BY_WORD: Final = {
    "preemptionerror": Ending.PREEMPTED,
    "failedpullingimage": Ending.IMAGE_PULL,
    "acrrefreshtokenretrievalerror": Ending.IMAGE_PULL,
    "orchestratejoberror": Ending.SERVICE,
    "commonruntimejoberror": Ending.SERVICE,
}
_BY_CODE: Final = {
    "usererror": Ending.USER,
    "validationerror": Ending.USER,
    "serviceerror": Ending.SERVICE,
    "systemerror": Ending.SERVICE,
    "azurestorageerror": Ending.SERVICE,
    "transienterror": Ending.SERVICE,
    "requestthrottled": Ending.SERVICE,
}
#: How the part of a message begins that quotes logs (:func:`aml_train.jobs.logs.report.quote_logs`).
TRACEBACK_HEADING: Final = "The first traceback"
TAIL_HEADING: Final = "The last lines of"
LOG_HEADINGS: Final = (TRACEBACK_HEADING, TAIL_HEADING)
#: What a shell says of a command that a SIGKILL ended, as the kernel's out-of-memory killer sends it.
_KILLED: Final = 137


def exit_code_of(reason: str | None) -> int | None:
    """Return the exit code of the job's command if the service's explanation names it."""
    match = _EXIT.search(reason or "")
    return int(match[1]) if match else None


def ending_of(status: JobStatus, *, reason: str | None = None, codes: Sequence[str] = ()) -> Ending:
    """Return how a job ended.

    Args:
        status: a terminal status.
        reason: the service's explanation.
        codes: the error's code and the codes of its inner errors, the outermost first.

    Raises:
        ValueError: if *status* is not terminal.
    """
    match status:
        case JobStatus.COMPLETED:
            return Ending.COMPLETED
        case JobStatus.CANCELED:
            return Ending.CANCELLED
        case JobStatus.NOT_RESPONDING:
            return Ending.NOT_RESPONDING
        case JobStatus.FAILED:
            return _failure(reason or "", codes)
        case _:
            raise ValueError(f"{status} is not terminal")


def _failure(reason: str, codes: Sequence[str]) -> Ending:
    cause = _CAUSE.match(reason)
    # The innermost code says most.
    words = [*([cause[1]] if cause else []), *reversed(codes)]
    for word in (word.lower() for word in words):
        if word == "failedpullingimage" and _NO_ANSWER.search(reason[:_LONGEST_READ]):
            return Ending.IMAGE_UNREACHABLE
        if word in _BY_WORD:
            return _BY_WORD[word]
        if "quota" in word:
            return Ending.QUOTA
    outer = _BY_CODE.get(codes[0].lower()) if codes else None
    code = exit_code_of(reason)
    if code is not None and outer is not Ending.SERVICE:
        return Ending.OUT_OF_MEMORY if code == _KILLED else Ending.SCRIPT
    return outer or Ending.UNEXPLAINED


def failure_of(
    status: JobStatus, *, job: str, reason: str | None, tail: str, cause: str = "", codes: Sequence[str] = ()
) -> AmlTrainError | None:
    """Return the error for a terminal *status*, or None for Completed.

    Args:
        status: a terminal status.
        job: the job's name.
        reason: the service's own explanation, if it gave one.
        tail: what its logs say of the failure: the first traceback, and the last lines of each rank, under a heading.
        cause: the exception that explains the failure best; empty if none is known.
        codes: the error's code and the codes of its inner errors, the outermost first.

    Raises:
        ValueError: if *status* is not terminal.
    """
    ending = ending_of(status, reason=reason, codes=codes)
    consequence = CONSEQUENCES[ending]
    if consequence.error is None:
        return None
    says = consequence.says.format(exit_code=exit_code_of(reason))
    log = f"\n{tail}" if tail and ending is not Ending.CANCELLED else ""
    because = f": {_without(reason, log)}" if reason else ""
    if cause and ending is Ending.SCRIPT:
        because = f": {cause}"  # AzureML only says that the command failed
    return consequence.error(f"The job {job} {says}{because}{log}", hint=consequence.remedy.format())


def _without(reason: str, log: str) -> str:
    """Return the service's explanation without the lines that the log shows below it."""
    known = {line.strip() for line in log.splitlines()}
    first, *others = reason.splitlines() or [""]
    kept = [first, *(line for line in others if line.strip() not in known)]
    # A heading of lines that are left out goes with them.
    if len(kept) <= len(others) and kept[-1].rstrip().endswith(":"):
        kept[-1] = kept[-1].rpartition(". ")[0] + "." if ". " in kept[-1] else ""
    return "\n".join(line for line in kept if line)


def headline(message: str) -> str:
    """Return a failed run's message without its log lines."""
    lines = message.splitlines()
    end = next((number for number, line in enumerate(lines) if number and line.startswith(LOG_HEADINGS)), len(lines))
    return "\n".join(lines[:end])
