"""The interface of a workspace, and its values."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

from aml_train.config.job.model import MOST_NESTED
from aml_train.config.yaml.shapes import nearest
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.tags import Tag
from aml_train.core.threads import CancelToken
from aml_train.gate.history import MetricPoint
from aml_train.gate.logged import LoggedSet
from aml_train.jobs.composed import ChildView, JobKind, Objective
from aml_train.jobs.data import DataIdentity, DataSource
from aml_train.jobs.identity import Identity
from aml_train.jobs.placement import NodeKind, Placement
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.states import JobStatus


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job as the service shows it at one moment.

    >>> Workspace.open().job(run(load_config()).job.name).status.value
    'Completed'

    Attributes:
        properties: what was written down at its submission, and cannot be changed as tags can.
        studio_url: its page in the studio, or on the page of the local AzureML.
        log_files: path of each log → an address that can be read by ranges; it holds for about an hour.
        error: the service's explanation of a failure, if it gave one.
        inputs: name → path of each input that is data.
        parameters: name → value of each input that is a literal.
        variables: the environment variables that the job was given.
        codes: the code of that error and the codes of its inner errors, the outermost first.
        created, started, ended: when, by the service's clock.
        restarted: when its last attempt began, of a job that the service itself put back into its queue.
        observed: when the service answered, by its clock.
        placement: what the job asks to run on, where that is known.
        kind: what kind of job it is; None where the answer does not say.
        objective: what a sweep is about.
        reported_best: the best trial of a sweep, as the service says.
        needs: of a pipeline: node → the nodes whose outputs it reads.
    """

    name: str
    status: JobStatus
    experiment: str | None = None
    studio_url: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    log_files: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    started: datetime.datetime | None = None
    ended: datetime.datetime | None = None
    restarted: datetime.datetime | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    codes: tuple[str, ...] = ()
    created: datetime.datetime | None = None
    observed: datetime.datetime | None = None
    placement: Placement | None = None
    kind: JobKind | None = None
    objective: Objective | None = None
    reported_best: str | None = None
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ModelView:
    """One version of a registered model.

    >>> run(load_config()).model.name
    'digits'

    Attributes:
        stage: AzureML's own field, if it was set; use :attr:`staged`.
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
        """The job that made it, as was written down at its registration; or None.

        AzureML names a node's run where a pipeline wrote it. Tags, which can be changed, count for the versions of others.
        """
        return self.properties.get(Tag.JOB) or self.job or self.tags.get(Tag.JOB)

    @property
    def staged(self) -> str | None:
        """The version's stage in lower case: our tag's, else AzureML's; or None.

        ``Development`` is AzureML's stage of each version for which nobody has set one, as recorded in March 2026
        (Azure/azure-sdk-assets, ``test_models_get_latest_label``).
        """
        own = (self.stage or "").lower()
        return (self.tags.get(Tag.STAGE) or "").lower() or (own if own != "development" else "") or None


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
    """Blob storage is unreachable: no address, no answer, refused, or firewalled."""


class LogBeganAnewError(Exception):
    """A log is another blob or shorter than before: its job may have restarted."""


class Workspace(Protocol):
    """A workspace: its jobs, metrics, files and models, and the kind of its nodes.

    The metrics of a pipeline are its nodes', as ``NODE/METRIC``, and by their bare names if only one node logged them; its files are below
    ``NODE/``. Those of a sweep are its best trial's, and the numbers of its trials.

    Every method raises :class:`aml_train.core.errors.ServiceError` (exit code 8) when the service refuses or does not answer.
    """

    def find(self, name: str) -> JobView | None:
        """Return the job with its status and tags, without logs; None for an unknown name."""

    def identity(self, name: str, *, sdk: str = "v2", files: bool = False) -> Identity:
        """Return what the job is, as its definition says, which no one can change.

        A job of the SDK *sdk* is read in the way that it was submitted; with *files* its code is known by its files, too.
        """

    def details(self, name: str) -> JobView:
        """Return the job's status, logs and error."""

    def children(self, name: str) -> Sequence[ChildView]:
        """Return the runs of a pipeline's nodes or a sweep's trials, the oldest first."""

    def results_run(self, name: str) -> str:
        """Return the run with a job's results: a sweep's best trial, else the job."""

    def root_of(self, name: str) -> str | None:
        """Return the outermost job of a run, which may be itself; None if unknown."""

    def live_jobs(self, tag: str) -> Sequence[JobView]:
        """Return the jobs with *tag* that have not ended; newest first."""

    def tagged_jobs(self, tag: str) -> Iterator[JobView]:
        """Yield the jobs with *tag*, of any status; newest first, on demand."""

    def tag(self, name: str, tags: Mapping[str, str]) -> None:
        """Add *tags* to a job; one that it has gets the new value, and the others stay."""

    def submit(self, job: JobSpec, submission: CancelToken) -> JobView:
        """Submit *job*. If the answer is lost, the job is looked up by its name.

        *submission* is notified before the request that creates the job leaves, and may call it off from another thread.
        """

    def resubmit(
        self, name: str, new: str, *, tags: Mapping[str, str], submission: CancelToken, checkpoints: str = ""
    ) -> JobView:
        """Submit the job *name* again as *new* with *tags*, as :meth:`submit` does.

        *checkpoints* is the address of its input ``resume``; the input stays as it is where that is empty.
        """

    def cancel(self, name: str) -> bool:
        """Request the job's cancellation once, with short time-outs.

        Returns True when it has taken note, or the job has ended; False where there is no job of that name.
        """

    def read_log(self, url: str, offset: int) -> Iterator[bytes]:
        """Yield the bytes of a log from *offset* on, as far as they are written.

        Raises:
            LogBeganAnewError: before the first byte; once for each new blob.
            StorageUnreachableError: storage cannot be reached from here.
        """

    def read_log_by_service(self, name: str, path: str, offset: int) -> Iterator[bytes]:
        """Yield a log's bytes from *offset* on, through AzureML if storage is unreachable.

        A log that is shorter than *offset* has nothing more. It costs more than :meth:`read_log`.
        """

    def last_metrics(self, name: str) -> Mapping[str, float]:
        """Return every metric's last value."""

    def logged_parameters(self, name: str) -> Mapping[str, str]:
        """Return the parameters that the job logged, as with ``mlflow.log_param``."""

    def metric_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        """Return every recorded value of one metric, in the service's order."""

    def logged(self, name: str, *, known: Collection[str], first: Sequence[str] = ()) -> LoggedSet:
        """Return what azureml-core logged besides *known* metrics, such as tables.

        Names that *first* means, or columns of, are read before the others: there is a bound to what is read.
        """

    def artifact_paths(self, name: str, path: str) -> Iterator[str]:
        """Yield the files at or below *path* among the job's artefacts, on demand.

        An empty path means all of them.
        """

    def output_paths(self, name: str, output: str) -> Iterator[str]:
        """Yield a named output's files, relative to it; a single file is its own name."""

    def has_artifact(self, name: str, path: str) -> bool:
        """Return whether the job wrote *path*, a file or a folder, among its artefacts."""

    def read_artifact(self, name: str, path: str, *, most: int) -> bytes | None:
        """Return one file of the job's artefacts; None if it wrote none there.

        At most *most* bytes and one more are read, so that the caller sees a file that is too large.
        """

    def models(self, name: str) -> Sequence[ModelView]:
        """Return every version of a model, newest first; none for an unknown model."""

    def register(self, model: NewModel) -> ModelView:
        """Register a model version."""

    def latest_version(self, kind: Literal["data", "models"], name: str) -> str | None:
        """Return the version that ``@latest`` of an asset means; None if unknown."""

    def identify_data(self, sources: Sequence[DataSource]) -> Sequence[DataIdentity]:
        """Return what the data at each of *sources* are now, read in parallel.

        Data that cannot be listed within bounds are not identified, and no error.
        """

    def node_kind(self, placement: Placement) -> NodeKind:
        """Return the kind of nodes of *placement*; None for unknown parts, and why."""

    def waiting_reason(self, placement: Placement) -> str:
        """Return a sentence that says why a job of *placement* waits; empty if unknown."""


