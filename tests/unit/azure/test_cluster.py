"""A cluster that is to be, beside the one that is: what differs, what is sent, what is told where it is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from aml_train.azure import compute as azure_compute
from aml_train.azure.compute import differences, ensure_cluster
from aml_train.azure.http import AzureHttp
from aml_train.config.sections.targets import ClusterConfig
from aml_train.core.errors import InvalidError
from aml_train.core.events import Event, Notice
from tests.support.fake_workspace import FakeClock
from tests.support.plain_answers import answered

CLUSTER = ClusterConfig(name="gpu", size="Standard_NC6s_v3", max_nodes=4, where="aml-train.yml:7")
SUBNET = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/net/subnets/sub"
USER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/trainer"


def shown(state: str = "Succeeded", *, identity: Mapping[str, Any] | None = None, **inner: Any) -> dict[str, Any]:
    """Return the cluster as Azure Resource Manager shows it."""
    scale = {"minNodeCount": 0, "maxNodeCount": 4, "nodeIdleTimeBeforeScaleDown": "PT2M"}
    properties = {"vmSize": "STANDARD_NC6S_V3", "vmPriority": "Dedicated", "scaleSettings": scale, **inner}
    return {
        "identity": identity,
        "properties": {"computeType": "AmlCompute", "provisioningState": state, "properties": properties},
    }


class Compute:
    """azure-ai-ml's operations on computes, as far as they are used."""

    def __init__(self, refuse: Exception | None) -> None:
        self.refuse = refuse
        self.put: list[Any] = []

    def begin_create_or_update(self, entity: Any) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.put.append(entity)


class Service:
    """A workspace that shows one state of the compute after another, the last one for ever."""

    find_compute = AzureHttp.find_compute
    vm_sizes = AzureHttp.vm_sizes

    def __init__(self, states: Sequence[Mapping[str, Any] | None], *, refuse: Exception | None = None) -> None:
        self._states: Iterator[Mapping[str, Any] | None] = iter(states)
        self._last: Mapping[str, Any] | None = None
        self.sizes: Any = {"value": [{"name": "STANDARD_NC6S_V3"}, {"name": "STANDARD_DS3_V2"}]}
        self.compute = Compute(refuse)
        self.client = self
        self.workspace = dataclasses.make_dataclass("Place", ["subscription_id"])("sub")
        self.cloud = dataclasses.make_dataclass("Cloud", ["arm"])("https://arm")

    def arm(self, path: str) -> str:
        return f"https://arm/ws{path}"

    def location(self) -> str:
        return "eastus"

    def read(self, url: str, _what: str, *, params: Mapping[str, str]) -> Any:
        assert "api-version" in params
        if url.endswith("/vmSizes"):
            if isinstance(self.sizes, Exception):
                raise self.sizes
            return answered(self.sizes)
        self._last = next(self._states, self._last)
        return answered(self._last)


def ensure(service: Service, cluster: ClusterConfig = CLUSTER) -> list[str]:
    """Run and return what was told."""
    received: list[Event] = []
    ensure_cluster(service, cluster, listener=received.append, clock=FakeClock())  # type: ignore[arg-type]
    return [event.text for event in received if isinstance(event, Notice)]


@pytest.fixture(autouse=True)
def _without_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent is looked at with the SDK itself: tests/integration/emulator/test_ensure_compute.py."""
    monkeypatch.setattr(azure_compute, "_entity", lambda cluster: cluster)


def test_a_cluster_that_differs_is_told_and_used_as_it_is() -> None:
    service = Service([shown(scaleSettings={"maxNodeCount": 2, "nodeIdleTimeBeforeScaleDown": "PT2M"})])
    [told] = ensure(service)
    assert told.startswith(
        "The compute gpu is not what aml-train.yml:7 says: max-nodes is 2, not 4. It is used as it is."
    )
    assert told.endswith("`update: true` there changes it.")
    assert service.compute.put == []


def test_a_cluster_that_differs_is_changed_where_that_is_wanted() -> None:
    service = Service([shown(scaleSettings={"maxNodeCount": 2, "nodeIdleTimeBeforeScaleDown": "PT1H"}), shown()])
    told = ensure(service, dataclasses.replace(CLUSTER, update=True))
    assert told == ["Changing the compute gpu: max-nodes is 2, not 4; idle is 3600s, not 120s."]
    assert len(service.compute.put) == 1


def test_what_azure_changes_for_no_cluster_is_refused() -> None:
    service = Service([shown(vmSize="Standard_DS3_v2")])
    with pytest.raises(
        InvalidError, match=r"aml-train.yml:7: the compute gpu cannot become .*size is Standard_DS3_v2"
    ):
        ensure(service, dataclasses.replace(CLUSTER, update=True))
    assert service.compute.put == []


def test_a_compute_that_is_no_cluster_is_refused() -> None:
    other = {"properties": {"computeType": "ComputeInstance", "provisioningState": "Succeeded"}}
    with pytest.raises(InvalidError, match="gpu is there and is a ComputeInstance, not a cluster"):
        ensure(Service([other]))


def test_an_unknown_size_is_told_with_the_nearest() -> None:
    service = Service([None])
    with pytest.raises(
        InvalidError, match=r"aml-train.yml:7: there is no VM size 'Standard_NC6s_v33' in eastus.*NC6S_V3"
    ):
        ensure(service, dataclasses.replace(CLUSTER, size="Standard_NC6s_v33"))
    assert service.compute.put == []


@pytest.mark.parametrize(
    ("changes", "found", "keys"),
    [
        ({}, {}, []),
        ({"tier": "spot"}, {"vmPriority": "LowPriority"}, []),
        ({"tier": "spot"}, {}, ["tier"]),
        ({"subnet": "Net/Sub"}, {"subnet": {"id": SUBNET}}, []),
        ({"subnet": SUBNET.upper()}, {"subnet": {"id": SUBNET}}, []),
        ({"subnet": "other/sub"}, {"subnet": {"id": SUBNET}}, ["subnet"]),
        ({}, {"subnet": {"id": SUBNET}}, ["subnet"]),
        ({"identity": ("system", USER.lower())}, {}, ["identity"]),
        ({"idle_seconds": 60.0, "min_nodes": 1}, {}, ["min-nodes", "idle"]),
    ],
)
def test_differences(changes: dict[str, Any], found: dict[str, Any], keys: list[str]) -> None:
    cluster = dataclasses.replace(CLUSTER, **changes)
    assert [one.key for one in differences(cluster, answered(shown(**found)))] == keys
