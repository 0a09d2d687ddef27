"""Nodes and queues of clusters, by a clock that is set by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from aml_emulator.executor.nodes import ClusterView, Fleet, Scale, wanted


@dataclass
class Hand:
    """A clock."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def states(fleet: Fleet, cluster: str = "c") -> list[str]:
    view = view_of(fleet, cluster)
    return sorted(node.state for node in view.nodes)


def view_of(fleet: Fleet, cluster: str = "c") -> ClusterView:
    view = fleet.view(cluster)
    assert view is not None
    return view


@pytest.mark.parametrize(
    ("low", "high", "demand", "nodes"),
    [(0, 4, 0, 0), (0, 4, 3, 3), (0, 4, 9, 4), (2, 4, 0, 2), (2, 4, 3, 3), (0, 0, 5, 0), (1, 1, 5, 1)],
)
def test_a_cluster_wants_a_node_for_each_job_within_its_bounds(low: int, high: int, demand: int, nodes: int) -> None:
    assert wanted(Scale(min_nodes=low, max_nodes=high), demand=demand) == nodes


def test_jobs_of_a_cluster_take_its_nodes_in_their_order() -> None:
    fleet = Fleet(clock=Hand())
    fleet.configure("c", Scale(max_nodes=1))
    for run in ("a", "b", "x"):
        fleet.enqueue(run, "c")
    assert not fleet.take("b", "c")
    assert fleet.take("a", "c")
    assert not fleet.take("b", "c")
    assert (view_of(fleet).queue, view_of(fleet).in_state("running")) == (("b", "x"), 1)
    fleet.release("b")
    fleet.release("a")
    assert fleet.take("x", "c")
    assert view_of(fleet).nodes[0].run_id == "x"


def test_a_node_is_released_after_its_idle_time_and_not_before() -> None:
    clock = Hand()
    fleet = Fleet(clock=clock)
    fleet.configure("c", Scale(min_nodes=1, max_nodes=3, idle_seconds=120))
    assert states(fleet) == ["idle"]
    for run in ("a", "b", "x"):
        fleet.enqueue(run, "c")
        assert fleet.take(run, "c")
    assert states(fleet) == ["running"] * 3
    fleet.release("a")
    clock.now += 60
    fleet.release("b")
    clock.now += 59.9
    assert states(fleet) == ["idle", "idle", "running"]
    clock.now += 0.1
    assert states(fleet) == ["idle", "running"]
    fleet.release("x")
    clock.now += 1000
    assert states(fleet) == ["idle"]


def test_a_job_on_several_nodes_waits_until_all_are_there_and_gives_all_back() -> None:
    fleet = Fleet(clock=Hand())
    fleet.configure("c", Scale(max_nodes=3))
    fleet.enqueue("one", "c")
    fleet.enqueue("three", "c", nodes=3)
    fleet.enqueue("last", "c")
    assert fleet.take("one", "c")
    assert (view_of(fleet).target, view_of(fleet).waited_for) == (3, 4)
    assert not fleet.take("three", "c", nodes=3)
    assert not fleet.take("last", "c"), "the order of a cluster's jobs stays"
    fleet.release("one")
    assert fleet.take("three", "c", nodes=3)
    assert [node.run_id for node in view_of(fleet).nodes] == ["three"] * 3
    assert fleet.remove("c") == ("three", "last")
