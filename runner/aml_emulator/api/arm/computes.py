"""Compute targets, VM sizes and quotas, and the operations on clusters.

Every compute is this one machine: a cluster's nodes are places in its queue, whatever their size says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.api.errors import resource_not_found
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.shapes import cut, iso, page, resource
from aml_emulator.context import Context
from aml_emulator.domain.clusters import LOW_PRIORITY, check_cluster, cluster_view, family_title, stored_cluster
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.vm_sizes import LOW_PRIORITY_FAMILY, VmSize, size_named, sizes
from aml_emulator.schema import OBJECT, TEXT, WHOLE, Fields
from aml_emulator.store.assets import Compute

PAGE = 100
OF_V1 = "2020-02-02"
"""The version of Azure Resource Manager's interface that azureml-core uses for computes."""
RETRY_AFTER = {"Retry-After": "1", "x-ms-retry-after-ms": "100"}
"""When a client may ask again, in seconds and milliseconds; without it (or with 0) Azure's clients wait 30 s."""


_NO_NODES = dict.fromkeys(("allocationState", "currentNodeCount", "targetNodeCount", "nodeStateCounts"))

_CLUSTER = Fields(
    {
        "vmSize": TEXT,
        "vmPriority": TEXT,
        "osType": TEXT,
        "scaleSettings": Fields({"minNodeCount": WHOLE, "maxNodeCount": WHOLE, "nodeIdleTimeBeforeScaleDown": TEXT}),
        "userAccountCredentials": OBJECT,
        "subnet": OBJECT,
    }
)
COMPUTE = Fields(
    {
        "location": TEXT,
        "tags": OBJECT,
        "identity": Fields({"type": TEXT, "userAssignedIdentities": OBJECT}),
        "properties": Fields({"computeType": TEXT, "properties": _CLUSTER}),
    }
)


def routes(context: Context, jobs: JobService) -> Sequence[Route]:
    """Return the routes of compute targets, sizes and operations."""
    computes = Computes(context, jobs)
    operations = "/subscriptions/{sub}/providers/Microsoft.MachineLearningServices/locations/{location}"
    return (
        Route("GET", "{WS}/computes", computes.list),
        Route("GET", "/rp/workspaces{WS}/computes", computes.list),
        Route("GET", "/rp/workspaces{WS}/computes/{name}", computes.get),
        Route("GET", "{WS}/computes/{name}", computes.get),
        Route("PUT", "{WS}/computes/{name}", computes.put),
        Route("PATCH", "{WS}/computes/{name}", computes.patch),
        Route("DELETE", "{WS}/computes/{name}", computes.delete),
        Route("POST", "{WS}/computes/{name}/listNodes", computes.nodes),
        Route("GET", f"{operations}/vmSizes", computes.sizes),
        Route("GET", f"{operations}/usages", computes.usages),
        Route("GET", f"{operations}/computeOperationsStatus/{{id}}", computes.status),
    )


