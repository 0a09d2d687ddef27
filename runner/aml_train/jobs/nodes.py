"""The runs of a pipeline's nodes, also of pipelines within it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from aml_train.config.job.model import MOST_NESTED
from aml_train.core.errors import ServiceError
from aml_train.jobs.composed import ChildView
from aml_train.jobs.workspace import Jobs


def descendants(service: Jobs, name: str, before: str = "", depth: int = 0) -> Iterator[ChildView]:
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


def wrote(service: Jobs, job: str, run: str) -> bool:
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
