"""Node hours, GPU hours and cost of a job's attempts, and the bounds on them.

The time between the start and the end of each attempt counts, by the service's clock, for each node that the job requested. Azure bills nodes
from allocation to release: their start-up and idle time is added, and is shared by jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aml_train.config.sections.targets import ClusterConfig
from aml_train.config.sections.watch import CostConfig
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.jobs.attempts import earlier_attempts
from aml_train.jobs.pace import Cap
from aml_train.jobs.workspace import JobView, NodeKind, Placement, Workspace

_HOUR: Final = 3600.0


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The usage of one attempt: so many *nodes* for so many *seconds*."""

    job: str
    nodes: int
    seconds: float

    @property
    def node_hours(self) -> float:
        """Hours of all nodes together."""
        return self.nodes * self.seconds / _HOUR


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of all attempts together.

    Attributes:
        node_hours: hours of all nodes together.
        gpu_hours: hours of all GPUs together; None where the number of GPUs is not known.
        amount: in *currency*; None where no price is known.
        unknown: why something is not known; empty where everything is.
    """

    node_hours: float
    gpu_hours: float | None
    amount: float | None
    currency: str
    unknown: str = ""

    def __str__(self) -> str:
        parts = [f"{self.node_hours:.4g} node hours"]
        if self.gpu_hours is not None:
            parts.append(f"{self.gpu_hours:.4g} GPU hours")
        if self.amount is not None:
            parts.append(f"{self.amount:.2f} {self.currency}")
        return ", ".join(parts)


def price_of(config: CostConfig, kind: NodeKind) -> float | None:
    """Return what a node costs for an hour; None where the table does not say."""
    price = config.prices.get((kind.size or "").lower())
    if price is None:
        return None
    return price.low_priority if kind.spot else price.dedicated


def total(config: CostConfig, kind: NodeKind, used: Iterable[Usage]) -> Cost:
    """Add up what the attempts, all on nodes of one kind, have used."""
    hours = sum(usage.node_hours for usage in used)
    price = price_of(config, kind)
    unknown = [kind.problem] if kind.problem else []
    if config.prices and price is None and kind.size:
        unknown.append(f"`cost.prices` has no {_tier(kind)} price of {kind.size}.")
    return Cost(
        node_hours=hours,
        gpu_hours=None if kind.gpus is None else hours * kind.gpus,
        amount=None if price is None else hours * price,
        currency=config.currency,
        unknown=" ".join(unknown),
    )


def cap_of(config: CostConfig, kind: NodeKind, placement: Placement, used: Iterable[Usage]) -> Cap | None:
    """Return how long the next attempt may run after *used*; None without a bound.

    Raises:
        InvalidError: the bound cannot be computed: the size or its price is not known.
    """
    spent = sum(usage.node_hours for usage in used)
    caps: list[Cap] = []
    if config.max_node_hours is not None:
        left = config.max_node_hours - spent
        caps.append(Cap(seconds=left * _HOUR / placement.nodes, text=text_of_hours(config)))
    if config.max_cost is not None and (price := known_price(config, kind)) > 0:
        left = config.max_cost / price - spent
        caps.append(Cap(seconds=left * _HOUR / placement.nodes, text=text_of_cost(config)))
    return min(caps, key=lambda cap: cap.seconds, default=None)


def known_price(config: CostConfig, kind: NodeKind) -> float:
    """Return what a node costs for an hour, which `cost.max-cost` needs.

    Raises:
        InvalidError: the size or its price is not known.
    """
    price = price_of(config, kind)
    if price is None:
        why = kind.problem or f"`cost.prices` has no {_tier(kind)} price of {kind.size or 'its nodes'}."
        raise InvalidError(
            f"{config.where}: `cost.max-cost` cannot be kept: {why}",
            hint=f"Write it: cost: {{prices: {{{kind.size or 'Standard_…'}: {{{_tier(kind)}: …}}}}}}; or use max-node-hours.",
        )
    return price


def text_of_hours(config: CostConfig) -> str:
    """Return the bound on node hours as a message names it."""
    return f"{config.max_node_hours:g} node hours (cost.max-node-hours)"


def text_of_cost(config: CostConfig) -> str:
    """Return the bound on the cost as a message names it."""
    return f"{config.max_cost:g} {config.currency} (cost.max-cost)"


def _tier(kind: NodeKind) -> str:
    return "low-priority" if kind.spot else "dedicated"


def placement_of(document: Mapping[str, Any]) -> Placement:
    """Return what a job's document asks to run on."""
    resources = document.get("resources") or {}
    compute = str(document.get("compute") or "").removeprefix("azureml:").rpartition("/")[2]
    count = resources.get("instance_count", 1)
    return Placement(
        compute=compute or None,
        nodes=count if isinstance(count, int) else 1,
        size=resources.get("instance_type"),
        spot=str((document.get("queue_settings") or {}).get("job_tier") or "").lower() == "spot",
    )


