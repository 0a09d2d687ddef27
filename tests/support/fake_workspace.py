"""A job service in memory, for tests of what stands above the Protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aml_train.core.errors import ServiceError
from aml_train.core.threads import CancelToken
from aml_train.gate.history import MetricPoint
from aml_train.gate.logged import Logged, LoggedSet
from aml_train.jobs.placement import NodeKind, Placement
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, LogBeganAnewError, StorageUnreachableError
from aml_train.testing.memory import MemoryService


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
class FakeService(MemoryService):
    """A workspace in memory that plays what it is told: jobs walk through *script*, one status a look; metrics and artefacts are given, and faults.

    Submitting, tagging, finding, cancelling and registering are those of the workspace in memory, which the suite of the job service holds
    to the promises that Azure's adapters keep.

    *history_of* are jobs of former times that have completed: name → metrics; *logged_by* is the parameters that jobs logged. *logged_as* is what jobs logged in azureml-core's own forms.
    """

    script: Sequence[JobStatus | Exception] = (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.COMPLETED)
    metrics: Mapping[str, Sequence[float]] = field(default_factory=dict)
    history_of: dict[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    logged_by: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    logged_as: Mapping[str, Sequence[Logged]] = field(default_factory=dict)
    artifacts: Sequence[str] = ()
    outputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    log: bytes = b""
    logs: dict[str, bytes] = field(default_factory=dict)
    replaced: set[str] = field(default_factory=set)
    error: str | None = None
    codes: Sequence[str] = ()
    submitted: list[JobSpec] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    cancel_answers: list[BaseException | None] = field(default_factory=list)
    tag_answers: list[ServiceError | None] = field(default_factory=list)
    on_submit: Callable[[JobSpec], None] | None = None
    nodes: NodeKind | Exception = field(default_factory=lambda: NodeKind(size="Standard_NC6s_v3", gpus=1))
    waits: str = ""
    placements: list[Placement] = field(default_factory=list)
    dates: dict[str, Any] = field(default_factory=dict)
    slow_cancel: bool = False
    log_fails: bool = False
    unreachable: bool = False
    by_service: ServiceError | None = None
    looks: int = 0

    def find(self, name: str) -> JobView | None:
        if name in self.history_of:
            return self.jobs.get(name) or JobView(name=name, status=JobStatus.COMPLETED)
        return super().find(name)

    def details(self, name: str) -> JobView:
        view = self.find(name) or self.jobs[name]
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

    def tag(self, name: str, tags: Mapping[str, str]) -> None:
        if self.tag_answers and (answer := self.tag_answers.pop(0)) is not None:
            raise answer
        super().tag(name, tags)

    def submit(self, job: JobSpec, submission: CancelToken) -> JobView:
        if self.on_submit:
            self.on_submit(job)
        view = super().submit(job, submission)
        self.submitted.append(job)
        return view

    def resubmit(
        self, name: str, new: str, *, tags: Mapping[str, str], submission: CancelToken, checkpoints: str = ""
    ) -> JobView:
        view = super().resubmit(name, new, tags=tags, submission=submission, checkpoints=checkpoints)
        self.again.append(new)
        return view

    def cancel(self, name: str) -> bool:
        self.cancelled.append(name)
        answer = self.cancel_answers.pop(0) if self.cancel_answers else None
        if isinstance(answer, BaseException):
            raise answer
        before = self.jobs.get(name)
        taken = super().cancel(name)
        if before is not None and not before.status.terminal:
            self.jobs[name] = before if self.slow_cancel else replace(before, status=JobStatus.CANCELED)
        return taken

    def read_log_by_service(self, name: str, path: str, offset: int) -> Iterator[bytes]:
        if self.by_service is not None:
            raise self.by_service
        yield (self.logs.get(path) or self.log)[offset:]

    def read_log(self, url: str, offset: int) -> Iterator[bytes]:
        if self.unreachable:
            raise StorageUnreachableError(
                "x.blob.core.windows.net does not answer (ConnectTimeout)", hint="Check it."
            )
        if self.log_fails:
            raise ServiceError("The log could not be read: storage answered 503", transient=True)
        whole = self.logs[url.removeprefix("log:")] if url.startswith("log:") else self.log
        if len(whole) < offset or (offset and url.removeprefix("log:") in self.replaced):
            self.replaced.discard(url.removeprefix("log:"))
            raise LogBeganAnewError("shorter")
        data = whole[offset:]
        for start in range(0, len(data), 7):
            yield data[start : start + 7]

    def node_kind(self, placement: Placement) -> NodeKind:
        self.placements.append(placement)
        if isinstance(self.nodes, Exception):
            raise self.nodes
        return self.nodes

    def waiting_reason(self, placement: Placement) -> str:
        return self.waits

    def last_metrics(self, name: str) -> Mapping[str, float]:
        return {key: values[-1] for key, values in self.history_of.get(name, self.metrics).items()}

    def logged_parameters(self, name: str) -> Mapping[str, str]:
        return self.logged_by.get(name, {})

    def metric_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        found = self.history_of.get(name, self.metrics).get(metric, ())
        return [MetricPoint(step=i, value=v, timestamp=i) for i, v in enumerate(found)]

    def logged(self, name: str, *, known: Collection[str], first: Sequence[str] = ()) -> LoggedSet:
        return LoggedSet(metrics=tuple(self.logged_as.get(name, ())))

    def artifact_paths(self, name: str, path: str) -> Iterator[str]:
        yield from (item for item in self.artifacts if not path or item == path or item.startswith(f"{path}/"))

    def output_paths(self, name: str, output: str) -> Iterator[str]:
        yield from self.outputs.get(output, ())

    def has_artifact(self, name: str, path: str) -> bool:
        return any(item == path or item.startswith(f"{path}/") for item in self.artifacts)

    def read_artifact(self, name: str, path: str, *, most: int) -> bytes | None:
        return None if path not in self.files else self.files[path][: most + 1]


def lost(message: str = "no answer") -> ServiceError:
    """An outage."""
    return ServiceError(message, transient=True)


NAN = math.nan
