from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pytest

from aml_train.config.sections.watch import CostConfig, Price, RetryConfig
from aml_train.core.errors import InvalidError
from aml_train.core.events import CostCounted
from aml_train.jobs.cost import Spending
from aml_train.jobs.pace import Cap
from aml_train.jobs.placement import NodeKind, Placement, placement_of, price_of
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from tests.support.fake_workspace import FakeClock, FakeService
from tests.unit.jobs.test_attempts import preempted
from tests.unit.pipeline.test_run import good_service, make_plan, run

S = JobStatus
A100 = NodeKind(size="Standard_ND96asr_v4", gpus=8)
PRICES = {"standard_nd96asr_v4": Price(dedicated=27.2, low_priority=5.0)}


class Nodes(FakeService):
    """Knows one kind of nodes."""

    def __init__(self, kind: NodeKind) -> None:
        super().__init__()
        self.kind_of_all = kind

    def node_kind(self, placement: Placement) -> NodeKind:
        return self.kind_of_all


def spent(config: CostConfig, kind: NodeKind, *hours: float, nodes: int = 1) -> tuple[Spending, Cap | None]:
    """Return what attempts of so many hours have spent, and the bound of the next one."""
    spending = Spending(config, Nodes(kind))
    job = JobView(name="j", status=S.QUEUED, placement=Placement(nodes=nodes))
    cap = spending.begin(job)
    for number, some in enumerate(hours):
        spending.ended(replace(job, name=f"j-{number}"), some * 3600)
        cap = spending.begin(job)
    return spending, cap


def test_node_hours_gpu_hours_and_money_add_up_over_the_attempts() -> None:
    cost = spent(CostConfig(currency="EUR", prices=PRICES), A100, 0.5, 2.0, nodes=4)[0].cost()
    assert cost is not None
    assert (cost.node_hours, cost.gpu_hours, cost.cost) == (10.0, 80.0, 272.0)
    assert cost.text == "10 node hours, 80 GPU hours, 272.00 EUR"
    assert cost.unknown == ""


@pytest.mark.parametrize(
    ("kind", "price"),
    [
        (A100, 27.2),
        (NodeKind(size="STANDARD_ND96ASR_V4", gpus=8), 27.2),
        (NodeKind(size="Standard_ND96asr_v4", spot=True), 5.0),
        (NodeKind(size="Standard_DS3_v2"), None),
        (NodeKind(), None),
    ],
)
def test_the_price_is_that_of_size_and_tier(kind: NodeKind, price: float | None) -> None:
    assert price_of(CostConfig(prices=PRICES), kind) == price


def test_spot_without_a_price_counts_as_dedicated_and_says_that_this_is_a_bound() -> None:
    spot = NodeKind(size="Standard_ND96asr_v4", gpus=8, spot=True)
    config = CostConfig(prices={"standard_nd96asr_v4": Price(dedicated=10.0)}, max_cost=40.0)
    spending, cap = spent(config, spot, 1.0)
    cost = spending.cost()
    assert cost is not None
    assert (cost.cost, cost.text) == (10.0, "1 node hours, 8 GPU hours, at most 10.00 USD")
    assert "count at the price of dedicated ones, 10 USD an hour, as the upper bound" in cost.unknown
    assert cap is not None
    assert cap.seconds == 3 * 3600
    (remark,) = spending.check({"resources": {"instance_type": "Standard_ND96asr_v4"}}, None)
    assert remark == cost.unknown
    own = replace(config, prices=PRICES)
    known = spent(own, spot, 1.0)[0].cost()
    assert known is not None
    assert (known.text, known.unknown) == ("1 node hours, 8 GPU hours, 5.00 USD", "")


def test_what_is_not_known_is_said_and_not_guessed() -> None:
    cost = spent(CostConfig(prices=PRICES), NodeKind(problem="AzureML does not say."), 1)[0].cost()
    assert cost is not None
    assert (cost.gpu_hours, cost.cost, cost.unknown) == (None, None, "AzureML does not say.")
    assert cost.text == "1 node hours"


