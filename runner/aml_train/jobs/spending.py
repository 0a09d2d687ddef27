"""What a run spends: adds up its attempts, and bounds the next one. See :mod:`aml_train.jobs.cost` for the arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aml_train.config import ClusterConfig, CostConfig
from aml_train.core.errors import ServiceError
from aml_train.core.tags import TAG_RESUBMITTED
from aml_train.jobs.attempts import retries_of
from aml_train.jobs.cost import Cost, Usage, cap_of, total
from aml_train.jobs.timing import Cap
from aml_train.jobs.workspace import JobService, JobView, NodeKind, Placement

_MOST_EARLIER: Final = 100


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
    """What one run has spent so far.

    Args:
        config: prices and bounds.
        service: tells what the nodes are.
        cluster: what the compute is to be, where it may be made by this run.
    """

    def __init__(self, config: CostConfig, service: JobService, cluster: ClusterConfig | None = None) -> None:
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
        if self._config.max_node_hours is None and self._config.max_cost is None:
            return
        kind = self._service.node_kind(placement)
        cluster = self._cluster
        if kind.size is None and cluster is not None and cluster.name == placement.compute:
            kind = NodeKind(size=cluster.size, spot=cluster.tier == "spot")
        cap_of(self._config, kind, placement, ())

    def begin(self, view: JobView) -> Cap | None:
        """Begin a job's next attempt: return how long it may run; None where nothing bounds it.

        Raises:
            InvalidError: the bound cannot be computed.
            CancelledError: everything is spent.
        """
        if self._placement is None:
            self._placement = view.placement or Placement()
            self._used += self._earlier(view)
        if self._config.max_node_hours is None and self._config.max_cost is None:
            return None
        return cap_of(self._config, self._nodes(), self._placement, self._used)

    def allows_another(self) -> bool:
        """Tell whether there is anything left for another attempt."""
        if self._placement is None or (self._config.max_node_hours is None and self._config.max_cost is None):
            return True
        cap = cap_of(self._config, self._nodes(), self._placement, self._used)
        return cap is None or cap.seconds > 0

    def ended(self, view: JobView, seconds: float) -> None:
        """Add an attempt; *seconds* counts where the service does not say when it began and ended."""
        self._used.append(_usage(view, self._placement or Placement(), seconds))

    def cost(self) -> Cost | None:
        """Return what was spent; None where nothing was followed. What cannot be found out is said in it."""
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
        used: list[Usage] = []
        tags = view.tags
        while retries_of(tags) and tags.get(TAG_RESUBMITTED) and len(used) < _MOST_EARLIER:
            before = self._service.details(tags[TAG_RESUBMITTED])
            used.append(_usage(before, self._placement or Placement(), 0.0))
            tags = before.tags
        return used


def _usage(view: JobView, placement: Placement, seconds: float) -> Usage:
    if view.started is not None and view.ended is not None:
        seconds = max(0.0, (view.ended - view.started).total_seconds())
    return Usage(job=view.name, nodes=placement.nodes, seconds=seconds)
