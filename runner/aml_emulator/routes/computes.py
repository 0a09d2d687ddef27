"""Compute targets, and the long-running operations that make and delete them.

Every compute is this one machine: sizes and node counts are kept and shown, and jobs run here whatever they say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.errors import NotSupportedError, bad_request, resource_not_found
from aml_emulator.http import Call, Reply, Route
from aml_emulator.routes.shapes import iso, resource
from aml_emulator.services import Services
from aml_emulator.store.assets import Compute

COMPUTE_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?")
RETRY_AFTER = {"Retry-After": "1", "x-ms-retry-after-ms": "100"}
"""When a client may ask again, in seconds and milliseconds; without it (or with 0) Azure's clients wait 30 s."""


def routes(services: Services) -> Sequence[Route]:
    """Return the routes of compute targets and of operations."""
    computes = Computes(services)
    operations = "/subscriptions/{sub}/providers/Microsoft.MachineLearningServices/locations/{location}"
    return (
        Route(method="GET", path="{WS}/computes", handler=computes.list),
        Route(method="GET", path="{WS}/computes/{name}", handler=computes.get),
        Route(method="PUT", path="{WS}/computes/{name}", handler=computes.put),
        Route(method="PATCH", path="{WS}/computes/{name}", handler=computes.patch),
        Route(method="DELETE", path="{WS}/computes/{name}", handler=computes.delete),
        Route(method="GET", path=f"{operations}/computeOperationsStatus/{{id}}", handler=computes.status),
        Route(method="GET", path="{WS}/operationResults/{id}", handler=computes.result),
    )


def create_default(services: Services, *, name: str, max_nodes: int) -> None:
    """Make the compute target that every emulator has, or bring its size up to date."""
    properties = {"vmSize": "Standard_DS3_v2", "scaleSettings": {"minNodeCount": 0, "maxNodeCount": max_nodes}}
    body = {
        "location": services.identity.location,
        "properties": {"computeType": "AmlCompute", "properties": properties},
    }
    services.store.assets.put_compute(name, body)


class Computes:
    """Answers for compute targets."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def list(self, call: Call) -> dict[str, Any]:
        """Return all compute targets."""
        del call
        return {"value": [self._view(compute) for compute in self._services.store.assets.computes()]}

    def get(self, call: Call) -> dict[str, Any]:
        """Return one compute target."""
        return self._view(self._known(call))

    def put(self, call: Call) -> Reply:
        """Create or replace a compute target."""
        name, body = call.params["name"], call.json()
        if not COMPUTE_NAME.fullmatch(name) or len(name) < 2:
            raise bad_request(
                f"The compute name '{name}' is invalid: 2 to 32 letters, digits and '-', beginning with a letter."
            )
        properties = body.get("properties") or {}
        if properties.get("computeType") != "AmlCompute":
            raise NotSupportedError(f"compute of type '{properties.get('computeType')}' (only 'AmlCompute')")
        new = self._services.store.assets.compute(name) is None
        return self._started(self._store(name, body), "created", 201 if new else 200)

    def patch(self, call: Call) -> Reply:
        """Change the scale settings of a compute target."""
        known, changes = self._known(call), call.json()
        body = dict(known.body)
        properties = dict(body["properties"])
        inner = dict(properties.get("properties") or {})
        inner |= (changes.get("properties") or {}).get("properties") or {}
        body["properties"] = {**properties, "properties": inner}
        return self._started(self._store(known.name, body), "updated", 200)

    def delete(self, call: Call) -> Reply:
        """Delete a compute target; jobs on it go on."""
        known = self._known(call)
        self._services.store.assets.delete_compute(known.name)
        operation = self._services.store.assets.start_operation("compute", known.name)
        return Reply(status=202, headers=self._headers(operation))

    def status(self, call: Call) -> dict[str, Any]:
        """Return how an operation on a compute target stands: it has succeeded."""
        identity = self._services.identity
        known = self._services.store.assets.operation(call.params["id"])
        if known is None:
            raise resource_not_found(f"computeOperationsStatus/{call.params['id']}")
        return {
            "id": f"/subscriptions/{identity.subscription_id}/providers/Microsoft.MachineLearningServices/locations"
            f"/{identity.location}/computeOperationsStatus/{call.params['id']}",
            "name": call.params["id"],
            "status": "Succeeded",
            "startTime": iso(known[2]),
            "endTime": iso(known[2]),
        }

    def result(self, call: Call) -> Reply:
        """Return the result of an operation: 202 while the job it cancels has not ended, then 200."""
        known = self._services.store.assets.operation(call.params["id"])
        if known is None:
            raise resource_not_found(f"operationResults/{call.params['id']}")
        kind, target, _ = known
        run = self._services.store.runs.get(target) if kind == "cancel" else None
        if run is not None and not run.terminal:
            return Reply(status=202, headers={"Location": f"https://{call.host}{call.path}", **RETRY_AFTER})
        return Reply(status=200)

    def _store(self, name: str, body: Mapping[str, Any]) -> Compute:
        kept = {key: body[key] for key in ("location", "tags", "properties", "identity") if body.get(key) is not None}
        return self._services.store.assets.put_compute(name, kept)

    def _started(self, compute: Compute, what: str, status: int) -> Reply:
        operation = self._services.store.assets.start_operation(f"compute {what}", compute.name)
        return Reply(status=status, value=self._view(compute), headers=self._headers(operation))

    def _headers(self, operation: str) -> dict[str, str]:
        identity = self._services.identity
        address = (
            f"https://management.azure.com/subscriptions/{identity.subscription_id}/providers"
            f"/Microsoft.MachineLearningServices/locations/{identity.location}/computeOperationsStatus/{operation}"
            "?api-version=2023-08-01-preview"
        )
        return {"Azure-AsyncOperation": address, **RETRY_AFTER}

    def _known(self, call: Call) -> Compute:
        compute = self._services.store.assets.compute(call.params["name"])
        if compute is None:
            raise resource_not_found(f"Microsoft.MachineLearningServices/workspaces/computes/{call.params['name']}")
        return compute

    def _view(self, compute: Compute) -> dict[str, Any]:
        identity = self._services.identity
        given = compute.body.get("properties") or {}
        inner = given.get("properties") or {}
        scale = {"minNodeCount": 0, "maxNodeCount": 1, "nodeIdleTimeBeforeScaleDown": "PT2M"}
        properties = {
            "vmPriority": "Dedicated",
            "osType": "Linux",
            "subnet": None,
            "enableNodePublicIp": True,
            "isolatedNetwork": False,
            "remoteLoginPortPublicAccess": "NotSpecified",
            **inner,
            "scaleSettings": {**scale, **(inner.get("scaleSettings") or {})},
            "allocationState": "Steady",
            "allocationStateTransitionTime": iso(compute.modified),
            "currentNodeCount": 0,
            "targetNodeCount": 0,
            "errors": None,
            "nodeStateCounts": dict.fromkeys(
                (
                    "preparingNodeCount",
                    "runningNodeCount",
                    "idleNodeCount",
                    "unusableNodeCount",
                    "leavingNodeCount",
                    "preemptedNodeCount",
                ),
                0,
            ),
        }
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
                "createdOn": iso(compute.created),
                "modifiedOn": iso(compute.modified),
                "isAttachedCompute": False,
                "properties": properties,
            },
            created=compute.created,
            modified=compute.modified,
            location=compute.body.get("location") or identity.location,
            tags=compute.body.get("tags") or {},
        )