def descendants(service: Workspace, name: str, before: str = "", depth: int = 0) -> Iterator[ChildView]:
    """Yield the children of a job, and of pipelines among them as ``OUTER/INNER``.

    Raises:
        ServiceError: the service does not answer, or pipelines are within each other without an end.
    """
    if depth > MOST_NESTED:
        raise ServiceError(f"AzureML shows more than {MOST_NESTED} pipelines within each other in {name}.")
    for child in service.children(name):
        yield replace(child, node=before + child.node)
        if child.kind == "pipeline":
            yield from descendants(service, child.source, f"{before}{child.node}/", depth + 1)


_NEWEST: Final = 100


def seconds_of(run: JobView | ChildView, now: datetime.datetime | None = None) -> float | None:
    """Return how long a job ran, or has been running at *now*; None if it did not begin, or its end is not known."""
    ended = run.ended or (None if run.status.terminal else now)
    return max(0.0, (ended - run.started).total_seconds()) if run.started and ended else None


def no_job(tagged_jobs: Callable[[str], Iterator[JobView]], name: str) -> InvalidError:
    """Return the error for a job that is not in the workspace; its hint names the one that may be meant."""
    newest = itertools.islice(tagged_jobs(Tag.VERSION), _NEWEST)
    near = nearest(name, tuple(view.name for view in newest))
    meant = f"Did you mean {near}? " if near else ""
    return InvalidError(f"There is no job {name} in the workspace.", hint=f"{meant}See: aml-train jobs list")


def wrote(service: Workspace, job: str, run: str) -> bool:
    """Return whether *run* is a node or trial of *job*, or was reused for one.

    Raises:
        ServiceError: the service does not answer.
    """
    for child in descendants(service, job):
        if run in (child.name, child.source):
            return True
        if child.kind == "sweep" and any(run == trial.name for trial in service.children(child.source)):
            return True
    return False
