"""What a job's nodes cost: node hours, GPU hours and, by a price table, money; and the bounds of it. Pure.

What is counted is the time between the start and the end of each attempt, by the service's clock, for each node that the job asked for. Azure bills
nodes from when they are allotted until they are released: their start and their idle time come on top, and are shared by jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aml_train.config import CostConfig
from aml_train.core.errors import InvalidError
from aml_train.jobs.timing import Cap
from aml_train.jobs.workspace import NodeKind, Placement

_HOUR: Final = 3600.0


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one attempt used: so many *nodes* for so many *seconds*."""

    job: str
    nodes: int
    seconds: float

    @property
    def node_hours(self) -> float:
        """Hours of all nodes together."""
        return self.nodes * self.seconds / _HOUR


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What all attempts cost together.

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
    """Return how long the next attempt may run, after what others have *used*; None where nothing bounds it.

    Raises:
        InvalidError: the bound cannot be computed: the size or its price is not known.
    """
    spent = sum(usage.node_hours for usage in used)
    caps: list[Cap] = []
    if config.max_node_hours is not None:
        left = config.max_node_hours - spent
        text = f"{config.max_node_hours:g} node hours (cost.max-node-hours)"
        caps.append(Cap(seconds=left * _HOUR / placement.nodes, text=text))
    if config.max_cost is not None:
        price = price_of(config, kind)
        if price is None:
            why = kind.problem or f"`cost.prices` has no {_tier(kind)} price of {kind.size or 'its nodes'}."
            raise InvalidError(
                f"{config.where}: `cost.max-cost` cannot be kept: {why}",
                hint=f"Write it: cost: {{prices: {{{kind.size or 'Standard_…'}: {{{_tier(kind)}: …}}}}}}; or use max-node-hours.",
            )
        if price > 0:
            left = config.max_cost / price - spent
            text = f"{config.max_cost:g} {config.currency} (cost.max-cost)"
            caps.append(Cap(seconds=left * _HOUR / placement.nodes, text=text))
    return min(caps, key=lambda cap: cap.seconds, default=None)


def _tier(kind: NodeKind) -> str:
    return "low-priority" if kind.spot else "dedicated"
