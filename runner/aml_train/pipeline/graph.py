"""The nodes of a pipeline and the trials of a sweep: followed and judged."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from aml_train.config.job.model import JobNode
from aml_train.core.errors import AmlTrainError, JobFailedError, ServiceError
from aml_train.core.events import GraphNode, NodeChanged
from aml_train.core.tags import Tag
from aml_train.jobs.composed import ChildView, unfinished
from aml_train.jobs.cost import Spending
from aml_train.jobs.logs.report import JobLogs, cause_of, quote_logs
from aml_train.jobs.pace import Exceeded
from aml_train.jobs.states import JobStatus, failure_of
from aml_train.jobs.workspace import JobView, Workspace, descendants
from aml_train.pipeline.context import RunContext

_NAMED: Final = 10
"""How many nodes a message names."""

_CHECKED: Final = "A node may be reused only from a run in the image that was tested"


@dataclass(frozen=True, kw_only=True)
class GraphFollower:
    """Follows the nodes of a pipeline, or the trials of a sweep, and judges them.

    Attributes:
        ctx: the run.
        service: the workspace.
        view: the job.
        spending: counts the nodes.
    """

    ctx: RunContext
    service: Workspace
    view: JobView
    spending: Spending
    _seen: dict[str, JobStatus] = field(default_factory=dict)

    def look(self, view: JobView) -> Exceeded | None:
        """List the nodes; return the bound on the cost that they have exceeded, or None.

        After a failure the next look, or the end, lists them again. There are none before the job runs.
        """
        if view.status.waiting:
            return None
        try:
            children = self.service.children(self.view.name)
            self._report(children)
            return self.spending.exceeded(self.view.name, children, view.observed)
        except ServiceError:
            return None

    def judge(self, failure: AmlTrainError | None) -> AmlTrainError | None:
        """Judge the ended job by its nodes or trials.

        Args:
            failure: what the job's own status says; None for Completed.

        Returns:
            why the run fails; None if every node that has to has completed, in the tested image.

        Raises:
            ServiceError: the service does not answer.
        """
        children = list(descendants(self.service, self.view.name))
        self._report(children)
        nodes = [child for child in children if child.kind != "pipeline"]
        if reused := sum(child.reused_from is not None for child in nodes):
            self.ctx.notice(f"{reused} of {len(nodes)} nodes were reused.")
        if self.view.kind == "sweep":
            if failure is not None or any(trial.status is JobStatus.COMPLETED for trial in children):
                return failure
            return JobFailedError(
                f"The sweep {self.view.name} completed, but none of its {len(children)} trials did.",
                hint="Look at the trials' logs, and at the early termination policy.",
            )
        planned = self.ctx.plan.job.nodes if self.ctx.options.job is None else ()
        allowed = self.ctx.plan.config.watch.allow_failed
        problems = unfinished(
            [node.name for node in planned], _leaves(children, {node.name for node in planned}), allowed
        )
        if not problems:
            spared = [child.node for child in children if child.status is not JobStatus.COMPLETED]
            if failure is not None and not (spared and isinstance(failure, JobFailedError)):
                return failure
            if spared:
                self.ctx.warn(
                    f"These nodes did not complete, and `watch.allow-failed` names them: {', '.join(spared)}."
                )
            return self._not_ours(children)
        return self._failed(failure, problems, children)

    def _report(self, children: Sequence[ChildView]) -> None:
        for child in children:
            if self._seen.get(child.name) is not child.status:
                self._seen[child.name] = child.status
                self.ctx.emit(
                    NodeChanged(
                        job=self.view.name,
                        node=child.node,
                        run=child.name,
                        status=child.status.value,
                        reused=child.reused_from is not None,
                    )
                )

    def _failed(
        self, failure: AmlTrainError | None, problems: Sequence[tuple[str, str]], children: Sequence[ChildView]
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
                else f"The pipeline {self.view.name} completed without all of its nodes."
            )
            return JobFailedError(f"{said}\n{text}", hint="`watch.allow-failed` names nodes that may fail.")

        def order(child: ChildView) -> tuple[bool, float]:
            """Pipelines come last, then the time counts."""
            return child.kind == "pipeline", math.inf if child.ended is None else child.ended.timestamp()

        return self._with_logs(min(bad, key=order), text)

    def _with_logs(self, node: ChildView, text: str) -> AmlTrainError:
        """Return the failure of a node with the last lines of its logs."""
        tail, cause, reason = "", "", node.error
        codes: tuple[str, ...] = ()
        try:
            found = self.service.details(node.source)
            logs = JobLogs(self.service, node.source, self.ctx.emit, masker=self.ctx.secrets)
            logs.read(found, final=True)
            ended = logs.end(found.error)
            self.ctx.progress.add(logs=ended)
            tail, cause, reason, codes = quote_logs(ended), cause_of(ended), found.error or reason, found.codes
        except ServiceError as error:
            self.ctx.warn(f"The logs of the node {node.node} are not shown: {error.message}")
        label = f"{self.view.name}, node {node.node} ({node.name}),"
        failure = failure_of(node.status, job=label, reason=reason, tail=tail, cause=cause, codes=codes)
        if failure is None:  # pragma: no cover - a node that failed has a failure
            raise AssertionError(f"{node.node} is {node.status.value}")
        return type(failure)(f"{failure.message}\n{text}", hint=failure.hint)

    def _not_ours(self, children: Sequence[ChildView]) -> AmlTrainError | None:
        """Return why a reused node does not count: it ran in another image."""
        images = _images(self.ctx, self.view)
        if images is None:
            return None
        given = (
            {node.name for node in self.ctx.plan.job.nodes} - images.of_nodes.keys()
            if self.ctx.options.job is None
            else set()
        )
        known: dict[str, _Images | None] = {}
        for child in children:
            if child.reused_from is None or child.kind == "pipeline" or child.node in given:
                continue
            root = self.service.root_of(child.reused_from)
            if root is not None and root not in known:
                found = self.service.find(root)
                known[root] = None if found is None else images_of(found.tags)
            before = None if root is None else known[root]
            name = images.of_nodes.get(child.node, "")
            ran_in = None if before is None else before.of(child.node)
            if ran_in is None or ran_in != images.digests[name]:
                where = f"in {ran_in}" if ran_in else "in an image that is not recorded"
                return JobFailedError(
                    f"The node {child.node} of {self.view.name} was reused from {child.reused_from}, which ran {where}. {_CHECKED}.",
                    hint="Run the nodes again: --set job.settings.force_rerun=true",
                )
        return None


def _leaves(children: Sequence[ChildView], planned: set[str]) -> list[ChildView]:
    """Return the nodes that run something, and pipelines of which no node is known."""
    outer = {child.node.rpartition("/")[0] for child in children}
    return [child for child in children if child.node in planned or child.node not in outer]


@dataclass(frozen=True, kw_only=True)
class _Images:
    """The images of a pipeline, and which nodes ran in each.

    Attributes:
        digests: the digest of each, by its key below ``images``; that of ``image`` is empty.
        of_nodes: the name of the image of each node.
        complete: other nodes ran in ``image``; False if it is not known where they ran.
    """

    digests: Mapping[str, str]
    of_nodes: Mapping[str, str]
    complete: bool = True

    def of(self, node: str) -> str | None:
        """Return the digest of the image that a node ran in; None if unknown."""
        name = self.of_nodes.get(node, "" if self.complete else None)
        return None if name is None else self.digests.get(name)


def _images(ctx: RunContext, view: JobView) -> _Images | None:
    """Return the images of this run's job; None if it has none of ours."""
    built = {name: one.digest for name, one in ctx.progress.result.images.items()}
    if "" not in built:
        found = images_of(view.tags)
        planned = ctx.plan.image_of_nodes if ctx.options.job is None else {}
        return None if found is None else replace(found, of_nodes={**found.of_nodes, **planned})
    return _Images(digests=built, of_nodes=ctx.plan.image_of_nodes)


