"""Pipelines and sweeps: nodes, trials, the best trial, whose metrics count. Pure."""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from aml_train.jobs.states import JobStatus

JobKind = Literal["command", "pipeline", "sweep"]
COMPOSED: Final = ("pipeline", "sweep")
"""Kinds of jobs that have children."""

TRIALS: Final = "trials"
"""The metric of a sweep that counts the trials that completed."""

FAILED_TRIALS: Final = "failed-trials"
"""The metric of a sweep that counts the trials that failed; those that were ended early are none of them."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The metric that a sweep is about, and its direction."""

    metric: str
    maximize: bool

    def best(self, values: Iterable[float]) -> float | None:
        """Return the best of a trial's values; None without any."""
        known = [value for value in values if not math.isnan(value)]
        return None if not known else max(known) if self.maximize else min(known)

    def is_better(self, value: float, than: float) -> bool:
        """Return whether *value* is better."""
        return value > than if self.maximize else value < than


@dataclass(frozen=True, kw_only=True)
class ChildView:
    """The run of a pipeline's node, or of a sweep's trial.

    Attributes:
        name: the run's id.
        node: the node's name; that of a trial.
        status: as of a job.
        kind: what it is; a node may be a sweep, or a pipeline component.
        reused_from: the earlier run whose outputs it has; None if it ran itself.
        objective: of a sweep.
        reported_best: the best trial of a sweep, as the service says.
        parameters: the hyperparameters of a trial.
        error: the service's explanation of a failure, if it gave one.
        compute: what it runs on, if that is known.
        nodes: how many nodes it runs on.
    """

    name: str
    node: str
    status: JobStatus
    kind: JobKind = "command"
    reused_from: str | None = None
    objective: Objective | None = None
    reported_best: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    compute: str | None = None
    nodes: int = 1
    started: datetime.datetime | None = None
    ended: datetime.datetime | None = None

    @property
    def source(self) -> str:
        """The run that has its metrics, logs and outputs."""
        return self.reused_from or self.name


def best_trial(
    trials: Sequence[ChildView], values: Mapping[str, Sequence[float]], objective: Objective
) -> tuple[ChildView, float] | None:
    """Return the best completed trial and its value; None if none logged the metric.

    Of equal ones the first counts.

    Args:
        trials: all trials, in order.
        values: trial → all values of the primary metric.
        objective: metric and direction.
    """
    best: tuple[ChildView, float] | None = None
    for trial in trials:
        value = objective.best(values.get(trial.name, ())) if trial.status is JobStatus.COMPLETED else None
        if value is not None and (best is None or objective.is_better(value, best[1])):
            best = (trial, value)
    return best


def disagreement(
    reported: str | None, best: tuple[ChildView, float], values: Mapping[str, Sequence[float]], objective: Objective
) -> str | None:
    """Return why the reported best trial is not the best one; None if it is.

    Another trial with the same value is as good.
    """
    if reported is None or reported == best[0].name:
        return None
    value = objective.best(values.get(reported, ()))
    if value is not None and value == best[1]:
        return None
    said = "no value" if value is None else f"{value:g}"
    return (
        f"AzureML reports the trial {reported} as the best ({objective.metric}: {said}), "
        f"and {best[0].name} has {best[1]:g}"
    )


def counted(trials: Sequence[ChildView]) -> dict[str, float]:
    """Return the metrics of a sweep that count its trials."""
    return {
        TRIALS: float(sum(trial.status is JobStatus.COMPLETED for trial in trials)),
        FAILED_TRIALS: float(sum(trial.status not in (JobStatus.COMPLETED, JobStatus.CANCELED) for trial in trials)),
    }


def of_nodes(own: Mapping[str, float], nodes: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the metrics of a pipeline: ``NODE/METRIC``, and unique bare names.

    Args:
        own: what was logged to the pipeline's run itself.
        nodes: the metrics of each node.
    """
    return {name: nodes[node][metric] if node else own[metric] for name, (node, metric) in owners(own, nodes).items()}


def owners(own: Collection[str], nodes: Mapping[str, Collection[str]]) -> dict[str, tuple[str, str]]:
    """Return whose metric each name is: name → (node, metric).

    The node is empty for the pipeline itself. A name that several of them claim is missing.
    """
    claims: dict[str, list[tuple[str, str]]] = {name: [("", name)] for name in own}
    for node, metrics in nodes.items():
        for metric in metrics:
            claims.setdefault(f"{node}/{metric}", []).append((node, metric))
            claims.setdefault(metric, []).append((node, metric))
    return {name: claim[0] for name, claim in claims.items() if len(set(claim)) == 1}


def ambiguous(name: str, known: Collection[str]) -> list[str]:
    """Return the full names among *known* that the bare *name* could mean."""
    return sorted(one for one in known if one.endswith(f"/{name}"))


def unfinished(
    nodes: Collection[str], children: Sequence[ChildView], allowed: Collection[str]
) -> list[tuple[str, str]]:
    """Return the nodes that had to complete and did not, each with its state.

    Args:
        nodes: the names of all nodes of the graph; empty if only the service knows them.
        children: the runs of the graph.
        allowed: nodes that may fail, or may not run.
    """
    found: dict[str, list[ChildView]] = {name: [] for name in nodes}
    for child in children:
        found.setdefault(child.node, []).append(child)
    states = {name: _state(runs) for name, runs in found.items() if name not in allowed}
    return [(name, state) for name, state in states.items() if state != JobStatus.COMPLETED.value]


def _state(runs: Sequence[ChildView]) -> str:
    """Return the state of a node: of its first run that did not complete."""
    bad = [run.status.value for run in runs if run.status is not JobStatus.COMPLETED]
    return bad[0] if bad else JobStatus.COMPLETED.value if runs else "missing"
