"""The nodes of a pipeline and the trials of a sweep: followed and judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from aml_train.core.errors import AmlTrainError, JobFailedError, ServiceError
from aml_train.core.events import NodeChanged
from aml_train.core.tags import TAG_DIGEST
from aml_train.image import Tested
from aml_train.jobs import (
    ChildView,
    Exceeded,
    GraphSpending,
    JobLogs,
    JobStatus,
    JobView,
    Workspace,
    descendants,
    failure_of,
    pages_of,
    quote_logs,
    unfinished,
)
from aml_train.pipeline.context import RunContext

_NAMED: Final = 10
"""How many nodes a message names."""

_CHECKED: Final = "A node may be reused only from a run in the image that was tested"


class GraphFollower:
    """Follows the nodes of a pipeline, or the trials of a sweep, and judges them.

    Args:
        ctx: the run.
        service: the workspace.
        job: the job's name.
        spending: counts the nodes.
    """

    def __init__(self, ctx: RunContext, service: Workspace, job: str, spending: GraphSpending) -> None:
        self._ctx = ctx
        self._service = service
        self._job = job
        self._spending = spending
        self._seen: dict[str, JobStatus] = {}

    def look(self, view: JobView) -> Exceeded | None:
        """List the nodes; return the bound on the cost that they have exceeded, or None.

        After a failure the next look, or the end, lists them again.
        """
        try:
            children = self._service.children(self._job)
            self._report(children)
            return self._spending.exceeded(self._job, children, view.observed)
        except ServiceError:
            return None

    def judge(self, view: JobView, failure: AmlTrainError | None) -> AmlTrainError | None:
        """Judge the ended job by its nodes or trials.

        Args:
            view: the job.
            failure: what the job's own status says; None for Completed.

        Returns:
            why the run fails; None if every node that has to has completed, in the tested image.

        Raises:
            ServiceError: the service does not answer.
        """
        children = list(descendants(self._service, view.name))
        self._report(children)
        nodes = [child for child in children if child.kind != "pipeline"]
        if reused := sum(child.reused_from is not None for child in nodes):
            self._ctx.notice(f"{reused} of {len(nodes)} nodes were reused.")
        return _judge(self._ctx, self._service, view, failure, children)

    def _report(self, children: Sequence[ChildView]) -> None:
        for child in children:
            if self._seen.get(child.name) is not child.status:
                self._seen[child.name] = child.status
                self._ctx.emit(
                    NodeChanged(
                        job=self._job,
                        node=child.node,
                        run=child.name,
                        status=child.status.value,
                        reused=child.reused_from is not None,
                    )
                )


def _judge(
    ctx: RunContext,
    service: Workspace,
    view: JobView,
    failure: AmlTrainError | None,
    children: Sequence[ChildView],
) -> AmlTrainError | None:
    """Return why the run fails, by its nodes or trials; None if it does not."""
    if view.kind == "sweep":
        return failure or _no_trial(view, children)
    planned = ctx.plan.job.nodes if ctx.options.job is None else ()
    allowed = ctx.plan.watch.allow_failed
    problems = unfinished(
        [node.name for node in planned], _leaves(children, {node.name for node in planned}), allowed
    )
    if not problems:
        spared = [child.node for child in children if child.status is not JobStatus.COMPLETED]
        if failure is not None and not (spared and isinstance(failure, JobFailedError)):
            return failure
        if spared:
            ctx.warn(f"These nodes did not complete, and `watch.allow-failed` names them: {', '.join(spared)}.")
        return _not_ours(ctx, service, view, children)
    return _failed(ctx, service, view, failure, problems, children)


def _leaves(children: Sequence[ChildView], planned: set[str]) -> list[ChildView]:
    """Return the nodes that run something, and pipelines of which no node is known."""
    outer = {child.node.rpartition("/")[0] for child in children}
    return [child for child in children if child.node in planned or child.node not in outer]


def _no_trial(view: JobView, trials: Sequence[ChildView]) -> AmlTrainError | None:
    if any(trial.status is JobStatus.COMPLETED for trial in trials):
        return None
    return JobFailedError(
        f"The sweep {view.name} completed, but none of its {len(trials)} trials did.",
        hint="Look at the trials' logs, and at the early termination policy.",
    )


def _failed(
    ctx: RunContext,
    service: Workspace,
    view: JobView,
    failure: AmlTrainError | None,
    problems: Sequence[tuple[str, str]],
    children: Sequence[ChildView],
) -> AmlTrainError:
    """Return the failure of a pipeline: the first node that failed, with its logs."""
    named = ", ".join(f"{node} ({state})" for node, state in problems[:_NAMED])
    more = f" and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
    text = f"Nodes that did not complete: {named}{more}."
    if failure is not None and not isinstance(failure, JobFailedError):
        return type(failure)(f"{failure.message}\n{text}", hint=failure.hint)
    states = dict(problems)
    bad = [child for child in children if child.node in states and child.status is JobStatus.FAILED]
    if not bad:
        said = (
            failure.message
            if failure is not None
            else f"The pipeline {view.name} completed without all of its nodes."
        )
        return JobFailedError(f"{said}\n{text}", hint="`watch.allow-failed` names nodes that may fail.")
    first = min(bad, key=_begins_with)
    return _with_logs(ctx, service, view, first, text)


def _begins_with(child: ChildView) -> tuple[bool, float]:
    """Return the order of failed nodes: pipelines last, then by time."""
    return child.kind == "pipeline", math.inf if child.ended is None else child.ended.timestamp()


def _with_logs(ctx: RunContext, service: Workspace, view: JobView, node: ChildView, text: str) -> AmlTrainError:
    """Return the failure of a node with the last lines of its logs."""
    tail, reason = "", node.error
    codes: tuple[str, ...] = ()
    try:
        found = service.details(node.source)
        logs = JobLogs(
            service,
            node.source,
            ctx.emit,
            every=False,
            masker=ctx.secrets,
            pages=pages_of(found),
            now=ctx.clock.now,
        )
        logs.read(found, final=True)
        ended = logs.end(found.error)
        ctx.progress.add(logs=ended)
        tail, reason, codes = quote_logs(ended), found.error or reason, found.codes
    except ServiceError as error:
        ctx.warn(f"The logs of the node {node.node} are not shown: {error.message}")
    label = f"{view.name}, node {node.node} ({node.name}),"
    failure = failure_of(node.status, job=label, reason=reason, tail=tail, codes=codes)
    if failure is None:  # pragma: no cover - a node that failed has a failure
        raise AssertionError(f"{node.node} is {node.status.value}")
    return type(failure)(f"{failure.message}\n{text}", hint=failure.hint)


def _not_ours(
    ctx: RunContext, service: Workspace, view: JobView, children: Sequence[ChildView]
) -> AmlTrainError | None:
    """Return why a reused node does not count: it ran in another image."""
    image = ctx.progress.result.image
    digest = image.digest if isinstance(image, Tested) else view.tags.get(TAG_DIGEST)
    if digest is None:
        return None
    given = {node.name for node in ctx.plan.job.nodes} - {node.name for node in ctx.plan.nodes_in_image}
    known: dict[str, str | None] = {}
    for child in children:
        if child.reused_from is None or child.kind == "pipeline" or (ctx.options.job is None and child.node in given):
            continue
        root = service.root_of(child.reused_from)
        if root is not None and root not in known:
            found = service.find(root)
            known[root] = None if found is None else found.tags.get(TAG_DIGEST)
        ran_in = None if root is None else known[root]
        if ran_in != digest:
            where = f"in {ran_in}" if ran_in else "in an image that is not recorded"
            return JobFailedError(
                f"The node {child.node} of {view.name} was reused from {child.reused_from}, which ran {where}. {_CHECKED}.",
                hint="Run the nodes again: --set job.settings.force_rerun=true",
            )
    return None


def run_with_model(service: Workspace, job: str, node: str | None) -> str:
    """Return the run that wrote a job's model: the job, a node, or the best trial.

    Raises:
        JobFailedError: there is no such node, or it did not complete.
        ServiceError: the service does not answer.
    """
    if node is None:
        return service.results_run(job)
    for child in descendants(service, job):
        if child.node == node:
            if child.status is not JobStatus.COMPLETED:
                raise JobFailedError(
                    f"The node {node} of {job} is {child.status.value}: its model is not registered."
                )
            return service.results_run(child.source)
    raise JobFailedError(
        f"The job {job} has no node {node}: there is no model to register.", hint="Correct model.node."
    )
