"""Compute instances, which are started and stopped.

Here one is a node that takes jobs while it runs; there is no machine to sign in to. Fields and their values are those of
azure-sdk-for-python, sdk/ml/azure-ai-ml/tests/recordings/compute/e2etests, test_compute_instance_stop_start_restart.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

from aml_emulator.domain.errors import ConflictError
from aml_emulator.domain.workspace import Workspace
from aml_emulator.store.assets import Compute

COMPUTE_INSTANCE: Final = "ComputeInstance"
_STATE: Final = "state"
_OPERATION: Final = "lastOperation"
_RUNNING: Final = "Running"
_OPERATIONS: Final = {"Create": _RUNNING, "Start": _RUNNING, "Restart": _RUNNING, "Stop": "Stopped"}
"""Name of an operation → the state after it."""

NOT_MADE_YET: Final = dict.fromkeys(
    (
        *("sshSettings", "errors", "connectivityEndpoints", "applications", "state", "lastOperation"),
        *("applicationSharingPolicy", "customServices", "osImageMetadata"),
    )
)
"""Properties that the answer to a creation shows without a value."""


def is_instance(body: Mapping[str, Any]) -> bool:
    """Return whether a compute target's body is a compute instance's."""
    return bool((body.get("properties") or {}).get("computeType") == COMPUTE_INSTANCE)


def is_running(compute: Compute) -> bool:
    """Return whether a compute instance runs."""
    return bool(compute.body.get(_STATE, _RUNNING) == _RUNNING)


def created_instance(body: Mapping[str, Any], known: Compute | None, now: float) -> dict[str, Any]:
    """Return the body of a compute instance as it is stored: a new one runs.

    Args:
        now: seconds since the epoch.
    """
    if known is None:
        return {**body, **_after("Create", now)}
    return {**body, **{key: known.body[key] for key in (_STATE, _OPERATION) if key in known.body}}


def operate(workspace: Workspace, compute: Compute, operation: str, now: float) -> Compute:
    """Start, stop or restart a compute instance; return it as stored.

    Args:
        operation: ``Start``, ``Stop`` or ``Restart``.
        now: seconds since the epoch.

    Raises:
        ConflictError: it is no compute instance.
    """
    if not is_instance(compute.body):
        raise ConflictError(f"The compute '{compute.name}' is no compute instance: it cannot be started or stopped.")
    return workspace.store.assets.put_compute(compute.name, {**compute.body, **_after(operation, now)})


def instance_view(workspace: Workspace, compute: Compute) -> dict[str, Any]:
    """Return ``properties.properties`` of a compute instance."""
    given = (compute.body.get("properties") or {}).get("properties") or {}
    ssh = given.get("sshSettings") or {}
    address = f"https://{compute.name}.{workspace.identity.location}.instances.azureml.ms"
    return {
        "subnet": None,
        "autologgerSettings": None,
        "errors": [],
        "connectivityEndpoints": {"publicIpAddress": None, "privateIpAddress": "10.0.0.4"},
        "applications": [{"displayName": "Jupyter Lab", "endpointUri": f"{address}/lab"}],
        "applicationSharingPolicy": "Shared",
        "computeInstanceAuthorizationType": "personal",
        "personalComputeInstanceSettings": None,
        "setupScripts": None,
        "schedules": {"computeStartStop": []},
        "dataMounts": None,
        "dataDisks": None,
        "containers": None,
        "updateStatus": None,
        "versions": None,
        "customServices": [],
        "osImageMetadata": None,
        **given,
        "vmSize": str(given.get("vmSize")).upper(),
        "sshSettings": {
            "sshPublicAccess": ssh.get("sshPublicAccess") or "Disabled",
            "adminUserName": "azureuser",
            "sshPort": 4000,
            "adminPublicKey": ssh.get("adminPublicKey") if ssh.get("sshPublicAccess") == "Enabled" else None,
        },
        "state": compute.body.get(_STATE, _RUNNING),
        "lastOperation": compute.body.get(_OPERATION),
        "createdBy": {"userOrgId": workspace.identity.tenant_id, "userId": workspace.identity.client_id},
    }


def _after(operation: str, now: float) -> dict[str, Any]:
    return {
        _STATE: _OPERATIONS[operation],
        _OPERATION: {
            "operationName": operation,
            "operationTime": datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat(),
            "operationStatus": "Succeeded",
            "operationTrigger": "User",
        },
    }