class Spending:
    """The spending of one run so far.

    Args:
        config: prices and bounds.
        service: knows the kind of the nodes.
        cluster: what the compute is to be, where it may be made by this run.
    """

    def __init__(self, config: CostConfig, service: Workspace, cluster: ClusterConfig | None = None) -> None:
        self._config = config
        self._service = service
        self._cluster = cluster
        self._kind: NodeKind | None = None
        self._placement: Placement | None = None
        self._used: list[Usage] = []

    def check(self, placement: Placement) -> None:
        """Return if the bounds can be kept for a job that is not submitted yet.

        Raises:
            InvalidError: they cannot be computed.
            ServiceError: the service stays away.
        """
        if not self._config.bounded:
            return
        kind = self._service.node_kind(placement)
        cluster = self._cluster
        if kind.size is None and cluster is not None and cluster.name == placement.compute:
            kind = NodeKind(size=cluster.size, spot=cluster.tier == "spot")
        cap_of(self._config, kind, placement, ())

    def begin(self, view: JobView) -> Cap | None:
        """Begin a job's next attempt; return how long it may run, None without a bound.

        Raises:
            InvalidError: the bound cannot be computed.
            CancelledError: everything is spent.
        """
        if self._placement is None:
            self._placement = view.placement or Placement()
            self._used += self._earlier(view)
        return self._cap(self._placement)

    def allows_another(self) -> bool:
        """Return whether anything is left for another attempt."""
        cap = self._cap(self._placement) if self._placement is not None else None
        return cap is None or cap.seconds > 0

    def _cap(self, placement: Placement) -> Cap | None:
        return cap_of(self._config, self._nodes(), placement, self._used) if self._config.bounded else None

    def ended(self, view: JobView, seconds: float) -> None:
        """Add an attempt; *seconds* counts if the service gives no start or end."""
        self._used.append(_usage(view, self._placement or Placement(), seconds))

    def cost(self) -> Cost | None:
        """Return the cost, with a remark on unknown parts; None if no job was followed."""
        if not self._used:
            return None
        try:
            kind = self._nodes()
        except ServiceError as error:
            kind = NodeKind(problem=f"The kind of the nodes is not known: {error.message}")
        return total(self._config, kind, self._used)

    def _nodes(self) -> NodeKind:
        if self._kind is None:
            self._kind = self._service.node_kind(self._placement or Placement())
        return self._kind

    def _earlier(self, view: JobView) -> list[Usage]:
        """Return what the attempts before *view* used, which an earlier run followed."""
        placement = self._placement or Placement()
        return [_usage(before, placement, 0.0) for before in earlier_attempts(self._service, view)]


def _usage(view: JobView, placement: Placement, seconds: float) -> Usage:
    if view.started is not None and view.ended is not None:
        seconds = max(0.0, (view.ended - view.started).total_seconds())
    return Usage(job=view.name, nodes=placement.nodes, seconds=seconds)