class Computes:
    """Answers for compute targets."""

    def __init__(self, context: Context, jobs: JobService) -> None:
        self._context = context
        self._jobs = jobs

    def list(self, call: Call) -> dict[str, Any]:
        """Return compute targets, in pages."""
        shown, following = cut(self._context.store.assets.computes(), call.integer("$skip", 0), PAGE)
        return page(call, [self._view(compute) for compute in shown], following)

    def get(self, call: Call) -> dict[str, Any]:
        """Return one compute target."""
        return self._view(self._known(call))

    def put(self, call: Call) -> Reply:
        """Create or change a compute target."""
        name, body = call.params["name"], call.json(COMPUTE)
        with self._context.store.transaction():
            known = self._context.store.assets.compute(name)
            compute = self._stored(name, body, known)
        self._jobs.scale(name)
        if known is not None:
            return self._started(compute, "updated", 200)
        reply = self._started(compute, "created", 201)
        # The answer to a creation shows a cluster that has no nodes yet.
        properties = reply.value["properties"]
        properties |= {"provisioningState": "Creating", "properties": {**properties["properties"], **_NO_NODES}}
        return reply

    def patch(self, call: Call) -> Reply:
        """Change the scale settings of a compute target."""
        changes = call.json(COMPUTE)
        with self._context.store.transaction():
            known = self._known(call)
            compute = self._stored(known.name, _changed(known.body, changes), known)
        self._jobs.scale(known.name)
        return self._started(compute, "updated", 200)

    def delete(self, call: Call) -> Reply:
        """Delete a compute target; jobs that wait for it or run on it fail."""
        known = self._known(call)
        self._jobs.remove_compute(known.name)
        operation = self._context.store.assets.start_operation("compute", known.name)
        return Reply(status=202, headers=self._headers(operation))

    def nodes(self, call: Call) -> dict[str, Any]:
        """Return the nodes that a cluster has now."""
        known = self._known(call)
        view = self._context.fleet.view(known.name)
        return {
            "nodes": [
                {
                    "nodeId": node.id,
                    "privateIpAddress": f"10.0.0.{4 + number}",
                    "publicIpAddress": None,
                    "port": 50000 + number,
                    "nodeState": node.state,
                    "runId": node.run_id,
                }
                for number, node in enumerate(view.nodes if view else ())
            ]
            # No link at all: azureml-core follows a null.
        }

    def sizes(self, call: Call) -> dict[str, Any]:
        """Return the sizes that clusters can have."""
        found = [_size_view(size) for size in sizes().values()]
        # The version that azureml-core asks for had another word.
        return {"amlCompute" if call.query.get("api-version") == OF_V1 else "value": found}

    def usages(self, _call: Call) -> dict[str, Any]:
        """Return the vCPUs that nodes have now, and may have, by family of sizes."""
        context = self._context
        used: Counter[str] = Counter()
        for compute in context.store.assets.computes():
            inner = compute.body["properties"].get("properties") or {}
            size, view = size_named(str(inner.get("vmSize"))), context.fleet.view(compute.name)
            if size is not None and view is not None:
                low = inner.get("vmPriority") == LOW_PRIORITY
                used[LOW_PRIORITY_FAMILY if low else size.family] += size.cores * len(view.nodes)
        one_of_each = {size.family: size for size in sizes().values()}
        found = [
            self._usage(family, used[family], context.quotas.limit(size, low_priority=False))
            for family, size in one_of_each.items()
        ]
        any_size = next(iter(sizes().values()))
        shared = context.quotas.limit(any_size, low_priority=True)
        return {
            "value": [*found, self._usage(LOW_PRIORITY_FAMILY, used[LOW_PRIORITY_FAMILY], shared)],
            "nextLink": None,
        }

    def _usage(self, family: str, used: int, limit: int) -> dict[str, Any]:
        identity = self._context.identity
        title = f"{family_title(family)} Cluster Dedicated vCPUs"
        if family == LOW_PRIORITY_FAMILY:
            title = "Total Cluster LowPriority Regional vCPUs"
        return {
            "id": f"{identity.location_id}/usages/{family}",
            "type": "Microsoft.MachineLearningServices/locations/usages",
            "amlWorkspaceLocation": identity.location,
            "unit": "Count",
            "currentValue": used,
            "limit": limit,
            "name": {"value": family, "localizedValue": title},
        }

    def status(self, call: Call) -> dict[str, Any]:
        """Return the state of an operation on a compute target: it has succeeded."""
        known = self._context.store.assets.operation(call.params["id"])
        if known is None:
            raise resource_not_found(f"computeOperationsStatus/{call.params['id']}")
        return {
            "id": f"{self._context.identity.location_id}/computeOperationsStatus/{call.params['id']}",
            "name": call.params["id"],
            "status": "Succeeded",
            "startTime": iso(known[2]),
            "endTime": iso(known[2]),
            "percentComplete": 100.0,
        }

    def _stored(self, name: str, body: Mapping[str, Any], known: Compute | None) -> Compute:
        """Check and store a compute target."""
        identity = self._context.identity
        body = stored_cluster(body, identity, known)
        check_cluster(name, body, self._context.quotas, location=identity.location, known=known)
        return self._context.store.assets.put_compute(name, body)

    def _started(self, compute: Compute, what: str, status: int) -> Reply:
        operation = self._context.store.assets.start_operation(f"compute {what}", compute.name)
        return Reply(status=status, value=self._view(compute), headers=self._headers(operation))

    def _headers(self, operation: str) -> dict[str, str]:
        address = (
            f"https://management.azure.com{self._context.identity.location_id}/computeOperationsStatus/{operation}"
            "?api-version=2023-08-01-preview"
        )
        return {"Azure-AsyncOperation": address, **RETRY_AFTER}

    def _known(self, call: Call) -> Compute:
        compute = self._context.store.assets.compute(call.params["name"])
        if compute is None:
            raise resource_not_found(f"Microsoft.MachineLearningServices/workspaces/computes/{call.params['name']}")
        return compute

    def _view(self, compute: Compute) -> dict[str, Any]:
        identity = self._context.identity
        given = compute.body.get("properties") or {}
        return resource(
            f"{identity.workspace_arm_id}/computes/{compute.name}",
            "workspaces/computes",
            {
                "disableLocalAuth": True,
                "description": None,
                "resourceId": None,
                **given,
                "computeType": "AmlCompute",
                "computeLocation": identity.location,
                "provisioningState": "Succeeded",
                "provisioningErrors": None,
                "provisioningWarnings": None,
                "createdOn": iso(compute.created),
                "modifiedOn": iso(compute.modified),
                "isAttachedCompute": False,
                "properties": self._inner_view(compute),
            },
            created=compute.created,
            modified=compute.modified,
            location=compute.body.get("location") or identity.location,
            tags=compute.body.get("tags") or {},
            **({"identity": compute.body["identity"]} if compute.body.get("identity") else {}),
        )

    def _inner_view(self, compute: Compute) -> dict[str, Any]:
        view = self._context.fleet.view(compute.name)
        return cluster_view(compute, view, transition=iso(view.changed if view else compute.modified))


def _changed(body: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    properties = dict(body["properties"])
    inner = dict(properties.get("properties") or {})
    inner |= (changes.get("properties") or {}).get("properties") or {}
    replaced = {key: changes[key] for key in ("tags", "identity") if key in changes}
    return {**body, **replaced, "properties": {**properties, "properties": inner}}


def _size_view(size: VmSize) -> dict[str, Any]:
    return {
        "name": size.name.upper(),
        "family": size.family,
        "vCPUs": size.cores,
        "gpus": size.gpus,
        "osVhdSizeMB": 1047552,
        "maxResourceVolumeMB": size.disk_gb * 1024,
        "memoryGB": size.memory_gb,
        "lowPriorityCapable": True,
        "premiumIO": "s_" in size.name,
        "supportedComputeTypes": ["AmlCompute"],
    }
