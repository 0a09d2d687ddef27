"""Clusters as ARM shows them: what is refused, kept and changed; sizes and quotas."""

from __future__ import annotations

from typing import Any

import pytest

from aml_emulator.domain.vm_sizes import parse_quotas, size_named, sizes
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


@pytest.mark.parametrize("kind", ["Kubernetes", "VirtualMachine"])
def test_other_kinds_of_compute_are_named(service: Service, kind: str) -> None:
    body = {"location": "eastus", "properties": {"computeType": kind}}
    answer = service.call("PUT", f"{WS}/computes/other?api-version=2024-01-01-preview", body)
    assert (answer.status, f"'{kind}'" in answer.json["error"]["message"]) == (501, True)
    assert [one["name"] for one in service.call("GET", f"{WS}/computes").json["value"]] == ["local-cluster"]


def test_a_compute_instance_is_stopped_and_started(service: Service) -> None:
    body = {
        "location": "eastus",
        "identity": {"type": "SystemAssigned"},
        "properties": {
            "computeType": "ComputeInstance",
            "properties": {"vmSize": "Standard_DS2_v2", "sshSettings": {"sshPublicAccess": "Disabled"}},
        },
    }
    path = f"{WS}/computes/mine"
    made = service.call("PUT", path, body)
    assert (made.status, made.json["properties"]["provisioningState"]) == (201, "Creating")
    assert made.json["properties"]["properties"]["state"] is None
    state = "Running"
    for operation, state in (
        ("Create", "Running"),
        ("stop", "Stopped"),
        ("start", "Running"),
        ("restart", "Running"),
    ):
        if operation != "Create":
            answer = service.call("POST", f"{path}/{operation}")
            assert (answer.status, "Azure-AsyncOperation" in answer.headers) == (202, True)
        properties = service.call("GET", path).json["properties"]
        inner = properties["properties"]
        assert (properties["computeType"], properties["provisioningState"]) == ("ComputeInstance", "Succeeded")
        assert (inner["state"], inner["lastOperation"]["operationName"].lower()) == (state, operation.lower())
        assert inner["vmSize"] == "STANDARD_DS2_V2"
        view = service.services.fleet.view("mine")
        assert view is not None
        assert view.scale.max_nodes == (state == "Running")
    changed = service.call("PUT", path, body)
    assert (changed.status, changed.json["properties"]["properties"]["state"]) == (200, state)
    assert service.call("DELETE", path).status == 202
    assert service.call("GET", path).status == 404


def test_jobs_wait_for_a_stopped_compute_instance(service: Service) -> None:
    body = {"properties": {"computeType": "ComputeInstance", "properties": {"vmSize": "Standard_DS2_v2"}}}
    service.call("PUT", f"{WS}/computes/mine", body)
    service.call("POST", f"{WS}/computes/mine/stop")
    service.submit("one", computeId=f"{WS}/computes/mine")
    fleet = service.services.fleet
    fleet.enqueue("one", "mine")
    assert not fleet.take("one", "mine")
    service.call("POST", f"{WS}/computes/mine/start")
    assert fleet.take("one", "mine")


def test_a_cluster_cannot_be_stopped(service: Service) -> None:
    put(service)
    refused = service.call("POST", f"{WS}/computes/gpu/stop")
    assert (refused.status, "is no compute instance" in refused.json["error"]["message"]) == (409, True)


def test_what_a_cluster_is_made_with_is_read_back_without_the_password(service: Service) -> None:
    users = {"adminUserName": "me", "adminUserPassword": "secret", "adminUserSshPublicKey": "ssh-rsa AAAA"}
    user_identity = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/one"
    made = put(
        service,
        outer={
            "tags": {"team": "a"},
            "identity": {
                "type": "SystemAssigned,UserAssigned",
                "userAssignedIdentities": {user_identity: {"principalId": None}},
            },
        },
        vmPriority="LowPriority",
        subnet={"id": "/subnets/one"},
        userAccountCredentials=users,
        remoteLoginPortPublicAccess="Enabled",
    )
    assert made.status == 201
    assert "Azure-AsyncOperation" in made.headers
    seen = service.call("GET", f"{WS}/computes/gpu").json
    inner = seen["properties"]["properties"]
    assert inner["userAccountCredentials"] == {"adminUserName": "me", "adminUserSshPublicKey": "ssh-rsa AAAA"}
    assert "secret" not in str(seen)
    assert (inner["vmPriority"], inner["subnet"], inner["remoteLoginPortPublicAccess"]) == (
        "LowPriority",
        {"id": "/subnets/one"},
        "Enabled",
    )
    assert inner["scaleSettings"]["nodeIdleTimeBeforeScaleDown"] == "PT3M"
    assert (seen["tags"], seen["identity"]["type"]) == ({"team": "a"}, "SystemAssigned,UserAssigned")
    assert seen["identity"]["principalId"] != seen["identity"]["userAssignedIdentities"][user_identity]["principalId"]


