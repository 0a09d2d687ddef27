"""Clusters: their nodes and queues, and when nodes come and go. Pure.

A cluster grows with the jobs that wait for it and run on it, up to its maximum. A node that no job needs any longer is
released after the cluster's idle time, down to its minimum. Nothing is remembered over a restart: it releases the idle nodes.

See https://learn.microsoft.com/azure/machine-learning/how-to-create-attach-compute-cluster.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

NodeState = Literal["preparing", "idle", "running"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A cluster's least and greatest number of nodes, and the seconds of an idle one."""

    min_nodes: int = 0
    max_nodes: int = 1
    idle_seconds: float = 120.0
    low_priority: bool = False


@dataclass(kw_only=True)
class Node:
    """One node. *since* is when it came into its state, in seconds of the clock."""

    id: str
    state: NodeState
    since: float
    run_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """A cluster at one moment.

    Attributes:
        queue: the runs that wait.
        waited_for: how many nodes these need together.
        changed: when the number of nodes last changed.
    """

    scale: Scale
    nodes: tuple[Node, ...]
    queue: tuple[str, ...]
    waited_for: int
    changed: float

    def in_state(self, state: NodeState) -> int:
        """Return how many nodes are in that state."""
        return sum(node.state == state for node in self.nodes)

    @property
    def target(self) -> int:
        """How many nodes the cluster wants to have now."""
        return wanted(self.scale, demand=self.waited_for + self.in_state("running"))


def wanted(scale: Scale, *, demand: int) -> int:
    """Return the target number of a cluster's nodes for a *demand* of its jobs."""
    return max(min(scale.max_nodes, demand), scale.min_nodes)


@dataclass(kw_only=True)
class _Cluster:
    scale: Scale
    changed: float
    nodes: list[Node] = field(default_factory=list)
    queue: dict[str, int] = field(default_factory=dict)
    """How many nodes each waiting run needs, in the order in which they came."""

    @property
    def demand(self) -> int:
        return sum(self.queue.values()) + sum(node.state == "running" for node in self.nodes)


class Fleet:
    """All clusters, their waiting runs, and the runs on their nodes. Thread-safe.

    Args:
        clock: seconds.
        start_seconds: how long a node takes from being wanted until a job can run on it.
        seed: makes the names of the nodes.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, start_seconds: float = 0.0, seed: str = ""
    ) -> None:
        self._clock = clock
        self.start_seconds = start_seconds
        self._seed = seed
        self._numbers = count(1)
        self._clusters: dict[str, _Cluster] = {}
        self._lock = threading.RLock()

    def configure(self, name: str, scale: Scale) -> None:
        """Make a cluster, or change its scale; nodes that run stay until their jobs end."""
        with self._lock:
            known = self._clusters.get(name)
            if known is None:
                self._clusters[name] = _Cluster(scale=scale, changed=self._clock())
            else:
                known.scale = scale
            self._settle()

    def remove(self, name: str) -> tuple[str, ...]:
        """Remove a cluster; return its running runs, then its waiting ones."""
        with self._lock:
            known = self._clusters.pop(name, None)
            if known is None:
                return ()
            running = (node.run_id for node in known.nodes if node.run_id is not None)
            return (*dict.fromkeys(running), *known.queue)

    def clear(self) -> None:
        """Forget all clusters."""
        with self._lock:
            self._clusters.clear()

    def enqueue(self, run_id: str, cluster: str, *, nodes: int = 1) -> None:
        """Let a run wait for nodes; without such a cluster it needs none."""
        with self._lock:
            if cluster in self._clusters:
                self._clusters[cluster].queue[run_id] = nodes
                self._settle()

    def take(self, run_id: str, cluster: str, *, nodes: int = 1, at_once: bool = False) -> bool:
        """Assign nodes to a waiting run; return whether there were enough.

        A run without a cluster needs none.

        Runs of a cluster get its nodes in the order in which they came.

        Args:
            nodes: how many it needs.
            at_once: it runs already, whatever the cluster says: the nodes are there for it.
        """
        with self._lock:
            known = self._clusters.get(cluster)
            if known is None:
                return True
            self._settle()
            idle = [node for node in known.nodes if node.state == "idle"][:nodes]
            if at_once:
                idle += [self._new_node(known, "idle") for _ in range(nodes - len(idle))]
            elif len(idle) < nodes or next(iter(known.queue), None) != run_id:
                return False
            known.queue.pop(run_id, None)
            for node in idle:
                node.state, node.since, node.run_id = "running", self._clock(), run_id
            self._settle()
            return True

    def release(self, run_id: str) -> None:
        """Take a run out of its queue, or its nodes back."""
        with self._lock:
            for known in self._clusters.values():
                known.queue.pop(run_id, None)
                for node in known.nodes:
                    if node.run_id == run_id:
                        node.state, node.since, node.run_id = "idle", self._clock(), None
            self._settle()

    def next_node_seconds(self) -> float | None:
        """Return the seconds to the next node's start, None if none is starting."""
        with self._lock:
            self._settle()
            starting = [
                node.since for known in self._clusters.values() for node in known.nodes if node.state == "preparing"
            ]
            return max(0.0, min(starting) + self.start_seconds - self._clock()) if starting else None

    def view(self, name: str) -> ClusterView | None:
        """Return a cluster as it is now, or None."""
        with self._lock:
            self._settle()
            known = self._clusters.get(name)
            if known is None:
                return None
            return ClusterView(
                scale=known.scale,
                nodes=tuple(replace(node) for node in known.nodes),
                queue=tuple(known.queue),
                waited_for=sum(known.queue.values()),
                changed=known.changed,
            )

    def _settle(self) -> None:
        """Bring every cluster to what it is by now."""
        now = self._clock()
        for known in self._clusters.values():
            for node in known.nodes:
                if node.state == "preparing" and node.since + self.start_seconds <= now:
                    node.state, node.since = "idle", node.since + self.start_seconds
            self._shrink(known, now)
            while len(known.nodes) < wanted(known.scale, demand=known.demand):
                self._new_node(known, "idle" if self.start_seconds <= 0 else "preparing")

    def _shrink(self, known: _Cluster, now: float) -> None:
        """Release nodes over the maximum, and idle ones, the longest idle one first."""
        target = wanted(known.scale, demand=known.demand)
        for node in sorted(known.nodes, key=lambda node: node.since):
            if len(known.nodes) <= target:
                return
            rested = node.state == "idle" and now - node.since >= known.scale.idle_seconds
            surplus = len(known.nodes) > max(known.scale.max_nodes, known.scale.min_nodes) and node.state != "running"
            if rested or surplus or (node.state == "preparing"):
                known.nodes.remove(node)
                known.changed = now

    def _new_node(self, known: _Cluster, state: NodeState) -> Node:
        """Add a node, named as AzureML names its nodes."""
        name = hashlib.sha256(f"{self._seed}-{next(self._numbers)}".encode()).hexdigest()
        now = self._clock()
        node = Node(id=f"tvmps_{name}_{'p' if known.scale.low_priority else 'd'}", state=state, since=now)
        known.nodes.append(node)
        known.changed = now
        return node
