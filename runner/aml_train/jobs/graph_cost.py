"""Node hours and cost of pipelines and sweeps, and the bounds on them.

Nodes run side by side, each on its compute. The time between start and end of each run counts, by the service's clock; a
reused node costs nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aml_train.config.sections.targets import ClusterConfig
from aml_train.config.sections.watch import CostConfig
from aml_train.core.errors import CancelledError, InvalidError, ServiceError
from aml_train.jobs.attempts import earlier_attempts
from aml_train.jobs.composed import ChildView
from aml_train.jobs.cost import Cost, Spending, Usage, known_price, placement_of, text_of_cost, text_of_hours, total
from aml_train.jobs.pace import Cap, Exceeded
from aml_train.jobs.workspace import JobView, NodeKind, Placement, Workspace, descendants


def placements_of(document: Mapping[str, Any], default: object = None) -> Iterator[Placement]:
    """Yield what the nodes of a pipeline, or the trials of a sweep, ask to run on.

    Args:
        document: the job, or a component within it.
        default: the compute of nodes that name none.
    """
    default = (document.get("settings") or {}).get("default_compute") or document.get("compute") or default
    nodes = document.get("jobs")
    for node in nodes.values() if isinstance(nodes, dict) else (document,):
        component = node.get("component")
        if isinstance(component, dict) and "jobs" in component:
            yield from placements_of(component, node.get("compute") or default)
        else:
            yield placement_of({**node, "compute": node.get("compute") or default})


class GraphSpending:
    """The spending of a pipeline or sweep so far, over all its nodes and attempts.

    Args:
        config: prices and bounds.
        service: knows the nodes and the kinds of their computes.
    """

    def __init__(self, config: CostConfig, service: Workspace) -> None:
        self._config = config
        self._service = service
        self._kinds: dict[str | None, NodeKind] = {}
        self._runs: dict[str, ChildView] = {}
        self._over: dict[str, list[ChildView]] = {}
        self._problem = ""
        self._now: datetime.datetime | None = None
        self._begun = False

    def check(self, document: Mapping[str, Any], cluster: ClusterConfig | None) -> None:
        """Return if the bounds can be kept for a job that is not submitted yet.

        Raises:
            InvalidError: they cannot be computed.
            ServiceError: the service stays away.
        """
        for placement in dict.fromkeys(placements_of(document)):
            if placement.compute is not None and "${{" in placement.compute:
                continue  # an input of the pipeline names it: it is known when the node runs
            Spending(self._config, self._service, cluster).check(placement)

    def begin(self, view: JobView) -> Cap | None:
        """Begin a job's next attempt; return no bound on its time.

        The bounds follow from its nodes: see :meth:`exceeded`.

        Raises:
            ServiceError: the service stays away.
        """
        if not self._begun:
            for before in earlier_attempts(self._service, view):
                self._add(self._listed(before.name))
        self._begun = True
        return None

    def exceeded(self, job: str, children: Iterable[ChildView], now: datetime.datetime | None) -> Exceeded | None:
        """Return the bound that a job has exceeded, or None.

        Args:
            job: its name.
            children: its nodes or trials, as the service lists them.
            now: when they were listed, by the service's clock; None if it does not say.

        A bound that cannot be computed, because a node runs on a compute without a price, counts as exceeded.

        Raises:
            ServiceError: the service does not answer.
        """
        if not self._config.bounded:
            return None
        self._now = now or self._now
        self._add(self._with_inner(children))
        try:
            reached = self._reached()
        except InvalidError as error:
            return Exceeded(error=CancelledError, text=f"The job {job}: {error.message}", remedy=error.hint or "")
        if not reached:
            return None
        return Exceeded(
            error=CancelledError,
            text=f"The job {job} has reached its bound: {reached}",
            remedy="Raise the bound under `cost`, or let the nodes do less.",
        )

    def _reached(self) -> str:
        """Return the bound that is reached; empty for none."""
        hours = {compute: sum(use.node_hours for use in uses) for compute, uses in self._used().items()}
        if self._config.max_node_hours is not None and sum(hours.values()) > self._config.max_node_hours:
            return text_of_hours(self._config)
        if self._config.max_cost is not None:
            spent = sum(some * known_price(self._config, self._kind(compute)) for compute, some in hours.items())
            if spent > self._config.max_cost:
                return text_of_cost(self._config)
        return ""

    def allows_another(self) -> bool:
        """Return whether anything is left for another attempt.

        Raises:
            ServiceError: the service does not answer.
        """
        return self.exceeded("", (), None) is None

    def ended(self, view: JobView, _seconds: float) -> None:
        """Add the nodes of an attempt that has ended, or is not followed any more."""
        try:
            self._add(self._listed(view.name))
        except ServiceError as error:
            self._problem = f"Not all nodes are counted: {error.message}"

    def cost(self) -> Cost | None:
        """Return the cost of the nodes, with a remark on unknown parts; None if none ran.

        A node without an end counts up to the last look.
        """
        costs = []
        for compute, uses in self._used().items():
            try:
                kind = self._kind(compute)
            except ServiceError as error:
                kind = NodeKind(problem=f"The kind of the nodes is not known: {error.message}")
            costs.append(total(self._config, kind, uses))
        if not costs:
            return None
        gpus, amounts = [cost.gpu_hours for cost in costs], [cost.amount for cost in costs]
        unknown = [cost.unknown for cost in costs if cost.unknown] + ([self._problem] if self._problem else [])
        return Cost(
            node_hours=sum(cost.node_hours for cost in costs),
            gpu_hours=None if None in gpus else sum(hours or 0.0 for hours in gpus),
            amount=None if None in amounts else sum(amount or 0.0 for amount in amounts),
            currency=self._config.currency,
            unknown=" ".join(dict.fromkeys(unknown)),
        )

    def _add(self, children: Iterable[ChildView]) -> None:
        for child in children:
            if child.kind == "command" and child.reused_from is None and child.started is not None:
                self._runs[child.name] = child

    def _listed(self, job: str) -> Iterator[ChildView]:
        return self._with_inner(self._service.children(job))

    def _with_inner(self, children: Iterable[ChildView]) -> Iterator[ChildView]:
        """Yield the children, and the nodes and trials within them.

        Those of a child that has ended are listed once.
        """
        for child in children:
            yield child
            if child.kind == "command" or child.reused_from is not None:
                continue
            inner = self._over.get(child.name)
            if inner is None:
                listed = descendants(self._service, child.name)
                inner = [one for found in listed for one in (found, *self._trials(found))]
                if child.status.final:
                    self._over[child.name] = inner
            yield from inner

    def _trials(self, child: ChildView) -> Iterable[ChildView]:
        return self._service.children(child.name) if child.kind == "sweep" and child.reused_from is None else ()

    def _used(self) -> dict[str | None, list[Usage]]:
        used: dict[str | None, list[Usage]] = {}
        for child in self._runs.values():
            ended = child.ended or self._now
            if child.started is not None and ended is not None:
                seconds = max(0.0, (ended - child.started).total_seconds())
                used.setdefault(child.compute, []).append(Usage(job=child.name, nodes=child.nodes, seconds=seconds))
        return used

    def _kind(self, compute: str | None) -> NodeKind:
        if compute not in self._kinds:
            self._kinds[compute] = self._service.node_kind(Placement(compute=compute))
        return self._kinds[compute]
