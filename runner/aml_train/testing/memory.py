"""A workspace in memory: jobs, metrics, files and models without any service.

The work of a job is a generator: each look at the job (:meth:`MemoryService.details`) continues it to its next ``yield``. Nothing waits,
and nothing happens between two looks::

    def training(job: MemoryJob) -> Iterator[None]:
        job.say("epoch 1")
        yield
        job.log_metric("accuracy", 0.9)
        job.write("outputs/model.txt", b"weights")

    service = MemoryService(training=training)

The adapters of Azure keep the same promises: ``tests/contracts/job_service.py`` has them.
"""

from __future__ import annotations

import datetime
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from aml_train.config.sections.targets import ClusterConfig
from aml_train.config.sections.watch import RESUME_INPUT
from aml_train.core.errors import RefusedError, ServiceError
from aml_train.core.tags import Tag
from aml_train.core.threads import CancelToken
from aml_train.gate.history import MetricPoint, last_value
from aml_train.gate.logged import SCALAR, TABLE, Logged, LoggedRow, LoggedSet
from aml_train.jobs.composed import ChildView
from aml_train.jobs.data import DataFile, DataIdentity, DataSource, identity_of
from aml_train.jobs.identity import Identity, job_identity
from aml_train.jobs.placement import NodeKind, Placement
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, LogBeganAnewError, ModelView, NewModel
from aml_train.models.register import is_same_model

_FROM_JOB: Final = re.compile(r"azureml://jobs/([^/]+)/")
_OUTPUT: Final = re.compile(r"azureml://jobs/([^/]+)/outputs/([^/]+)/?")

CLUSTER: Final = ClusterConfig(name="cpu-cluster", size="Standard_DS3_v2", max_nodes=4)
"""The cluster that a new workspace has."""

LOG: Final = "user_logs/std_log.txt"
"""The log with a job's output, as in AzureML."""


class TrainingFailedError(Exception):
    """Raised by a training to end its job as Failed.

    Args:
        message: the service's explanation.
        codes: its codes, the outermost first.
    """

    def __init__(self, message: str, codes: Sequence[str] = ("UserError",)) -> None:
        super().__init__(message)
        self.message = message
        self.codes = tuple(codes)


@dataclass
class MemoryJob:
    """One job: what its training logs and writes, and what a test finds of it.

    Attributes:
        spec: what was submitted.
        tags: the job's tags, as they were at the last look.
    """

    spec: JobSpec
    tags: Mapping[str, str] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    metrics: dict[str, list[MetricPoint]] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    outputs: dict[str, dict[str, bytes]] = field(default_factory=dict)
    doing: Iterator[None] | None = field(default=None, repr=False)

    def say(self, text: str, path: str = LOG) -> None:
        """Write a line to a log."""
        self.logs[path] = self.logs.get(path, b"") + f"{text}\n".encode()

    def log_metric(self, name: str, value: float, step: int = 0) -> None:
        """Log one value of a metric, a millisecond after the one before."""
        points = self.metrics.setdefault(name, [])
        points.append(MetricPoint(step=step, value=value, timestamp=len(points)))

    def log_parameter(self, name: str, value: str) -> None:
        """Log a parameter, as ``mlflow.log_param`` does."""
        self.parameters[name] = value

    def log_row(self, table: str, **columns: Any) -> None:
        """Log a row, as ``Run.log_row`` of azureml-core does."""
        self.tables.setdefault(table, []).append(columns)

    def write(self, path: str, content: bytes) -> None:
        """Write a file among the artefacts."""
        self.artifacts[path] = content

    def write_output(self, output: str, path: str, content: bytes) -> None:
        """Write a file into a named output."""
        self.outputs.setdefault(output, {})[path] = content


Training = Callable[[MemoryJob], Iterator[None]]
"""The work of a job, up to each ``yield`` at one look at it. :class:`TrainingFailedError` ends it as Failed."""


#: Of a job that a test put there itself.
_UNKNOWN: Final = JobSpec(name="unknown", document={}, directory=Path(), code=None, images={}, fingerprint="")


def nothing(_job: MemoryJob) -> Iterator[None]:
    """Complete at the first look."""
    yield from ()


def _utc() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _type_of(value: object) -> str:
    """Return the service's word for the type of a column with such a value."""
    return "double" if isinstance(value, int | float) and not isinstance(value, bool) else "string"


