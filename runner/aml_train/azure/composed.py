"""Pipelines and sweeps in run history, and the results of their nodes.

The properties are those of published runs of Azure (https://learn.microsoft.com/azure/machine-learning/how-to-tune-hyperparameters,
https://learn.microsoft.com/azure/machine-learning/how-to-debug-pipeline-reuse-issues) and of azure-ai-ml 1.35.1
(``operations/_run_operations.py``, ``_job_ops_helper.py``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from aml_train.azure.http import AzureHttp
from aml_train.config.job.model import MOST_NESTED
from aml_train.core.answers import Answer
from aml_train.core.errors import GateFailedError, ServiceError
from aml_train.gate.history import MetricPoint
from aml_train.jobs.composed import ChildView, JobKind, Objective, best_trial, counted, disagreement, of_nodes, owners
from aml_train.jobs.states import JobStatus, parse_status
from aml_train.jobs.workspace import JobView

_API: Final = {"api-version": "2022-10-01"}

_OUTPUT: Final = re.compile(r"\$\{\{parent\.jobs\.([^.{}]{1,255})\.outputs")
"""An input that is another node's output: azure-ai-ml's data binding expressions."""

KINDS: Final[Mapping[str, JobKind]] = {"command": "command", "pipeline": "pipeline", "sweep": "sweep"}
"""Types of jobs in Azure Resource Manager, in lower case."""


def objective_of(properties: Answer) -> Objective | None:
    """Return the objective of a sweep, from its job or run; None for others."""
    metric = properties.optional_text("objective.primaryMetric")
    if metric is not None:
        return Objective(metric=metric, maximize=properties.text("objective.goal").lower() == "maximize")
    try:
        found = json.loads(properties.texts("properties").get("primary_metric_config") or "null")
        return Objective(metric=str(found["name"]), maximize=str(found["goal"]).lower().startswith("max"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def labels_of(properties: Answer) -> dict[str, str]:
    """Return the names of a pipeline's nodes by the names that their runs show."""
    return {node.optional_text("display_name") or name: name for name, node in properties.members("jobs")}


def needs_of(properties: Answer) -> dict[str, tuple[str, ...]]:
    """Return the nodes whose outputs each node of a pipeline reads, by its name."""
    found = {}
    for name, node in properties.members("jobs"):
        texts = re.findall(_OUTPUT, json.dumps(node.at("inputs").value, ensure_ascii=False))
        found[name] = tuple(dict.fromkeys(texts))
    return found


def node_environments(
    rest: AzureHttp, nodes: Iterable[tuple[str, Answer]], what: str, before: str = "", depth: int = 0
) -> Iterator[tuple[str, str | None]]:
    """Yield each node of a pipeline with its environment's id; None if unknown.

    A node's environment is that of its component, unless the node names another. Nodes of pipeline components are ``OUTER/INNER``.

    Raises:
        ServiceError: the service does not answer, or pipelines are within each other without an end.
    """
    if depth > MOST_NESTED:
        raise ServiceError(f"{what}: it has more than {MOST_NESTED} pipelines within each other.")
    for name, node in nodes:
        environment = node.optional_text("environment")
        component = node.optional_text("componentId") or node.optional_text("trial.componentId") or ""
        component = component.removeprefix("azureml:")
        found = None
        if environment is None and component.startswith("/subscriptions/"):
            found = rest.read(f"{rest.cloud.arm}{component}", what, params=_API)
        if found is not None:
            inner = found.at("properties.componentSpec")
            if inner.has("jobs"):
                yield from node_environments(rest, inner.members("jobs"), what, f"{before}{name}/", depth + 1)
                continue
            environment = inner.optional_text("environment")
        yield before + name, environment