def images_of(tags: Mapping[str, str]) -> _Images | None:
    """Return the images that a job's tags name; None if they name none."""
    if Tag.DIGEST not in tags:
        return None
    digests, of_nodes, complete = {"": tags[Tag.DIGEST]}, dict[str, str](), True
    for tag, text in tags.items():
        if tag.startswith(Tag.IMAGES):
            name = tag.removeprefix(Tag.IMAGES)
            try:
                found = json.loads(text)
                digests[name] = str(found["image"]).rpartition("@")[2]
                of_nodes |= dict.fromkeys(map(str, found["nodes"]), name)
            except (ValueError, TypeError, KeyError, RecursionError):
                complete = False  # damaged, or too many nodes for a tag
    return _Images(digests=digests, of_nodes=of_nodes, complete=complete)


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


def graph_nodes(nodes: Sequence[JobNode], images: Mapping[str, str]) -> tuple[GraphNode, ...]:
    """Return the nodes of a pipeline with what each runs in; none for another job.

    Args:
        nodes: all nodes.
        images: the image of each node that runs in one, by its name.
    """
    return tuple(
        GraphNode(name=node.name, needs=node.needs, environment=_environment(node, images))
        for node in nodes
        if node.name
    )


def _environment(node: JobNode, images: Mapping[str, str]) -> str:
    if node.name in images:
        return f"image {images[node.name]}".rstrip()
    if node.kind == "other":
        return "unchecked"
    given = node.component or node.environment
    return f"given: {given}" if isinstance(given, str) else "given: (inline)"
