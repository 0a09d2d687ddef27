"""A workspace in memory whose jobs are pipelines or sweeps; what their nodes logged is read by the product's own adapter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from aml_train.azure.composed import ComposedJobs, Parts
from aml_train.core.threads import CancelToken
from aml_train.gate.history import MetricPoint
from aml_train.jobs.composed import ChildView, JobKind, Objective
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.workspace import JobView
from tests.support.fake_workspace import FakeService


@dataclass
class GraphService(FakeService):
    """A workspace whose jobs have parts.

    Attributes:
        kind: of every job that is submitted.
        parts: the children of jobs and nodes, by the names of these; those of a job that is submitted are at ``""``.
        logged_to: run → metric → values.
        roots: run → the job that it belongs to in the end.
        objective: what sweeps are about.
        reported_best: what the service says of a sweep.
        listed: how often children were listed.
        read: the runs whose metrics were read, in order.
    """

    kind: JobKind = "pipeline"
    parts: Mapping[str, Sequence[ChildView]] = field(default_factory=dict)
    logged_to: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)
    objective: Objective | None = None
    reported_best: str | None = None
    listed: int = 0
    read: list[str] = field(default_factory=list)

    @cached_property
    def composed(self) -> ComposedJobs:
        """What is known of pipelines and sweeps."""
        return ComposedJobs(self)

    def _shown(self, view: JobView) -> JobView:
        composed = view.name not in self.history_of
        view = replace(
            view,
            kind=self.kind if composed else "command",
            objective=self.objective,
            reported_best=self.reported_best,
        )
        self.composed.seen(view, {})
        return view

    def submit(self, job: JobSpec, submission: CancelToken) -> JobView:
        # The service in memory asks each job for a command.
        return self._shown(super().submit(replace(job, document={**job.document, "command": "x"}), submission))

    def find(self, name: str) -> JobView | None:
        found = super().find(name)
        return None if found is None else self._shown(found)

    def details(self, name: str) -> JobView:
        if name not in self.jobs:
            return replace(JobView(name=name, status=self._child(name).status), error=self._child(name).error)
        view = super().details(name)
        if view.status.final:
            self.composed.has_ended(name)
        return view

    def _child(self, run: str) -> ChildView:
        return next(one for children in self.parts.values() for one in children if run in (one.name, one.source))

    def children(self, name: str) -> Sequence[ChildView]:
        self.listed += 1
        return self.composed.named(name, self.parts.get(name, self.parts.get("", ()) if name in self.jobs else ()))

    def root_of(self, name: str) -> str | None:
        return self.roots.get(name)

    def results_run(self, name: str) -> str:
        parts = self._parts(name)
        return name if parts is None else parts.run

    def _parts(self, name: str) -> Parts | None:
        return self.composed.parts(name) if name in self.jobs or name in self.parts else None

    def own_metrics(self, name: str) -> Mapping[str, float]:
        self.read.append(name)
        if name in self.history_of:
            return super().last_metrics(name)
        return {metric: values[-1] for metric, values in self.logged_to.get(name, {}).items() if values}

    def own_parameters(self, name: str) -> Mapping[str, str]:
        return {}

    def own_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        self.read.append(name)
        if name in self.history_of:
            return super().metric_history(name, metric)
        values = self.logged_to.get(name, {}).get(metric, ())
        return [MetricPoint(step=step, value=value, timestamp=step) for step, value in enumerate(values)]

    def last_metrics(self, name: str) -> Mapping[str, float]:
        parts = self._parts(name)
        return self.own_metrics(name) if parts is None else parts.last_metrics()

    def logged_parameters(self, name: str) -> Mapping[str, str]:
        return {}

    def metric_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        parts = self._parts(name)
        return self.own_history(name, metric) if parts is None else parts.metric_history(metric)

    def artifact_paths(self, name: str, path: str) -> Iterator[str]:
        return iter([path])
