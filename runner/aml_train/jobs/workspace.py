"""What the pipeline asks of a job service: a Protocol. Adapters are the modules ``azure*.py``."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from aml_train.core.errors import ServiceError
from aml_train.core.tags import TAG_JOB, TAG_STAGE
from aml_train.core.threads import CancelToken
from aml_train.gate import LoggedSet, MetricPoint
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.states import JobStatus


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What a job asks to run on: so many *nodes* of *compute*; serverless jobs name a VM *size* instead, and may want *spot* nodes."""

    compute: str | None = None
    nodes: int = 1
    size: str | None = None
    spot: bool = False


@dataclass(frozen=True, kw_only=True)
class NodeKind:
    """What kind of nodes a job runs on: VM *size*, number of *gpus*, tier. None for what is not known; *problem* says why."""

    size: str | None = None
    gpus: int | None = None
    spot: bool = False
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job as the service shows it at one moment.

    Attributes:
        log_files: path of each log → an address that can be read by ranges; it holds for about an hour.
        error: the service's explanation of a failure, if it gave one.
        inputs: name → path of each input that is data.
        parameters: name → value of each input that is a literal.
        codes: the code of that error and the codes of its inner errors, the outermost first.
        created, started, ended: when, by the service's clock.
        observed: when the service answered, by its clock.
        placement: what the job asks to run on, where that is known.
    """

    name: str
    status: JobStatus
    experiment: str | None = None
    studio_url: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    log_files: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    started: datetime.datetime | None = None
    ended: datetime.datetime | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    codes: tuple[str, ...] = ()
    created: datetime.datetime | None = None
    observed: datetime.datetime | None = None
    placement: Placement | None = None


@dataclass(frozen=True, kw_only=True)
class ModelView:
    """One version of a registered model.

    Attributes:
        stage: AzureML's own field, where somebody set it; ask :attr:`staged`.
        created: when it was registered, as the service writes it; empty where that is not known.
        properties: what was written down at its registration, and cannot be changed as tags can.
        job: the job that AzureML names as its origin; ask :attr:`origin`.
    """

    name: str
    version: str
    path: str
    stage: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    type: str = ""
    description: str | None = None
    created: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    job: str | None = None

    @property
    def origin(self) -> str | None:
        """The job that made it: our tag's, else the one that AzureML names, as of a model that azureml-core registered; None for none."""
        return self.tags.get(TAG_JOB) or self.job

    @property
    def staged(self) -> str | None:
        """The stage that the version is in, in lower case: our tag's, else AzureML's own field's; None for none."""
        stage = self.tags.get(TAG_STAGE) or self.stage
        return stage.lower() if stage else None


@dataclass(frozen=True, kw_only=True)
class NewModel:
    """A model version to be registered. *path* is an ``azureml://jobs/…`` URI."""

    name: str
    version: str
    path: str
    type: str
    description: str | None
    tags: Mapping[str, str]
    properties: Mapping[str, str]


class StorageUnreachableError(ServiceError):
    """Blob storage cannot be reached from here at all: it hangs, refuses, has no address, or its firewall forbids it."""


class LogBeganAnewError(Exception):
    """A log is another blob than before, or shorter than what was read of it: its job may have been started again."""


class JobService(Protocol):
    """A workspace's jobs, metrics and models.

    Every method raises :class:`aml_train.core.errors.ServiceError` (exit code 8) when the service refuses or stays away.
    """

    def prepare(self, sdk: str = "v2") -> None:
        """Load what :meth:`submit` will need for a job of that *sdk*. May run in another thread, early."""

    def find(self, name: str) -> JobView | None:
        """Return the job with its status and tags, without logs; None where there is none of that name."""

    def details(self, name: str) -> JobView:
        """Return the job's status, logs and error."""

    def live_jobs(self, tag: str) -> Sequence[JobView]:
        """Return the jobs that carry *tag*, whatever its value, and have not ended; the newest first."""

    def tagged_jobs(self, tag: str) -> Iterator[JobView]:
        """Yield the jobs that carry *tag*, whatever its value and however they ended; the newest first, as they are needed."""

    def tag(self, name: str, tags: Mapping[str, str]) -> None:
        """Add *tags* to a job; one that it has gets the new value, and the others stay."""

    def latest_version(self, kind: Literal["data", "models"], name: str) -> str | None:
        """Return the version that ``@latest`` of a data asset or a model means now; None where there is none of that name."""

    def submit(self, job: JobSpec, submission: CancelToken) -> JobView:
        """Submit *job*. Where the answer is lost, the job is looked up by its name.

        *submission* is told before the request that makes the job leaves, and may call it off from another thread.
        """

    def submit_again(self, name: str, new: str, *, tags: Mapping[str, str], submission: CancelToken) -> JobView:
        """Submit the job *name* once more as *new*, with *tags* beside its own; otherwise as :meth:`submit`."""

    def cancel(self, name: str) -> bool:
        """Ask the service, once and with short time-outs, to cancel the job.

        Returns True when it has taken note, or the job has ended; False where there is no job of that name.
        """

    def read_log(self, url: str, offset: int) -> Iterator[bytes]:
        """Yield the bytes of a log from *offset* on, as far as they are written.

        Raises:
            LogBeganAnewError: before the first byte; told once of each new blob.
            StorageUnreachableError: storage cannot be reached from here.
        """

    def read_log_by_service(self, name: str, path: str, offset: int) -> Iterator[bytes]:
        """Yield the bytes of the job's log *path* from *offset* on, by way of AzureML where its storage cannot be reached.

        A log that is shorter than *offset* has nothing more. It costs more than :meth:`read_log`.
        """

    def node_kind(self, placement: Placement) -> NodeKind:
        """Return what kind of nodes *placement* means; what cannot be found out is None, and why is said."""

    def waiting_reason(self, placement: Placement) -> str:
        """Return in a sentence why a job of *placement* waits; empty where nothing is told."""

    def last_metrics(self, name: str) -> Mapping[str, float]:
        """Return every metric's last value."""

    def metric_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        """Return every recorded value of one metric, in the service's order."""

    def logged(self, name: str, *, known: Collection[str], first: Sequence[str] = ()) -> LoggedSet:
        """Return what the job logged beside the numbers of *known* metrics: rows, tables, lists, texts and files, as azureml-core logs them.

        Names that *first* means, or columns of, are read before the others: there is a bound to what is read.
        """

    def artifact_paths(self, name: str, path: str) -> Iterator[str]:
        """Yield the files that the job wrote at or below *path* among its artefacts, as they are needed."""

    def output_paths(self, name: str, output: str) -> Iterator[str]:
        """Yield the files of a named output of the job, relative to it, as they are needed.

        A single file is its own name.
        """

    def has_artifact(self, name: str, path: str) -> bool:
        """Tell whether the job wrote *path*, a file or a folder, among its artefacts."""

    def read_artifact(self, name: str, path: str, *, most: int) -> bytes | None:
        """Return one file that the job wrote among its artefacts; None where it wrote none there.

        At most *most* bytes and one more are read, so that the caller sees a file that is too large.
        """

    def models(self, name: str) -> Sequence[ModelView]:
        """Return every version of a model, newest first; none where the model does not exist."""

    def register(self, model: NewModel) -> ModelView:
        """Register a model version."""
