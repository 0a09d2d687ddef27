"""A job service in memory, for tests of what stands above the Protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from aml_train.errors import ServiceError
from aml_train.gate.history import MetricPoint
from aml_train.jobs.job import JobSpec
from aml_train.jobs.logged import Logged, LoggedSet
from aml_train.jobs.service import JobView, LogBeganAnewError, ModelView, NewModel, NodeKind, Placement
from aml_train.jobs.states import JobStatus
from aml_train.jobs.submission import Submission


@dataclass
class FakeClock:
    """A clock that moves only when somebody sleeps."""

    time: float = 0.0
    sleeps: list[float] = field(default_factory=list)
    on_sleep: Callable[[float], None] | None = None

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.time += seconds
        if self.on_sleep:
            self.on_sleep(self.time)


@dataclass
class FakeService:
    """Jobs walk through *script*, one status a look; metrics and artefacts are given.

    *history_of* are jobs of former times that have completed: name → metrics. *logged_as* is what jobs logged in azureml-core's own forms.
    """

    script: Sequence[JobStatus | Exception] = (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.COMPLETED)
    metrics: Mapping[str, Sequence[float]] = field(default_factory=dict)
    history_of: dict[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    logged_as: Mapping[str, Sequence[Logged]] = field(default_factory=dict)
    artifacts: Sequence[str] = ()
    outputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    log: bytes = b""
    logs: dict[str, bytes] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    sizes: Mapping[str, str | Exception] = field(default_factory=dict)
    error: str | None = None
    codes: Sequence[str] = ()
    jobs: dict[str, JobView] = field(default_factory=dict)
    registered: list[ModelView] = field(default_factory=list)
    submitted: list[JobSpec] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    cancel_answers: list[BaseException | None] = field(default_factory=list)
    tag_answers: list[ServiceError | None] = field(default_factory=list)
    latest: Mapping[tuple[str, str], str] = field(default_factory=dict)
    on_submit: Callable[[JobSpec], None] | None = None
    nodes: NodeKind = field(default_factory=lambda: NodeKind(size="Standard_NC6s_v3", gpus=1))
    waits: str = ""
    placements: list[Placement] = field(default_factory=list)
    dates: dict[str, Any] = field(default_factory=dict)
    slow_cancel: bool = False
    log_fails: bool = False
    looks: int = 0
    prepared: int = 0

    def prepare(self, sdk: str = "v2") -> None:
        self.prepared += 1

    def find(self, name: str) -> JobView | None:
        if name in self.history_of:
            return self.jobs.get(name) or JobView(name=name, status=JobStatus.COMPLETED)
        return self.jobs.get(name)

    def details(self, name: str) -> JobView:
        view = self.jobs[name]
        if not view.status.final:
            step = self.script[min(self.looks, len(self.script) - 1)]
            self.looks += 1
            if isinstance(step, BaseException):
                raise step
            failed = step is JobStatus.FAILED
            view = replace(
                view, status=step, error=self.error if failed else None, codes=tuple(self.codes) if failed else ()
            )
            self.jobs[name] = view
        files = {"user_logs/std_log.txt": f"fake://{name}"} if self.log else {}
        files |= {path: f"log:{path}" for path in self.logs}
        return replace(view, log_files=files, **self.dates)

    def live_jobs(self, tag: str) -> Sequence[JobView]:
        return [view for view in self.jobs.values() if tag in view.tags and not view.status.terminal]

    def tagged_jobs(self, tag: str) -> Iterator[JobView]:
        return (view for view in reversed(list(self.jobs.values())) if tag in view.tags)

    def tag(self, name: str, tags: Mapping[str, str]) -> None:
        if self.tag_answers and (answer := self.tag_answers.pop(0)) is not None:
            raise answer
        self.jobs[name] = replace(self.jobs[name], tags={**self.jobs[name].tags, **tags})

    def latest_version(self, kind: Literal["data", "models"], name: str) -> str | None:
        return self.latest.get((kind, name))

    def submit(self, job: JobSpec, submission: Submission) -> JobView:
        if self.on_submit:
            self.on_submit(job)
        submission.leave()
        self.submitted.append(job)
        view = JobView(name=job.name, status=JobStatus.QUEUED, experiment="e", tags=job.document["tags"])
        self.jobs[job.name] = view
        return view

    def submit_again(self, name: str, new: str, *, tags: Mapping[str, str], submission: Submission) -> JobView:
        submission.leave()
        view = replace(self.jobs[name], name=new, status=JobStatus.QUEUED, tags={**self.jobs[name].tags, **tags})
        self.again.append(new)
        self.jobs[new] = view
        return view

    def cancel(self, name: str) -> bool:
        self.cancelled.append(name)
        answer = self.cancel_answers.pop(0) if self.cancel_answers else None
        if isinstance(answer, BaseException):
            raise answer
        if name not in self.jobs:
            return False
        if not self.slow_cancel:
            self.jobs[name] = replace(self.jobs[name], status=JobStatus.CANCELED)
        return True

    def read_log(self, url: str, offset: int) -> Iterator[bytes]:
        if self.log_fails:
            raise ServiceError("The log could not be read: storage answered 503", transient=True)
        whole = self.logs[url.removeprefix("log:")] if url.startswith("log:") else self.log
        if len(whole) < offset or (offset and url.removeprefix("log:") in self.replaced):
            self.replaced.discard(url.removeprefix("log:"))
            raise LogBeganAnewError("shorter")
        data = whole[offset:]
        for start in range(0, len(data), 7):
            yield data[start : start + 7]

    def vm_size(self, compute: str) -> str | None:
        size = self.sizes.get(compute)
        if isinstance(size, Exception):
            raise size
        return size

    def node_kind(self, placement: Placement) -> NodeKind:
        self.placements.append(placement)
        return self.nodes

    def waiting_reason(self, placement: Placement) -> str:
        return self.waits

    def last_metrics(self, name: str) -> Mapping[str, float]:
        return {key: values[-1] for key, values in self.history_of.get(name, self.metrics).items()}

    def metric_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        found = self.history_of.get(name, self.metrics).get(metric, ())
        return [MetricPoint(step=i, value=v, timestamp=i) for i, v in enumerate(found)]

    def logged(self, name: str, *, known: Collection[str], first: Sequence[str] = ()) -> LoggedSet:
        return LoggedSet(metrics=tuple(self.logged_as.get(name, ())))

    def artifact_paths(self, name: str, path: str) -> Iterator[str]:
        yield from (item for item in self.artifacts if item == path or item.startswith(f"{path}/"))

    def output_paths(self, name: str, output: str) -> Iterator[str]:
        yield from self.outputs.get(output, ())

    def has_artifact(self, name: str, path: str) -> bool:
        return any(item == path or item.startswith(f"{path}/") for item in self.artifacts)

    def read_artifact(self, name: str, path: str, *, most: int) -> bytes | None:
        return None if path not in self.files else self.files[path][: most + 1]

    def models(self, name: str) -> Sequence[ModelView]:
        return [model for model in reversed(self.registered) if model.name == name]

    def register(self, model: NewModel) -> ModelView:
        view = ModelView(
            name=model.name, version=model.version, path=model.path, tags=model.tags, properties=model.properties
        )
        self.registered.append(view)
        return view


def lost(message: str = "no answer") -> ServiceError:
    """An outage."""
    return ServiceError(message, transient=True)


NAN = math.nan
