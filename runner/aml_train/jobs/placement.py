"""The nodes that a job asks to run on, and what such a node costs for an hour. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aml_train.config.sections.watch import CostConfig
from aml_train.core.errors import InvalidError


@dataclass(frozen=True, kw_only=True)
class Placement:
    """The nodes that a job requests, of a compute or (serverless) of a VM *size*."""

    compute: str | None = None
    nodes: int = 1
    size: str | None = None
    spot: bool = False


@dataclass(frozen=True, kw_only=True)
class NodeKind:
    """The nodes that a job runs on; None for unknown values, and *problem* says why."""

    size: str | None = None
    gpus: int | None = None
    spot: bool = False
    problem: str = ""


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


def placements_of(document: Mapping[str, Any], default: object = None) -> Iterator[Placement]:
    """Yield what a job, the nodes of a pipeline, or the trials of a sweep ask to run on.

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


def price_of(config: CostConfig, kind: NodeKind) -> float | None:
    """Return what a node costs for an hour; None where the table does not say.

    A Spot node without a price of its own counts as a dedicated one: since March 2026 low priority is Spot, whose price varies up
    to that (https://github.com/MicrosoftDocs/azure-ai-docs/pull/791).
    """
    price = config.prices.get((kind.size or "").lower())
    if price is None:
        return None
    return price.low_priority if kind.spot and price.low_priority is not None else price.dedicated


def spot_remark(config: CostConfig, kind: NodeKind) -> str:
    """Return that Spot nodes of *kind* count at the price of dedicated ones; empty if they do not."""
    price = config.prices.get((kind.size or "").lower())
    if not kind.spot or price is None or price.low_priority is not None or price.dedicated is None:
        return ""
    return (
        f"Spot nodes of {kind.size} count at the price of dedicated ones, {price.dedicated:g} {config.currency} an hour,"
        " as the upper bound: the price of Spot varies, and `cost.prices` has no `low-priority` price."
    )


def known_price(config: CostConfig, kind: NodeKind) -> float:
    """Return what a node costs for an hour, which `cost.max-cost` needs.

    Raises:
        InvalidError: the size or its price is not known.
    """
    price = price_of(config, kind)
    if price is None:
        why = kind.problem or f"`cost.prices` has no dedicated price of {kind.size or 'its nodes'}."
        raise InvalidError(
            f"{config.where}: `cost.max-cost` cannot be kept: {why}",
            hint=f"Write it: cost: {{prices: {{{kind.size or 'Standard_…'}: {{dedicated: …}}}}}}; or use max-node-hours.",
        )
    return price
