"""Clusters as ARM shows them: what is refused, kept and changed; sizes and quotas."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.emulator.parts import IDENTITY, WS, Answer, Service

LOCATION = f"/subscriptions/{IDENTITY.subscription_id}/providers/Microsoft.MachineLearningServices/locations/eastus"


def put(service: Service, name: str = "gpu", /, *, outer: dict[str, Any] | None = None, **inner: Any) -> Answer:
    scale = {"minNodeCount": 0, "maxNodeCount": 2, "nodeIdleTimeBeforeScaleDown": "PT3M"}
    properties = {"vmSize": "STANDARD_NC6S_V3", "scaleSettings": scale, **inner}
    body = {
        "location": "eastus",
        "properties": {"computeType": "AmlCompute", "properties": properties},
        **(outer or {}),
    }
    return service.call("PUT", f"{WS}/computes/{name}?api-version=2024-01-01-preview", body)


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        (
            {"vmSize": "Standard_NC6s_v33"},
            "'Standard_NC6s_v33' is not supported in the location 'eastus'. Near to it:",
        ),
        ({"vmSize": None}, "no vmSize"),
        ({"scaleSettings": {"minNodeCount": 3, "maxNodeCount": 2}}, "minNodeCount 3 is more than maxNodeCount 2"),
        ({"scaleSettings": {"maxNodeCount": -1}}, "whole numbers from 0"),
        ({"scaleSettings": {"maxNodeCount": 1, "nodeIdleTimeBeforeScaleDown": "2m"}}, "not a duration: '2m'"),
        ({"vmPriority": "Spot"}, "'LowPriority', not 'Spot'"),
        (
            {"vmSize": "Standard_D64s_v3", "scaleSettings": {"minNodeCount": 5, "maxNodeCount": 5}},
            "DSv3 Family vCPU quota of 300 and cannot accommodate for at least 5 requested managed compute nodes which maps to 320",
        ),
    ],
)
def test_what_azure_refuses_is_refused_at_creation(service: Service, inner: dict[str, Any], message: str) -> None:
    answer = put(service, **inner)
    assert answer.status == 400
    assert message in answer.json["error"]["message"]
    assert service.store.assets.compute("gpu") is None


def test_nodes_and_the_queue_are_shown(service: Service) -> None:
    put(service, scaleSettings={"minNodeCount": 0, "maxNodeCount": 1})
    for name in ("one", "two"):
        service.submit(name, computeId=f"{WS}/computes/gpu")
        service.services.fleet.enqueue(name, "gpu")
    assert [spec.compute for spec in service.runner.submitted] == ["gpu", "gpu"]
    assert service.services.fleet.take("one", "gpu")
    nodes = service.call("POST", f"{WS}/computes/gpu/listNodes").json["nodes"]
    assert [(node["nodeState"], node["runId"]) for node in nodes] == [("running", "one")]
    usage = {one["name"]["value"]: one for one in service.call("GET", f"{LOCATION}/usages").json["value"]}
    assert (usage["standardNCSv3Family"]["currentValue"], usage["standardNCSv3Family"]["limit"]) == (6, 300)
    deleted = service.call("DELETE", f"{WS}/computes/gpu?underlyingResourceAction=Delete")
    assert deleted.status == 202
    message = "The compute target 'gpu' was deleted while the job was on it."
    assert {run: error.message for run, error in service.runner.failed.items()} == {"one": message, "two": message}