@dataclass
class MemoryService:
    """A workspace in memory.

    Attributes:
        training: what each job does.
        computes: the clusters that there are, by name; jobs on others are refused.
        fault: raised by every method, as a sign-in that is refused or an outage would be; None for none.
        now: the service's clock.
        jobs: every job as it is shown, in the order of submission. A job that a test puts there itself stays as it is.
        work: what the jobs that were submitted did, by their names.
        identities: what each job is, by its name; nothing for one that a test put there.
        registered: every version of a model, in the order of registration.
        data: the files of data: address → name of a file → its ETag; data of other addresses never change.
        any_compute: whether jobs on other computes are taken, too.
        latest: the versions that ``@latest`` means: kind and name → version; models of :attr:`registered` need none.
    """

    training: Training = nothing
    computes: dict[str, ClusterConfig] = field(default_factory=lambda: {CLUSTER.name: CLUSTER})
    fault: ServiceError | None = None
    now: Callable[[], datetime.datetime] = _utc
    jobs: dict[str, JobView] = field(default_factory=dict)
    work: dict[str, MemoryJob] = field(default_factory=dict)
    identities: dict[str, Identity] = field(default_factory=dict)
    registered: list[ModelView] = field(default_factory=list)
    latest: dict[tuple[str, str], str] = field(default_factory=dict)
    data: dict[str, dict[str, str]] = field(default_factory=dict)
    any_compute: bool = False
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def _answer(self) -> None:
        if self.fault is not None:
            raise self.fault

    def _job(self, name: str) -> JobView:
        self._answer()
        if name not in self.jobs:
            raise ServiceError(f"The job {name} is not in the workspace.", hint="It may have been deleted.")
        return self.jobs[name]

    def _work(self, name: str) -> MemoryJob:
        self._job(name)
        return self.work.get(name) or MemoryJob(spec=_UNKNOWN)

    def find(self, name: str) -> JobView | None:
        """See :meth:`aml_train.jobs.workspace.Workspace.find`."""
        self._answer()
        return self.jobs.get(name)

    def details(self, name: str) -> JobView:
        """Return the job, which continues to its next ``yield``."""
        with self._lock:
            view = self._job(name)
            if name in self.work and not view.status.terminal:
                view = self.jobs[name] = self._advance(view, self.work[name])
        files = {path: f"memory:{name}/{path}" for path in self._work(name).logs}
        return replace(view, log_files=files, observed=self.now())

    def _advance(self, view: JobView, job: MemoryJob) -> JobView:
        if view.status is JobStatus.CANCEL_REQUESTED:
            return replace(view, status=JobStatus.CANCELED, ended=self.now())
        job.tags = view.tags
        if job.doing is None:
            job.doing = self.training(job)
            view = replace(view, status=JobStatus.RUNNING, started=self.now())
        try:
            next(job.doing)
        except StopIteration:
            return replace(view, status=JobStatus.COMPLETED, ended=self.now())
        except TrainingFailedError as failure:
            return replace(
                view, status=JobStatus.FAILED, error=failure.message, codes=failure.codes, ended=self.now()
            )
        return view

    def identity(self, name: str, *, sdk: str = "v2", files: bool = False) -> Identity:
        """See :meth:`aml_train.jobs.workspace.Workspace.identity`."""
        self._job(name)
        return self.identities.get(name, Identity(parts={}))

    def children(self, name: str) -> Sequence[ChildView]:
        """See :meth:`aml_train.jobs.workspace.Workspace.children`. Command jobs have none."""
        self._job(name)
        return ()

    def root_of(self, name: str) -> str | None:
        """See :meth:`aml_train.jobs.workspace.Workspace.root_of`."""
        self._answer()
        return name if name in self.jobs else None

    def results_run(self, name: str) -> str:
        """See :meth:`aml_train.jobs.workspace.Workspace.results_run`."""
        self._answer()
        return name

    def live_jobs(self, tag: str) -> Sequence[JobView]:
        """See :meth:`aml_train.jobs.workspace.Workspace.live_jobs`."""
        return [view for view in self.tagged_jobs(tag) if not view.status.terminal]

    def tagged_jobs(self, tag: str) -> Iterator[JobView]:
        """See :meth:`aml_train.jobs.workspace.Workspace.tagged_jobs`."""
        self._answer()
        return iter([view for view in reversed(self.jobs.values()) if tag in view.tags])

    def tag(self, name: str, tags: Mapping[str, str]) -> None:
        """See :meth:`aml_train.jobs.workspace.Workspace.tag`."""
        with self._lock:
            view = self._job(name)
            self.jobs[name] = replace(view, tags={**view.tags, **tags})

    def latest_version(self, kind: Literal["data", "models"], name: str) -> str | None:
        """See :meth:`aml_train.jobs.workspace.Workspace.latest_version`."""
        if kind == "models" and (versions := self.models(name)):
            return versions[0].version
        self._answer()
        return self.latest.get((kind, name))

    def identify_data(self, sources: Sequence[DataSource]) -> Sequence[DataIdentity]:
        """See :meth:`aml_train.jobs.workspace.Workspace.identify_data`."""
        self._answer()
        return [self._identity(one.path) for one in sources]

    def _identity(self, path: str) -> DataIdentity:
        if match := _OUTPUT.fullmatch(path):
            job = self.work.get(match[1])
            wrote = job.outputs.get(match[2], {}) if job is not None else {}
            files = {name: repr(content) for name, content in wrote.items()}
        else:
            files = self.data.get(path, {"": path})
        if not files:
            return DataIdentity(problem=f"there is nothing at {path}")
        return identity_of(DataFile(name=name, size=1, tag=tag, modified=tag) for name, tag in files.items())

    def submit(self, job: JobSpec, submission: CancelToken) -> JobView:
        """See :meth:`aml_train.jobs.workspace.Workspace.submit`."""
        self._answer()
        document = job.document
        compute = str(document.get("compute") or "").removeprefix("azureml:").rpartition("/")[2]
        if compute and compute not in self.computes and not self.any_compute:
            raise RefusedError(f"Submitting the job {job.name}: there is no compute {compute!r} in the workspace.")
        if not document.get("command"):
            raise RefusedError(f"Submitting the job {job.name}: the job has no command.")
        submission.commit()
        with self._lock:
            if (found := self.jobs.get(job.name)) is not None:
                if found.properties.get(Tag.FINGERPRINT) != job.fingerprint:
                    raise RefusedError(f"Submitting the job {job.name}: there is another job of that name.")
                return found
            inputs = document.get("inputs") or {}
            view = JobView(
                name=job.name,
                status=JobStatus.QUEUED,
                inputs={
                    name: str(one["path"])
                    for name, one in inputs.items()
                    if isinstance(one, Mapping) and "path" in one
                },
                parameters={name: str(one) for name, one in inputs.items() if not isinstance(one, Mapping)},
                experiment=str(document.get("experiment_name") or "Default"),
                tags={str(key): str(value) for key, value in (document.get("tags") or {}).items()},
                properties={str(key): str(value) for key, value in (document.get("properties") or {}).items()},
                variables=dict(document.get("environment_variables") or {}),
                created=self.now(),
                placement=Placement(
                    compute=compute or None, nodes=int((document.get("resources") or {}).get("instance_count") or 1)
                ),
            )
            self.jobs[job.name] = view
            self.work[job.name] = MemoryJob(spec=job)
            named, listed = job_identity(job), job_identity(job, files=True)
            parts = {part: names | listed.parts[part] for part, names in named.parts.items()}
            self.identities[job.name] = Identity(parts=parts)
            return view

    def resubmit(
        self, name: str, new: str, *, tags: Mapping[str, str], submission: CancelToken, checkpoints: str = ""
    ) -> JobView:
        """See :meth:`aml_train.jobs.workspace.Workspace.resubmit`."""
        view = self._job(name)
        submission.commit()
        with self._lock:
            if (found := self.jobs.get(new)) is not None:
                if found.tags.get(Tag.RESUBMITTED) != name:
                    raise RefusedError(f"Submitting the job {name} again: there is another job {new}.")
                return found
            self.jobs[new] = replace(
                view,
                name=new,
                status=JobStatus.QUEUED,
                tags={**view.tags, Tag.RESUBMITTED: name, **tags},
                inputs={**view.inputs, **({RESUME_INPUT: checkpoints} if checkpoints else {})},
                error=None,
                codes=(),
                created=self.now(),
                started=None,
                ended=None,
            )
            self.work[new] = MemoryJob(spec=replace(self._work(name).spec, name=new))
            parts = dict(self.identities.get(name, Identity(parts={})).parts)
            if checkpoints:
                parts[f"inputs.{RESUME_INPUT}"] = frozenset((checkpoints,))
            self.identities[new] = Identity(parts=parts)
            return self.jobs[new]

    def cancel(self, name: str) -> bool:
        """Request its cancellation: it ends at the next look."""
        self._answer()
        with self._lock:
            if (view := self.jobs.get(name)) is None:
                return False
            if not view.status.terminal:
                self.jobs[name] = replace(view, status=JobStatus.CANCEL_REQUESTED)
        return True

    def read_log(self, url: str, offset: int) -> Iterator[bytes]:
        """See :meth:`aml_train.jobs.workspace.Workspace.read_log`."""
        self._answer()
        name, _, path = url.removeprefix("memory:").partition("/")
        content = self._work(name).logs.get(path, b"")
        if len(content) < offset:
            raise LogBeganAnewError(f"the log has {len(content)} bytes, of which {offset} were read")
        return iter([content[offset:]] if content[offset:] else [])

    def read_log_by_service(self, name: str, path: str, offset: int) -> Iterator[bytes]:
        """See :meth:`aml_train.jobs.workspace.Workspace.read_log_by_service`."""
        content = self._work(name).logs.get(path, b"")[offset:]
        return iter([content] if content else [])

    def node_kind(self, placement: Placement) -> NodeKind:
        """Return the size of the nodes; how many GPUs it has is not known."""
        self._answer()
        cluster = self.computes.get(placement.compute or "")
        size = placement.size or (cluster.size if cluster is not None else None)
        return NodeKind(size=size, spot=placement.spot, problem="" if size else "the compute is not there")

    def waiting_reason(self, placement: Placement) -> str:
        """Return nothing: no job waits here."""
        self._answer()
        return ""

    def last_metrics(self, name: str) -> Mapping[str, float]:
        """See :meth:`aml_train.jobs.workspace.Workspace.last_metrics`."""
        return {metric: last_value(points) for metric, points in self._work(name).metrics.items()}

    def logged_parameters(self, name: str) -> Mapping[str, str]:
        """See :meth:`aml_train.jobs.workspace.Workspace.logged_parameters`."""
        return dict(self._work(name).parameters)

    def metric_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        """See :meth:`aml_train.jobs.workspace.Workspace.metric_history`."""
        return list(self._work(name).metrics.get(metric, ()))

    def logged(self, name: str, *, known: Collection[str], first: Sequence[str] = ()) -> LoggedSet:
        """See :meth:`aml_train.jobs.workspace.Workspace.logged`."""
        job = self._work(name)
        found = [
            Logged(
                name=metric,
                kind=SCALAR,
                columns={metric: "double"},
                rows=[LoggedRow(data={metric: point.value}, step=point.step) for point in points],
            )
            for metric, points in job.metrics.items()
            if metric not in known
        ]
        for table, rows in job.tables.items():
            columns = {column: _type_of(value) for row in rows for column, value in row.items()}
            found.append(Logged(name=table, kind=TABLE, columns=columns, rows=[LoggedRow(data=row) for row in rows]))
        return LoggedSet(metrics=tuple(found))

    def artifact_paths(self, name: str, path: str) -> Iterator[str]:
        """See :meth:`aml_train.jobs.workspace.Workspace.artifact_paths`."""
        wanted = path.strip("/")
        job = self._work(name)
        files = sorted({*job.artifacts, *job.logs})
        return iter([file for file in files if not wanted or file == wanted or file.startswith(f"{wanted}/")])

    def output_paths(self, name: str, output: str) -> Iterator[str]:
        """See :meth:`aml_train.jobs.workspace.Workspace.output_paths`."""
        return iter(sorted(self._work(name).outputs.get(output, ())))

    def has_artifact(self, name: str, path: str) -> bool:
        """See :meth:`aml_train.jobs.workspace.Workspace.has_artifact`."""
        return any(True for _ in self.artifact_paths(name, path))

    def read_artifact(self, name: str, path: str, *, most: int) -> bytes | None:
        """See :meth:`aml_train.jobs.workspace.Workspace.read_artifact`."""
        job = self._work(name)
        content = {**job.logs, **job.artifacts}.get(path.strip("/"))
        return None if content is None else content[: most + 1]

    def models(self, name: str) -> Sequence[ModelView]:
        """See :meth:`aml_train.jobs.workspace.Workspace.models`."""
        self._answer()
        return [model for model in reversed(self.registered) if model.name == name]

    def register(self, model: NewModel) -> ModelView:
        """See :meth:`aml_train.jobs.workspace.Workspace.register`."""
        with self._lock:
            for found in self.models(model.name):
                if found.version == model.version:
                    if not is_same_model(found, model.tags):
                        raise ServiceError(
                            f"Registering the model {model.name}: the version {model.version} is another model."
                        )
                    return found
            view = ModelView(
                name=model.name,
                version=model.version,
                path=model.path,
                type=model.type,
                description=model.description,
                tags=dict(model.tags),
                properties=dict(model.properties),
                created=self.now().isoformat(),
                job=match[1] if (match := _FROM_JOB.match(model.path)) else None,
            )
            self.registered.append(view)
            return view
