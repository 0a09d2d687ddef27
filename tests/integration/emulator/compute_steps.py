"""What a user's scripts do with clusters, with the real azure-ai-ml. Run as a program: see client_steps.py."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from client_steps import client, wait  # type: ignore[import-not-found]  # it lies beside this script

from tests.integration.emulator.holding import HOLD, let_go


def value_of(entity: Any, attribute: str, name: str) -> Any:
    """Return a value of what the client read.

    azure-ai-ml 1.35.2 keeps the values of nodes and sizes under the service's names, next to attributes that stay None
    (AmlComputeNodeInfo and VmSize, ``_from_rest_object``); before, the attributes had them.
    """
    return vars(entity).get(name, vars(entity).get(attribute))


def nodes_of(ml: Any, cluster: str) -> list[dict[str, Any]]:
    """Return state and job of the nodes of *cluster*."""
    return [
        {"state": value_of(node, "node_state", "nodeState"), "job": value_of(node, "run_id", "runId")}
        for node in ml.compute.list_nodes(cluster)
    ]


def clusters(given: dict[str, str]) -> dict[str, Any]:
    """Make a cluster with every setting, read it back, change it; what there is to choose; what is refused."""
    from azure.ai.ml.entities import (
        AmlCompute,
        AmlComputeSshSettings,
        IdentityConfiguration,
        KubernetesCompute,
        ManagedIdentityConfiguration,
        NetworkSettings,
    )
    from azure.core.exceptions import HttpResponseError

    ml = client(given)
    group = f"/subscriptions/{given['subscription']}/resourcegroups/{given['group']}/providers"
    user_identity = f"{group}/Microsoft.ManagedIdentity/userAssignedIdentities/trainer"
    wanted = AmlCompute(
        name="full",
        size="Standard_NC6s_v3",
        min_instances=1,
        max_instances=2,
        idle_time_before_scale_down=90,
        tier="low_priority",
        tags={"team": "a"},
        identity=IdentityConfiguration(
            type="UserAssigned", user_assigned_identities=[ManagedIdentityConfiguration(resource_id=user_identity)]
        ),
        network_settings=NetworkSettings(vnet_name="net", subnet="sub"),
        ssh_settings=AmlComputeSshSettings(admin_username="me", admin_password="Secret-1"),
        ssh_public_access_enabled=True,
    )
    ml.compute.begin_create_or_update(wanted).result()
    seen = ml.compute.get("full")
    nodes = [node["state"] for node in nodes_of(ml, "full")]
    seen.max_instances = 3
    seen.min_instances = 0
    seen.idle_time_before_scale_down = 1
    changed = ml.compute.begin_update(seen).result()
    refused = {}
    for name, compute in {
        "size": AmlCompute(name="odd", size="Standard_Huge_v9", max_instances=1),
        "quota": AmlCompute(name="odd", size="Standard_ND96asr_v4", min_instances=4, max_instances=4),
        "resize": AmlCompute(name="full", size="Standard_DS3_v2", tier="low_priority"),
        "kind": KubernetesCompute(
            name="my-kubernetes", resource_id=f"{group}/Microsoft.ContainerService/managedClusters/mine"
        ),
    }.items():
        try:
            ml.compute.begin_create_or_update(compute).result()
        except HttpResponseError as error:
            refused[name] = [error.status_code, str(error.message)]
    sizes = {
        size.name: [value_of(size, "v_cp_us", "vCPUs"), size.gpus]
        for size in ml.compute.list_sizes(compute_type="amlcompute")
    }
    usage = {
        item.name["value"]: [value_of(item, "current_value", "currentValue"), item.limit]
        for item in ml.compute.list_usage()
    }
    listed = sorted(compute.name for compute in ml.compute.list())
    ml.compute.begin_delete("full").result()
    return {
        "seen": [seen.size, seen.tier, seen.tags, seen.ssh_settings.admin_username, seen.ssh_settings.admin_password],
        "subnet": seen.network_settings.subnet,
        "identity": [seen.identity.type, seen.identity.user_assigned_identities[0].resource_id == user_identity],
        "ssh": seen.ssh_public_access_enabled,
        "nodes": nodes,
        "changed": [changed.min_instances, changed.max_instances, changed.idle_time_before_scale_down],
        "refused": refused,
        "sizes": sizes,
        "usage": usage,
        "listed": listed,
    }


def queues(given: dict[str, str]) -> dict[str, Any]:
    """Two jobs on a cluster of one node; one on a cluster of none; a cluster deleted under its jobs."""
    from azure.ai.ml import command
    from azure.ai.ml.entities import AmlCompute, Environment

    ml = client(given)
    ml.environments.create_or_update(Environment(name="queue-env", version="1", image="python:3.11-slim-bookworm"))
    for name, most in (("single", 1), ("closed", 0), ("doomed", 1)):
        compute = AmlCompute(name=name, size="Standard_DS3_v2", max_instances=most, idle_time_before_scale_down=2)
        ml.compute.begin_create_or_update(compute).result()

    def submit(compute: str, text: str) -> str:
        job = command(command=text, environment="queue-env:1", compute=compute)
        return str(ml.jobs.create_or_update(job).name)

    first, second = submit("single", f"python -c '{HOLD}'"), submit("single", "echo second")
    closed = submit("closed", "echo never")
    doomed, behind = submit("doomed", "sleep 36000"), submit("doomed", "echo never")
    wait(ml, first, until=("Running",))
    wait(ml, doomed, until=("Running",))
    meanwhile = {name: ml.jobs.get(name).status for name in (second, closed, behind)}
    nodes = [[node["state"], node["job"] == first] for node in nodes_of(ml, "single")]
    ml.compute.begin_delete("doomed").result()
    seen_second = [ml.jobs.get(second).status]
    let_go(given, first)
    seen_second += wait(ml, second)
    ml.jobs.begin_cancel(closed).result()
    wait(ml, closed)
    wait(ml, doomed)
    left: list[int] = []
    deadline = time.monotonic() + 300
    while (not left or left[-1]) and time.monotonic() < deadline:
        left.append(len(list(ml.compute.list_nodes("single"))))
        time.sleep(0.1)
    return {
        "names": [first, second],
        "meanwhile": list(meanwhile.values()),
        "nodes": nodes,
        "second": seen_second,
        "first": ml.jobs.get(first).status,
        "closed": ml.jobs.get(closed).status,
        "doomed": [ml.jobs.get(doomed).status, ml.jobs.get(behind).status],
        "why": ml.jobs.get(doomed).properties["errorMessage"],
        "left": left[-1],
    }


STEPS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {"clusters": clusters, "queues": queues}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))) + "\n")
