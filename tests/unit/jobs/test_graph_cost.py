from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from aml_train.config.sections.watch import CostConfig, Price
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.jobs.composed import ChildView
from aml_train.jobs.cost import Spending
from aml_train.jobs.placement import NodeKind, Placement
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from tests.support.memory_graphs import GraphService
from tests.unit.pipeline.test_run import make_plan, run

S = JobStatus
BEGAN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
KINDS = {"cpu": NodeKind(size="Small", gpus=0), "gpu": NodeKind(size="Big", gpus=8), "new": NodeKind(size="New")}
PRICES = {"small": Price(dedicated=1.0), "big": Price(dedicated=30.0)}


class Service(GraphService):
    """Knows the kinds of the computes."""

    def node_kind(self, placement: Placement) -> NodeKind:
        self.placements.append(placement)
        return KINDS.get(placement.compute or "", NodeKind(problem=f"There is no compute {placement.compute}."))


def hours(number: float) -> datetime.datetime:
    return BEGAN + datetime.timedelta(hours=number)


def node(name: str, start: float | None = 0, end: float | None = None, **more: Any) -> ChildView:
    status = S.RUNNING if end is None else S.COMPLETED
    given: dict[str, Any] = {"status": status, "compute": "cpu", **more}
    started, ended = None if start is None else hours(start), None if end is None else hours(end)
    return ChildView(name=f"run-{name}", node=name, started=started, ended=ended, **given)


def service(children: Sequence[ChildView], **parts: Sequence[ChildView]) -> Service:
    found = Service(parts={"job": children, **{name.replace("_", "-"): some for name, some in parts.items()}})
    found.jobs["job"] = JobView(name="job", status=S.RUNNING)
    return found


def test_nodes_count_side_by_side_on_the_kinds_of_their_computes() -> None:
    nodes = [node("a", 0, 1), node("b", 0, 2, compute="gpu", nodes=2), node("c", 1, 3, reused_from="old")]
    spending = Spending(CostConfig(prices=PRICES), service(nodes))
    assert spending.cost() is None
    spending.ended(JobView(name="job", status=S.COMPLETED), 0.0)
    cost = spending.cost()
    assert cost is not None
    assert (cost.node_hours, cost.gpu_hours, cost.cost) == (5.0, 32.0, 121.0)


def test_inner_pipelines_and_sweeps_count_by_their_nodes_and_trials() -> None:
    whole = [
        node("sub", 0, 9, kind="pipeline"),
        node("tune", 0, 9, kind="sweep"),
        node("was", 0, 9, kind="sweep", reused_from="x"),
    ]
    parts = {"run_sub": [node("x", 0, 1), node("search", 0, 1, kind="sweep")], "run_search": [node("t", 0, 2)]}
    found = service(whole, run_tune=[node("t0", 0, 1), node("t1", 1, 5)], **parts)
    spending = Spending(CostConfig(), found)
    spending.ended(JobView(name="job", status=S.COMPLETED), 0.0)
    cost = spending.cost()
    assert cost is not None
    assert cost.node_hours == 1 + 2 + 1 + 4


@pytest.mark.parametrize(
    ("config", "now", "text"),
    [
        (CostConfig(max_node_hours=3.0), 1.4, None),
        (CostConfig(max_node_hours=3.0), 1.6, "3 node hours (cost.max-node-hours)"),
        (CostConfig(prices=PRICES, currency="EUR", max_cost=50.0), 1.4, None),
        (CostConfig(prices=PRICES, currency="EUR", max_cost=50.0), 1.7, "50 EUR (cost.max-cost)"),
        (CostConfig(), 99.0, None),
    ],
)
def test_running_nodes_count_up_to_now(config: CostConfig, now: float, text: str | None) -> None:
    children = [node("a"), node("b", compute="gpu"), node("queued", None)]
    over = Spending(config, service(children)).exceeded("job", children, hours(now))
    assert (None if over is None else over.text) == (text and f"The job job has reached its bound: {text}")


def test_a_compute_without_a_price_cannot_be_kept_within_a_bound() -> None:
    children = [node("a", compute="new")]
    config = CostConfig(prices=PRICES, max_cost=50.0, where="aml-train.yml:3")
    over = Spending(config, service(children)).exceeded("job", children, hours(1))
    assert over is not None
    assert (
        "aml-train.yml:3: `cost.max-cost` cannot be kept: `cost.prices` has no dedicated price of New." in over.text
    )


def test_nodes_that_are_not_listed_are_told() -> None:
    class Away(Service):
        def children(self, name: str) -> Sequence[ChildView]:
            raise ServiceError("no answer", transient=True)

    children = [node("a", 0, 1)]
    spending = Spending(CostConfig(max_node_hours=9.0), Away())
    spending.exceeded("job", children, hours(1))
    spending.ended(JobView(name="job", status=S.RUNNING), 0.0)
    cost = spending.cost()
    assert cost is not None
    assert (cost.node_hours, cost.unknown) == (1.0, "Not all nodes are counted: no answer")


@pytest.mark.parametrize(
    ("compute", "wrong"), [("cpu", None), ("new", "no dedicated price of New"), ("${{parent.inputs.where}}", None)]
)
def test_a_bound_is_checked_for_each_compute_before_anything_is_made(compute: str, wrong: str | None) -> None:
    document: Mapping[str, Any] = {"jobs": {"a": {"command": "x", "compute": compute}}}
    spending = Spending(CostConfig(prices=PRICES, max_cost=5.0), service([]))
    if wrong is None:
        spending.check(document, None)
        return
    with pytest.raises(InvalidError, match=wrong):
        spending.check(document, None)


def test_a_pipeline_that_reaches_its_bound_is_cancelled_and_counted() -> None:
    found = Service(script=(S.QUEUED, S.RUNNING), parts={"": [node("a"), node("b")]})
    found.dates = {"observed": hours(2)}
    outcome, _ = run(make_plan(cost=CostConfig(max_node_hours=3.0)), found)
    assert (outcome.status, outcome.exit_code) == ("cancelled", 7)
    assert (
        "has reached its bound: 3 node hours (cost.max-node-hours); its cancellation was requested" in outcome.message
    )
    assert found.cancelled == [found.submitted[0].name]
    assert outcome.cost is not None
    assert outcome.cost.node_hours == 4.0