def child_view(run: Answer) -> ChildView:
    """Read the run of a node or trial."""
    properties = run.texts("properties")
    label = run.optional_text("displayName") or run.text("runId")
    reused = properties.get("azureml.isreused", "").lower() == "true"
    return ChildView(
        name=run.text("runId"),
        node=label,
        status=parse_status(run.optional_text("status")),
        kind=_kind(run),
        reused_from=properties.get("azureml.reusedrunid") if reused else None,
        objective=objective_of(run),
        reported_best=properties.get("best_child_run_id"),
        parameters=_hyperparameters(properties.get("hyperparameters")),
        error=run.optional_text("error.error.message"),
        compute=run.optional_text("target"),
        nodes=run.whole("computeRequest.nodeCount") or 1,
        started=run.time("startTimeUtc"),
        ended=run.time("endTimeUtc"),
    )


def _kind(run: Answer) -> JobKind:
    word = (run.optional_text("runType") or "").lower()
    if "pipelinerun" in word:
        return "pipeline"
    return "sweep" if "sweep" in word or "hyperdrive" in word else "command"


def _hyperparameters(text: str | None) -> dict[str, str]:
    try:
        found = json.loads(text or "null")
    except (ValueError, RecursionError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


class Runs(Protocol):
    """The parts of a workspace that pipelines and sweeps are read with."""

    @property
    def composed(self) -> ComposedJobs:
        """Facts about pipelines and sweeps."""

    def find(self, name: str) -> JobView | None:
        """See :meth:`Workspace.find`; it calls :meth:`ComposedJobs.seen`."""

    def children(self, name: str) -> Sequence[ChildView]:
        """See :meth:`Workspace.children`."""

    def own_metrics(self, name: str) -> Mapping[str, float]:
        """Return the last values of what was logged to one run."""

    def own_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        """Return every value of a metric of one run."""

    def own_parameters(self, name: str) -> Mapping[str, str]:
        """Return the parameters that were logged to one run."""

    def last_metrics(self, name: str) -> Mapping[str, float]:
        """See :meth:`Workspace.last_metrics`."""

    def metric_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        """See :meth:`Workspace.metric_history`."""

    def logged_parameters(self, name: str) -> Mapping[str, str]:
        """See :meth:`Workspace.logged_parameters`."""


class ComposedJobs:
    """Knows which jobs are pipelines and sweeps, and reads what their parts logged.

    Args:
        rest: the workspace.
    """

    def __init__(self, rest: Runs) -> None:
        self._rest = rest
        self._views: dict[str, JobView | ChildView] = {}
        self._labels: dict[str, Mapping[str, str]] = {}
        self._stale: set[str] = set()
        self._commands: set[str] = set()
        self._parts: dict[str, Parts] = {}

    def seen(self, view: JobView, labels: Mapping[str, str]) -> None:
        """Remember a job, and the names of its nodes by those that their runs show."""
        self._views[view.name], self._labels[view.name] = view, labels
        self._stale.discard(view.name)

    def has_ended(self, name: str) -> None:
        """Note that a job has ended: what is known of it from before is looked up again, such as its best trial."""
        known = self._views.get(name)
        if known is not None and not known.status.final and known.kind != "command":
            self._stale.add(name)

    def named(self, name: str, views: Sequence[ChildView]) -> list[ChildView]:
        """Return the children of a run under the names of their nodes, and remember them."""
        labels = self._labels.get(name, {})
        self._views |= {view.source: view for view in views}
        self._stale -= {view.source for view in views}
        return [replace(view, node=labels.get(view.node, view.node)) for view in views]

    def parts(self, name: str) -> Parts | None:
        """Return the parts of a pipeline or sweep; None for another job.

        Raises:
            ServiceError: the service does not answer.
            GateFailedError: AzureML reports another trial as the best than the one that is.
        """
        if name in self._stale or (name not in self._views and name not in self._commands):
            # Nothing is known of it in this process; a run without a job is no pipeline.
            self._rest.find(name)
        known = self._views.get(name)
        if known is None or known.kind in (None, "command"):
            self._commands.add(name)
            return None
        if name in self._parts:
            return self._parts[name]
        made: Parts
        if known.kind == "pipeline":
            made = _Pipeline(self._rest, name)
        else:
            made = _Sweep(self._rest, name, known.objective, known.reported_best)
        if known.status.final and name not in self._stale:
            self._parts[name] = made
        return made

    def place(self, name: str, path: str) -> tuple[str, str, str]:
        """Return the place of a job's file."""
        parts = self.parts(name)
        return ("", name, path) if parts is None else parts.place(path)


class _Pipeline:
    """The results of a pipeline's nodes: of those that completed.

    ``place`` returns where a file is: the beginning of its path, the run, the rest.
    """

    def __init__(self, rest: Runs, name: str) -> None:
        self.run = name
        self._rest = rest
        completed = (child for child in rest.children(name) if child.status is JobStatus.COMPLETED)
        self._nodes = {child.node: child for child in completed}
        self._owners: Mapping[str, tuple[str, str]] | None = None

    def last_metrics(self) -> Mapping[str, float]:
        own = self._rest.own_metrics(self.run)
        nodes = {node: self._rest.last_metrics(child.source) for node, child in self._nodes.items()}
        self._owners = owners(own, nodes)
        return of_nodes(own, nodes)

    def metric_history(self, metric: str) -> Sequence[MetricPoint]:
        if self._owners is None or metric not in self._owners:
            self.last_metrics()  # A metric may arrive after the last reading.
        owner = (self._owners or {}).get(metric)
        if owner is None:
            return ()
        node, name = owner
        if not node:
            return self._rest.own_history(self.run, name)
        return self._rest.metric_history(self._nodes[node].source, name)

    def logged_parameters(self) -> Mapping[str, str]:
        found = dict(self._rest.own_parameters(self.run))
        for node, child in self._nodes.items():
            found |= {f"{node}/{name}": value for name, value in self._rest.logged_parameters(child.source).items()}
        return found

    def place(self, path: str) -> tuple[str, str, str]:
        node, _, rest = path.strip("/").partition("/")
        if node not in self._nodes:
            return "", self.run, path
        prefix, run, inner = self._rest.composed.place(self._nodes[node].source, rest)
        return f"{node}/{prefix}", run, inner


class _Sweep:
    """The results of a sweep's best trial, and the numbers of its trials."""

    def __init__(self, rest: Runs, name: str, objective: Objective | None, reported: str | None) -> None:
        if objective is None:
            raise ServiceError(f"AzureML does not say what the sweep {name} is about: it shows no primary metric.")
        self._rest = rest
        self._name, self._objective, self._reported = name, objective, reported
        self._trials = rest.children(name)
        self._choose()
        self._new = True

    def _choose(self) -> None:
        """Find the best trial, and compare it with the one that AzureML reports."""
        metric = self._objective.metric
        completed = [trial.name for trial in self._trials if trial.status is JobStatus.COMPLETED]
        values = {trial: [point.value for point in self._rest.own_history(trial, metric)] for trial in completed}
        best = best_trial(self._trials, values, self._objective)
        wrong = None if best is None else disagreement(self._reported, best, values, self._objective)
        if wrong is not None:
            raise GateFailedError(
                f"The best trial of the sweep {self._name} is not clear: {wrong}.",
                hint="Nothing is registered. Look at the trials' metrics, and gate it again: aml-train attach.",
            )
        self.best = None if best is None else best[0]
        self.run = self._name if best is None else best[0].name

    def last_metrics(self) -> Mapping[str, float]:
        if not self._new:
            self._choose()  # Values may arrive after the end of a trial.
        self._new = False
        of_best = {} if self.best is None else self._rest.own_metrics(self.run)
        return {**of_best, **counted(self._trials)}

    def metric_history(self, metric: str) -> Sequence[MetricPoint]:
        numbers = counted(self._trials)
        if metric in numbers:
            return (MetricPoint(step=0, value=numbers[metric], timestamp=0),)
        return () if self.best is None else self._rest.own_history(self.run, metric)

    def logged_parameters(self) -> Mapping[str, str]:
        if self.best is None:
            return {}
        return {**self.best.parameters, **self._rest.own_parameters(self.run)}

    def place(self, path: str) -> tuple[str, str, str]:
        return "", self.run, path


Parts = _Pipeline | _Sweep
"""The results of a pipeline or sweep, which its nodes or trials have; *run* is the one whose tables are its own."""
