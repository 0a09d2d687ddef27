"""The workspace in memory of :mod:`aml_train.testing`, and its clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aml_train.azure.compute import title, to_be_changed
from aml_train.config.sections.targets import ClusterConfig
from aml_train.core.answers import Answer
from aml_train.core.errors import ServiceError
from aml_train.core.events import Listener, Notice
from aml_train.testing import memory
from aml_train.testing.memory import CLUSTER, LOG, MemoryJob, Training, TrainingFailedError, nothing

__all__ = ["CLUSTER", "LOG", "MemoryJob", "MemoryService", "Training", "TrainingFailedError", "nothing"]


def _resource(cluster: ClusterConfig) -> dict[str, Any]:
    """Return a cluster as Azure Resource Manager shows it, as far as :func:`aml_train.jobs.cluster.differences` looks."""
    inner: dict[str, Any] = {
        "vmSize": cluster.size,
        "vmPriority": "LowPriority" if cluster.tier == "spot" else "Dedicated",
        "scaleSettings": {
            "minNodeCount": cluster.min_nodes,
            "maxNodeCount": cluster.max_nodes,
            "nodeIdleTimeBeforeScaleDown": f"PT{cluster.idle_seconds:g}S",
        },
    }
    if cluster.subnet is not None:
        vnet, _, subnet = cluster.subnet.rpartition("/")
        own = cluster.subnet.startswith("/")
        inner["subnet"] = {"id": cluster.subnet if own else f"/virtualNetworks/{vnet}/subnets/{subnet}"}
    identity: dict[str, Any] = {
        "type": "SystemAssigned" if "system" in cluster.identity else "None",
        "userAssignedIdentities": {user: {} for user in cluster.identity if user != "system"},
    }
    return {"identity": identity, "properties": {"computeType": "AmlCompute", "properties": inner}}


@dataclass
class MemoryService(memory.MemoryService):
    """A workspace in memory that has, makes and changes clusters as the adapters do."""

    def ensure_compute(self, cluster: ClusterConfig, *, listener: Listener) -> None:
        """Have the cluster there, as a target does it; *listener* is told what is made, changed, and left as it is.

        Raises:
            InvalidError: a cluster of that name cannot become what is said.
        """
        self._answer()
        found = self.computes.get(cluster.name)
        if found is None:
            listener(Notice(text=f"Making the compute {title(cluster)}."))
            self.computes[cluster.name] = cluster
            listener(Notice(text=f"The compute {cluster.name} is there."))
        elif to_be_changed(cluster, Answer(_resource(found), ServiceError), listener):
            self.computes[cluster.name] = cluster
