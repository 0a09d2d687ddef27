"""Badges of jobs, branches and models: what is looked up, and what they say."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Final

from aml_train.core.badge import Badge, Color
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.tags import TAG_GATE
from aml_train.jobs import JobStatus, JobView, Workspace
from aml_train.pipeline.branch_verdicts import latest_verdict
from aml_train.pipeline.compare import Project, Reference, find_side

#: The gate's word, as it is shown, and its colour.
_GATES: Final[Mapping[str, tuple[str, Color]]] = {
    "passed": ("passed", "green"),
    "failed": ("gate failed", "red"),
    "skipped": ("not judged", "yellow"),
    "none": ("completed", "green"),
}
_STATES: Final[Mapping[JobStatus, tuple[str, Color]]] = {
    JobStatus.COMPLETED: ("completed", "grey"),
    JobStatus.FAILED: ("failed", "red"),
    JobStatus.NOT_RESPONDING: ("failed", "red"),
    JobStatus.CANCELED: ("cancelled", "grey"),
}


def find_badge(
    service: Workspace,
    reference: Reference,
    project: Callable[[], Project],
    *,
    metric: str | None = None,
    label: str | None = None,
) -> Badge:
    """Look up what is named, and return its badge.

    With a metric, its value is the message. Otherwise a job or the last judged run of a branch says its gate's word, a job that was not
    judged its status, and a model its version.

    Args:
        service: the workspace.
        reference: a job, a branch, a model or a stage.
        project: loads the project; called only if the reference needs it.
        metric: the metric whose value is shown.
        label: the label; by default the metric's, branch's or model's name, or ``training``.

    Raises:
        InvalidError: the reference is a file or the baseline, or has no such metric.
        ServiceError: there is none of that name, or the service does not answer.
    """
    if reference.kind in ("file", "baseline"):
        raise InvalidError(
            f"{reference.text!r} has no badge.", hint="Name a job, branch:NAME, model:NAME@STAGE or stage:STAGE."
        )
    if reference.kind in ("job", "branch"):
        view, word = _job(service, reference, project)
        if metric is not None:
            return _of_metric(service.last_metrics(view.name), metric, f"The job {view.name}", label)
        message, color = _state(view, word)
        name = reference.name if reference.kind == "branch" else "training"
        return Badge(label=label or name, message=message, color=color)
    side = find_side(lambda: service, reference, project, now=datetime.datetime.now(datetime.UTC))
    if metric is not None:
        return _of_metric(side.metrics, metric, side.title, label)
    stage = reference.stage or (reference.name if reference.kind == "stage" else "")
    return Badge(label=label or f"{side.model} {stage}".strip(), message=f"version {side.version}", color="blue")


def _job(service: Workspace, reference: Reference, project: Callable[[], Project]) -> tuple[JobView, str]:
    """Return the job and the gate's word on it; empty if it was not judged."""
    if reference.kind == "branch":
        found = latest_verdict(service, project().origin, reference.name)
        if found is None:
            raise ServiceError(
                f"No run of this configuration on the branch {reference.name} was judged.",
                hint="A run of the branch records its verdict: aml-train run.",
            )
        return found[0], found[1].gate
    view = service.find(reference.name)
    if view is None:
        raise ServiceError(f"There is no job {reference.name}.", hint="See: aml-train jobs list")
    return view, view.tags.get(TAG_GATE, "")


def _of_metric(metrics: Mapping[str, float], metric: str, title: str, label: str | None) -> Badge:
    if metric not in metrics:
        known = ", ".join(sorted(metrics)[:20]) or "none"
        raise InvalidError(f"{title} has no metric {metric}.", hint=f"Its metrics are: {known}.")
    return Badge(label=label or metric, message=f"{metrics[metric]:.6g}", color="blue")


def _state(view: JobView, word: str) -> tuple[str, Color]:
    if view.status is JobStatus.COMPLETED and word in _GATES:
        return _GATES[word]
    return _STATES.get(view.status, (view.status.value.lower(), "yellow"))
