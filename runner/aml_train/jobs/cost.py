"""Node hours, GPU hours and cost of a job's attempts, and the bounds on them.

The time between the start and the end of each attempt counts, by the service's clock, for each node that the job requested. Azure bills nodes
from allocation to release: their start-up and idle time is added, and is shared by jobs.

Of pipelines and sweeps, each node or trial counts, on its own compute; a reused node costs nothing.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from aml_train.config.sections.targets import ClusterConfig
from aml_train.config.sections.watch import CostConfig
from aml_train.core.errors import CancelledError, InvalidError, ServiceError
from aml_train.core.events import CostCounted
from aml_train.jobs.attempts import earlier_attempts
from aml_train.jobs.composed import COMPOSED, ChildView
from aml_train.jobs.pace import Cap, Exceeded
from aml_train.jobs.placement import NodeKind, Placement, known_price, placements_of, price_of, spot_remark
from aml_train.jobs.workspace import JobView, Workspace, descendants

_HOUR: Final = 3600.0


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The usage of one run: the nodes of its *placement* for so many *seconds*."""

    placement: Placement
    seconds: float

    @property
    def node_hours(self) -> float:
        """Hours of all nodes together."""
        return self.placement.nodes * self.seconds / _HOUR


class Spending:
    """The spending of one run so far, over all its attempts, and all nodes of a pipeline or trials of a sweep.

    Args:
        config: prices and bounds.
        service: knows the nodes and the kinds of their computes.
    """

    def __init__(self, config: CostConfig, service: Workspace) -> None:
        self._config = config
        self._service = service
        self._kinds: dict[Placement, NodeKind] = {}
        self._used: dict[str, Usage] = {}
        self._problem = ""
        self._now: datetime.datetime | None = None
        self._placement: Placement | None = None  # of a command job

    def check(self, document: Mapping[str, Any], cluster: ClusterConfig | None) -> list[str]:
        """Return remarks on the bounds of a job that is not submitted yet, if they can be kept.

        Args:
            document: the job.
            cluster: what the compute is to be, where it may be made by this run.

        Raises:
            InvalidError: they cannot be computed.
            ServiceError: the service stays away.
        """
        remarks: dict[str, None] = {}
        for placement in dict.fromkeys(placements_of(document)) if self._config.max_cost is not None else ():
            if placement.compute is not None and "${{" in placement.compute:
                continue  # an input of the pipeline names it: it is known when the node runs
            kind = self._kind(placement)
            if kind.size is None and cluster is not None and cluster.name == placement.compute:
                kind = NodeKind(size=cluster.size, spot=cluster.tier == "spot")
            known_price(self._config, kind)
            remarks[spot_remark(self._config, kind)] = None
        return [text for text in remarks if text]

    def begin(self, view: JobView) -> Cap | None:
        """Begin a job's next attempt; return how long it may run, None without a bound.

        The bounds of a pipeline or sweep follow from its nodes: see :meth:`exceeded`.

        Raises:
            InvalidError: the bound cannot be computed.
            ServiceError: the service stays away.
        """
        self._placement = None if view.kind in COMPOSED else view.placement or Placement()
        for before in earlier_attempts(self._service, view):
            if before.name not in self._used:
                self._count(before, 0.0)
        placement, config = self._placement, self._config
        caps: list[Cap] = []
        if placement is not None and config.max_node_hours is not None:
            left = config.max_node_hours - self._hours()
            caps.append(Cap(seconds=left * _HOUR / placement.nodes, text=self._text_of_hours()))
        if placement is not None and config.max_cost is not None:
            price = known_price(config, self._kind(placement)) * placement.nodes
            if price > 0:
                left = config.max_cost - self._amount()
                caps.append(Cap(seconds=left * _HOUR / price, text=self._text_of_cost()))
        return min(caps, key=lambda cap: cap.seconds, default=None)

    def exceeded(self, job: str, children: Iterable[ChildView], now: datetime.datetime | None) -> Exceeded | None:
        """Return the bound that a pipeline or sweep has exceeded, or None.

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
        self._add(children)
        return self.over(job)

    def over(self, job: str) -> Exceeded | None:
        """Return the bound that what is counted so far exceeds, or None."""
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

    def allows_another(self) -> bool:
        """Return whether anything is left for another attempt.

        Raises:
            ServiceError: the service does not answer.
        """
        try:
            return not self._reached()
        except InvalidError:
            return False

    def ended(self, view: JobView, seconds: float) -> None:
        """Add an attempt that has ended, or is not followed any more.

        *seconds* counts if the service gives no start or end.
        """
        try:
            self._count(view, seconds)
        except ServiceError as error:
            self._problem = f"Not all nodes are counted: {error.message}"

    def cost(self) -> CostCounted | None:
        """Return the cost, with a remark on unknown parts and upper bounds; None if nothing ran.

        A node without an end counts up to the last look.
        """
        if not self._used:
            return None
        gpus: list[float | None] = []
        amounts: list[float | None] = []
        unknown: list[str] = []
        bounds: list[str] = []
        for usage in self._used.values():
            try:
                kind = self._kind(usage.placement)
            except ServiceError as error:
                kind = NodeKind(problem=f"The kind of the nodes is not known: {error.message}")
            price, hours = price_of(self._config, kind), usage.node_hours
            gpus.append(None if kind.gpus is None else hours * kind.gpus)
            amounts.append(None if price is None else hours * price)
            if self._config.prices and price is None and kind.size:
                unknown.append(f"`cost.prices` has no dedicated price of {kind.size}.")
            unknown.append(kind.problem)
            bounds.append(spot_remark(self._config, kind))
        node_hours, currency = self._hours(), self._config.currency
        gpu_hours = None if None in gpus else sum(some or 0.0 for some in gpus)
        amount = None if None in amounts else sum(some or 0.0 for some in amounts)
        parts = [f"{node_hours:.4g} node hours"]
        if gpu_hours is not None:
            parts.append(f"{gpu_hours:.4g} GPU hours")
        if amount is not None:
            parts.append(f"{'at most ' * any(bounds)}{amount:.2f} {currency}")
        return CostCounted(
            node_hours=node_hours,
            gpu_hours=gpu_hours,
            cost=amount,
            currency=currency,
            text=", ".join(parts),
            unknown=" ".join(filter(None, dict.fromkeys([*unknown, *bounds, self._problem]))),
        )

    def _hours(self) -> float:
        return sum(usage.node_hours for usage in self._used.values())

    def _amount(self) -> float:
        return sum(
            usage.node_hours * known_price(self._config, self._kind(usage.placement)) for usage in self._used.values()
        )

    def _reached(self) -> str:
        """Return the bound that is reached; empty for none."""
        config = self._config
        if config.max_node_hours is not None and self._hours() >= config.max_node_hours:
            return self._text_of_hours()
        if config.max_cost is not None and self._amount() >= config.max_cost > 0:
            return self._text_of_cost()
        return ""

    def _text_of_hours(self) -> str:
        return f"{self._config.max_node_hours:g} node hours (cost.max-node-hours)"

    def _text_of_cost(self) -> str:
        return f"{self._config.max_cost:g} {self._config.currency} (cost.max-cost)"

    def _count(self, view: JobView, seconds: float) -> None:
        """Count an attempt: by itself, or by its nodes."""
        if self._placement is None:
            self._add(self._service.children(view.name))
            return
        if view.started is not None and view.ended is not None:
            seconds = max(0.0, (view.ended - view.started).total_seconds())
        self._used[view.name] = Usage(placement=self._placement, seconds=seconds)

    def _add(self, children: Iterable[ChildView]) -> None:
        for child in self._with_inner(children):
            ended = child.ended or self._now
            if child.kind == "command" and child.reused_from is None and child.started and ended:
                seconds = max(0.0, (ended - child.started).total_seconds())
                placement = Placement(compute=child.compute, nodes=child.nodes)
                self._used[child.name] = Usage(placement=placement, seconds=seconds)

    def _with_inner(self, children: Iterable[ChildView]) -> Iterator[ChildView]:
        """Yield the children, and the nodes and trials within them."""
        for child in children:
            yield child
            if child.kind == "command" or child.reused_from is not None:
                continue
            for found in descendants(self._service, child.name):
                yield found
                if found.kind == "sweep" and found.reused_from is None:
                    yield from self._service.children(found.name)

    def _kind(self, placement: Placement) -> NodeKind:
        key = replace(placement, nodes=1)
        if key not in self._kinds:
            self._kinds[key] = self._service.node_kind(placement)
        return self._kinds[key]