def test_scale_may_be_changed_and_size_may_not(service: Service) -> None:
    put(service, vmPriority="LowPriority")
    smaller = put(service, vmSize="standard_nc6s_v3", vmPriority=None, scaleSettings={"maxNodeCount": 1})
    assert smaller.status == 200
    assert smaller.json["properties"]["properties"]["scaleSettings"]["maxNodeCount"] == 1
    assert smaller.json["properties"]["properties"]["vmPriority"] == "LowPriority"
    changed = put(service, vmSize="Standard_DS3_v2", subnet={"id": "/x"})
    assert changed.status == 400
    assert "The vmSize, subnet of the compute 'gpu' cannot be changed" in changed.json["error"]["message"]
    body = {"properties": {"properties": {"scaleSettings": {"minNodeCount": 1, "maxNodeCount": 3}}}}
    patched = service.call("PATCH", f"{WS}/computes/gpu", body).json["properties"]["properties"]
    assert (patched["currentNodeCount"], patched["nodeStateCounts"]["idleNodeCount"]) == (1, 1)
    assert patched["vmSize"].upper() == "STANDARD_NC6S_V3"


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


def test_a_job_whose_cluster_went_with_the_service_fails_at_the_next_start(service: Service) -> None:
    put(service)
    service.submit("orphan", computeId=f"{WS}/computes/gpu")
    service.runner.submitted.clear()
    service.store.assets.delete_compute("gpu")
    service.jobs.resume()
    run = service.store.runs.require("orphan")
    assert (run.status, run.error_message) == (
        "Failed",
        "The compute target 'gpu' was deleted while the job was on it.",
    )
    assert service.runner.submitted == []


def test_sizes_say_what_they_are(service: Service) -> None:
    listed = {one["name"]: one for one in service.call("GET", f"{LOCATION}/vmSizes").json["value"]}
    assert len(listed) == len(sizes()) > 100
    big = listed["STANDARD_ND96ASR_V4"]
    assert (big["vCPUs"], big["gpus"], big["memoryGB"]) == (96, 8, 900.0)
    assert all("AmlCompute" in one["supportedComputeTypes"] for one in listed.values())
    size = size_named("STANDARD_HB120RS_V3")
    assert size is not None
    assert (size.infiniband, size.gpus) == (True, 0)
    assert service.call("GET", LOCATION.replace("eastus", "westus") + "/vmSizes").status == 404


def test_quotas_are_read() -> None:
    quotas = parse_quotas("standardncsv3family=12, *=24,lowPriorityCores=0")
    size = size_named("Standard_NC6s_v3")
    other = size_named("Standard_DS3_v2")
    assert size is not None
    assert other is not None
    assert quotas.limit(size, low_priority=False) == 12
    assert quotas.limit(size, low_priority=True) == 0
    assert quotas.limit(other, low_priority=False) == 24


@pytest.mark.parametrize(
    ("text", "message"),
    [("standardXFamily=1", "no family of sizes called 'standardXFamily'"), ("*=many", "is not FAMILY=VCPUS")],
)
def test_wrong_quotas_are_told(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_quotas(text)


def test_a_cluster_that_cannot_grow_says_so_while_jobs_wait(service: Service) -> None:
    object.__setattr__(service.services, "quotas", parse_quotas("standardNCSv3Family=6"))
    put(service, scaleSettings={"minNodeCount": 0, "maxNodeCount": 4})
    path = f"{WS}/computes/gpu?api-version=2024-01-01-preview"

    def errors() -> Any:
        return service.call("GET", path).json["properties"]["properties"]["errors"]

    fleet = service.services.fleet
    fleet.enqueue("run1", "gpu")
    assert fleet.take("run1", "gpu")
    assert errors() is None
    fleet.enqueue("run2", "gpu")
    ((only),) = errors()
    assert only["error"]["code"] == "ClusterCoreQuotaReached"
    assert "holds 1 of the 4 nodes" in only["error"]["message"]
    fleet.release("run1")
    assert fleet.take("run2", "gpu")
    assert errors() is None


def test_a_job_gets_the_memory_of_its_clusters_size_and_on_the_local_one_the_machines(service: Service) -> None:
    assert put(service).status == 201
    for name in ("gpu", "local-cluster"):
        assert service.submit(f"on-{name}", computeId=f"{WS}/computes/{name}").status == 201
    assert [spec.memory_bytes for spec in service.runner.submitted] == [112 * 2**30, None]
