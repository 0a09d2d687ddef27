"""Clusters and compute instances, when several clients change them at once."""

from __future__ import annotations

from typing import Any

import pytest

from aml_emulator.store.assets import AssetStore
from tests.unit.emulator.between import ask_between
from tests.unit.emulator.parts import WS, Answer, Service

PATH = f"{WS}/computes/gpu"


def scaled(most: int) -> dict[str, Any]:
    return {"properties": {"properties": {"scaleSettings": {"minNodeCount": 0, "maxNodeCount": most}}}}


def cluster(most: int = 1) -> dict[str, Any]:
    inner = {"vmSize": "STANDARD_NC6S_V3", **scaled(most)["properties"]["properties"]}
    return {"location": "eastus", "properties": {"computeType": "AmlCompute", "properties": inner}}


def at_once(
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    first: tuple[str, Any],
    second: tuple[str, Any],
    *,
    after: str = "compute",
) -> tuple[Answer, Answer]:
    """Return the answers to two requests of a compute target; the second comes *after* a step of the first."""
    (method, body), (other_method, other_body) = first, second
    path = f"{PATH}/start" if method == "POST" else PATH
    return ask_between(
        service, monkeypatch, (AssetStore, after), (method, path, body), (other_method, PATH, other_body)
    )


def test_changes_of_two_clients_are_both_kept(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert service.call("PUT", PATH, cluster()).status == 201
    answers = at_once(service, monkeypatch, ("PATCH", {"tags": {"team": "a"}}), ("PATCH", scaled(2)))
    assert [answer.status for answer in answers] == [200, 200]
    seen = service.call("GET", PATH).json
    assert seen["tags"] == {"team": "a"}
    assert seen["properties"]["properties"]["scaleSettings"]["maxNodeCount"] == 2


@pytest.mark.parametrize("change", [("PATCH", {"tags": {"team": "a"}}), ("PUT", cluster(2)), ("POST", None)])
def test_a_compute_target_that_is_deleted_meanwhile_stays_deleted(
    service: Service, monkeypatch: pytest.MonkeyPatch, change: tuple[str, Any]
) -> None:
    made = cluster()
    if change[0] == "POST":
        made["properties"]["computeType"] = "ComputeInstance"
    assert service.call("PUT", PATH, made).status == 201
    at_once(service, monkeypatch, change, ("DELETE", None))
    assert service.call("GET", PATH).status == 404
    assert service.services.fleet.view("gpu") is None


def test_of_two_clients_that_create_a_cluster_one_changes_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = at_once(service, monkeypatch, ("PUT", cluster(1)), ("PUT", cluster(2)))
    assert [answer.status for answer in answers] == [201, 200]
    assert service.call("GET", PATH).json["properties"]["properties"]["scaleSettings"]["maxNodeCount"] == 2


def test_a_cluster_has_the_nodes_of_the_last_change(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert service.call("PUT", PATH, cluster()).status == 201
    at_once(service, monkeypatch, ("PATCH", scaled(3)), ("PATCH", scaled(2)), after="put_compute")
    view = service.services.fleet.view("gpu")
    assert view is not None
    stored = service.call("GET", PATH).json["properties"]["properties"]["scaleSettings"]["maxNodeCount"]
    assert (view.scale.max_nodes, stored) == (2, 2)