def test_the_bounds_become_the_time_that_is_left() -> None:
    _, cap = spent(CostConfig(prices=PRICES, max_node_hours=10.0), A100, 0.5, nodes=4)
    assert cap is not None
    assert (cap.seconds, cap.text) == (2 * 3600, "10 node hours (cost.max-node-hours)")
    both = CostConfig(currency="EUR", prices=PRICES, max_node_hours=10.0, max_cost=54.4)
    _, cap = spent(both, A100)
    assert cap is not None
    assert (round(cap.seconds), cap.text) == (2 * 3600, "54.4 EUR (cost.max-cost)")
    assert spent(CostConfig(prices=PRICES), A100)[1] is None
    free = CostConfig(prices={"a": Price(dedicated=0.0)}, max_cost=1.0)
    assert spent(free, NodeKind(size="A"))[1] is None


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (NodeKind(size="Standard_X"), "has no dedicated price of Standard_X"),
        (NodeKind(size="Standard_X", spot=True), "has no dedicated price of Standard_X"),
        (NodeKind(problem="There is no compute c."), "There is no compute c."),
    ],
)
def test_a_bound_that_cannot_be_computed_is_an_error(kind: NodeKind, why: str) -> None:
    config = CostConfig(prices=PRICES, max_cost=1.0, where="aml-train.yml:7")
    with pytest.raises(InvalidError, match=r"aml-train\.yml:7: `cost\.max-cost` cannot be kept") as caught:
        spent(config, kind)
    assert why in caught.value.message
    assert "prices" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("document", "placement"),
    [
        ({"compute": "azureml:gpu"}, Placement(compute="gpu")),
        (
            {"compute": "/subscriptions/s/computes/gpu", "resources": {"instance_count": 4}},
            Placement(compute="gpu", nodes=4),
        ),
        (
            {
                "resources": {"instance_type": "Standard_X", "instance_count": 2},
                "queue_settings": {"job_tier": "Spot"},
            },
            Placement(nodes=2, size="Standard_X", spot=True),
        ),
        ({"compute": "x", "resources": {"instance_count": "${{parent}}"}}, Placement(compute="x")),
    ],
)
def test_what_a_document_asks_to_run_on(document: dict[str, Any], placement: Placement) -> None:
    assert placement_of(document) == placement


def test_a_run_tells_what_it_cost() -> None:
    service = good_service(script=[S.QUEUED, S.RUNNING, S.COMPLETED], nodes=A100)
    began = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    service.dates = {"started": began, "ended": began + datetime.timedelta(hours=1.5)}
    outcome, events = run(make_plan(cost=CostConfig(prices=PRICES)), service)
    facts = outcome.facts()
    assert (facts["node_hours"], facts["gpu_hours"]) == (1.5, 12.0)
    assert (facts["cost"], facts["currency"]) == (pytest.approx(40.8), "USD")
    (counted,) = [event for event in events if isinstance(event, CostCounted)]
    assert counted.text == "1.5 node hours, 12 GPU hours, 40.80 USD"


def test_the_attempts_add_up_and_the_bound_spans_them() -> None:
    began = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    dates = {"started": began, "ended": began + datetime.timedelta(hours=1)}
    for bound, attempts, status in ((10.0, 3, "passed"), (1.5, 2, "preempted")):
        service = preempted(2)
        service.dates = dict(dates)
        plan = make_plan(retry=RetryConfig(preempted=5), cost=CostConfig(max_node_hours=bound))
        outcome, _ = run(plan, service)
        assert outcome.status == status
        assert len(service.submitted) == attempts, "nothing is submitted for which nothing is left"
        assert outcome.cost is not None
        assert outcome.cost.node_hours == attempts


def test_a_run_that_reaches_its_bound_is_cancelled_and_counted() -> None:
    service = good_service(script=[S.QUEUED, S.RUNNING])
    clock = FakeClock()
    outcome, _ = run(make_plan(cost=CostConfig(max_node_hours=0.5)), service, clock=clock)
    assert (outcome.status, outcome.exit_code) == ("cancelled", 7)
    assert (
        "has reached its bound: 0.5 node hours (cost.max-node-hours); its cancellation was requested"
        in outcome.message
    )
    assert service.cancelled == [service.submitted[0].name]
    assert 1800 <= clock.time <= 1900
    assert outcome.cost is not None
    assert 0.5 <= outcome.cost.node_hours <= 0.53


def test_a_bound_that_cannot_be_kept_ends_the_run_before_anything_is_made() -> None:
    service = good_service()
    outcome, _ = run(make_plan(cost=CostConfig(max_cost=5.0, where="aml-train.yml:3")), service)
    assert (outcome.status, outcome.exit_code) == ("invalid", 2)
    assert "aml-train.yml:3: `cost.max-cost` cannot be kept" in outcome.message
    assert service.submitted == []
