"""Compute targets: rules and numbers of nodes; views of clusters.

Fields are those of ``AmlCompute`` in AzureML's REST API, 2025-01-01-preview.
"""

from __future__ import annotations

import difflib
import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.domain.vm_sizes import Quotas, VmSize, size_named, sizes
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.nodes import ClusterView, Scale
from aml_emulator.identity.identity import Identity
from aml_emulator.store.assets import Compute

COMPUTE_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?")
DEFAULT_SIZE = "Standard_DS3_v2"
DEFAULT_IDLE = "PT2M"
LOW_PRIORITY = "LowPriority"

FIXED = ("vmSize", "vmPriority", "subnet", "enableNodePublicIp", "remoteLoginPortPublicAccess")
"""Properties that a cluster keeps; scale, identity, tags and description may change."""

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_IDENTITY_KINDS = {"systemassigned": "SystemAssigned", "userassigned": "UserAssigned", "none": "None"}
_PRIORITIES = {"dedicated": "Dedicated", "lowpriority": LOW_PRIORITY}
_STATES = ("preparing", "running", "idle", "unusable", "leaving", "preempted")


def seconds_of(text: str) -> float | None:
    """Return an ISO 8601 duration in seconds, None if *text* is none.

    Years and months are not supported.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def check_cluster(
    name: str, body: Mapping[str, Any], quotas: Quotas, *, location: str, known: Compute | None
) -> None:
    """Return if a compute target can be made of *body*, or *known* be changed into it.

    Raises:
        NotSupportedError: another kind than a cluster.
        InvalidError: what AzureML refuses as well.
    """
    if not COMPUTE_NAME.fullmatch(name) or len(name) < 2:
        raise InvalidError(
            f"The compute name '{name}' is invalid: 2 to 32 letters, digits and '-', beginning with a letter."
        )
    kind = (body.get("properties") or {}).get("computeType")
    if kind != "AmlCompute":
        raise NotSupportedError(f"compute of type '{kind}' (only 'AmlCompute')")
    given = _inner(body)
    if known is not None:
        before = _inner(known.body)
        changed = [key for key in FIXED if given.get(key) is not None and not _same(before.get(key), given[key])]
        if changed:
            raise InvalidError(
                f"The {', '.join(changed)} of the compute '{name}' cannot be changed. Delete and create it again, or use"
                " another name."
            )
    size = vm_size(str(given.get("vmSize") or ""), location)
    if given.get("vmPriority") not in (None, "Dedicated", LOW_PRIORITY):
        raise InvalidError(f"vmPriority is 'Dedicated' or '{LOW_PRIORITY}', not '{given['vmPriority']}'.")
    if given.get("osType") not in (None, "Linux"):
        raise NotSupportedError(f"clusters of {given['osType']} (only Linux)")
    check_quota(_scale(body), size, quotas)


def vm_size(name: str, location: str) -> VmSize:
    """Return the size of that name; raises InvalidError if there is none."""
    if not name:
        raise InvalidError("The compute has no vmSize.")
    size = size_named(name)
    if size is not None:
        return size
    near = difflib.get_close_matches(name.lower(), sizes(), n=3, cutoff=0.5)
    hint = f" Near to it: {', '.join(sizes()[one].name for one in near)}." if near else ""
    raise InvalidError(
        f"The specified VM size '{name}' is not supported in the location '{location}'.{hint}",
        code="BadRequest",
        reasons=("UnsupportedVMSize",),
    )


def check_quota(scale: Scale, size: VmSize, quotas: Quotas) -> None:
    """Refuse a cluster whose least number of nodes exceeds its quota."""
    limit = quotas.limit(size, low_priority=scale.low_priority)
    nodes = max(scale.min_nodes, min(1, scale.max_nodes))
    if nodes * size.cores > limit:
        family = "low priority" if scale.low_priority else family_title(size.family)
        raise InvalidError(
            f"The specified subscription has a {family} vCPU quota of {limit} and cannot accommodate for at least {nodes}"
            f" requested managed compute nodes which maps to {nodes * size.cores} vCPUs. Talk to your Subscription Admin or"
            " refer to https://docs.microsoft.com/azure/machine-learning/how-to-manage-quotas#request-quota-increases to"
            " increase the family quota.",
            code="BadRequest",
            reasons=("ClusterMinNodesExceedCoreQuota",),
        )


def family_title(family: str) -> str:
    """Return a family's title: ``standardDSv2Family`` is ``Standard DSv2 Family``."""
    return f"Standard {family.removeprefix('standard').removesuffix('Family')} Family"


def _scale(body: Mapping[str, Any]) -> Scale:
    """Return how a compute target scales; raises InvalidError for impossible settings."""
    given = _inner(body)
    settings = given.get("scaleSettings") or {}
    low, high = settings.get("minNodeCount") or 0, settings.get("maxNodeCount", 1)
    if not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in (low, high)):
        raise InvalidError(f"scaleSettings: numbers of nodes are whole numbers from 0, not '{low}' and '{high}'.")
    if low > high:
        raise InvalidError(f"scaleSettings: minNodeCount {low} is more than maxNodeCount {high}.")
    idle_text = settings.get("nodeIdleTimeBeforeScaleDown") or DEFAULT_IDLE
    idle = seconds_of(str(idle_text))
    if idle is None:
        raise InvalidError(f"scaleSettings.nodeIdleTimeBeforeScaleDown is not a duration: '{idle_text}'")
    return Scale(
        min_nodes=low, max_nodes=high, idle_seconds=idle, low_priority=given.get("vmPriority") == LOW_PRIORITY
    )


def scale_of(compute: Compute, quotas: Quotas) -> Scale:
    """Return how a stored compute target scales; it never grows beyond its quota."""
    scale = _scale(compute.body)
    size = size_of(compute) or size_named(DEFAULT_SIZE)
    if size is None:
        return scale
    most = quotas.limit(size, low_priority=scale.low_priority) // size.cores
    return replace(scale, min_nodes=min(scale.min_nodes, most), max_nodes=min(scale.max_nodes, most))


def size_of(compute: Compute) -> VmSize | None:
    """Return the size of a compute target's nodes; None for an unknown one."""
    return size_named(str(_inner(compute.body).get("vmSize") or ""))


def stored_cluster(body: Mapping[str, Any], identity: Identity, known: Compute | None) -> dict[str, Any]:
    """Return the stored part of a compute target's body, without its users' password.

    Fixed properties that a change leaves out stay as they were; an identity gets its ids.
    """
    stored = {key: body[key] for key in ("location", "tags", "properties", "identity") if body.get(key) is not None}
    before = _inner(known.body) if known is not None else {}
    inner = {**before, **{key: value for key, value in _inner(body).items() if _is_given(value)}}
    # azureml-core writes these words small.
    priority = str(inner.get("vmPriority") or "")
    inner |= {"vmPriority": _PRIORITIES[priority.lower()]} if priority.lower() in _PRIORITIES else {}
    if inner.get("userAccountCredentials"):
        user = inner["userAccountCredentials"]
        inner["userAccountCredentials"] = {
            key: value for key, value in user.items() if key != "adminUserPassword" and value is not None
        }
    stored["properties"] = {**(body.get("properties") or {}), "properties": inner}
    if stored.get("identity"):
        stored["identity"] = _identity(stored["identity"], identity)
    return stored


def _identity(given: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
    """Return an identity with the ids that Entra ID would give it, the same each time."""

    def guid(what: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{identity.instance}/{what}"))

    # azure-ai-ml sends "Userassigned" as well.
    words = [word.strip().lower().replace("_", "") for word in str(given.get("type") or "None").split(",")]
    kinds = ",".join(_IDENTITY_KINDS.get(word, word) for word in words)
    made: dict[str, Any] = {"type": kinds, "tenantId": identity.tenant_id}
    if "SystemAssigned" in kinds:
        made["principalId"] = guid("system")
    users = given.get("userAssignedIdentities") or {}
    if users:
        made["userAssignedIdentities"] = {
            one: {"principalId": guid(f"principal{one.lower()}"), "clientId": guid(f"client{one.lower()}")}
            for one in users
        }
    return made


def _quota_errors(compute: Compute, view: ClusterView | None) -> list[dict[str, Any]] | None:
    """Return Azure's error of a cluster whose jobs wait for its quota, else None."""
    most = _scale(compute.body).max_nodes
    if view is None or not view.queue or view.scale.max_nodes >= most or len(view.nodes) < view.scale.max_nodes:
        return None
    message = f"The quota of its family holds {view.scale.max_nodes} of the {most} nodes that the cluster may have."
    return [{"error": {"code": "ClusterCoreQuotaReached", "message": message}}]


def cluster_view(compute: Compute, view: ClusterView | None, *, transition: str | None) -> dict[str, Any]:
    """Return ``properties.properties`` of a cluster, with its current nodes."""
    given = _inner(compute.body)
    scale = {"minNodeCount": 0, "maxNodeCount": 1, "nodeIdleTimeBeforeScaleDown": DEFAULT_IDLE}
    settings = {key: value for key, value in (given.get("scaleSettings") or {}).items() if value is not None}
    counts = {f"{state}NodeCount": 0 for state in _STATES}
    if view is not None:
        for node in view.nodes:
            counts[f"{node.state}NodeCount"] += 1
    return {
        "vmPriority": "Dedicated",
        "osType": "Linux",
        "subnet": None,
        "enableNodePublicIp": True,
        "isolatedNetwork": False,
        "remoteLoginPortPublicAccess": "NotSpecified",
        "virtualMachineImage": None,
        "enableBatchPrivateLink": False,
        "propertyBag": {},
        **given,
        "scaleSettings": {**scale, **settings},
        "allocationState": "Resizing" if counts["preparingNodeCount"] else "Steady",
        "allocationStateTransitionTime": transition,
        "currentNodeCount": len(view.nodes) if view else 0,
        "targetNodeCount": view.target if view else 0,
        "errors": _quota_errors(compute, view),
        "nodeStateCounts": counts,
    }


def _summary(compute: Compute, view: ClusterView | None) -> dict[str, Any]:
    """Return a cluster for ``/_emulator/status``."""
    given = _inner(compute.body)
    size = size_named(str(given.get("vmSize")))
    scale = _scale(compute.body)
    found: dict[str, Any] = {
        "size": given.get("vmSize"),
        "tier": given.get("vmPriority") or "Dedicated",
        "min_nodes": scale.min_nodes,
        "max_nodes": scale.max_nodes,
        "idle_seconds": scale.idle_seconds,
    }
    if size is not None:
        found |= {"cores": size.cores, "memory_gb": size.memory_gb, "gpus": size.gpus, "infiniband": size.infiniband}
    nodes = view.nodes if view else ()
    found["nodes"] = {state: sum(node.state == state for node in nodes) for state in ("preparing", "idle", "running")}
    found["running"] = [node.run_id for node in nodes if node.run_id is not None]
    found["queue"] = list(view.queue) if view else []
    return found


def create_default_cluster(workspace: Workspace, *, name: str, max_nodes: int) -> None:
    """Make the compute target that every emulator has, or bring its size up to date."""
    properties = {"vmSize": DEFAULT_SIZE, "scaleSettings": {"minNodeCount": 0, "maxNodeCount": max_nodes}}
    body = {
        "location": workspace.identity.location,
        "properties": {"computeType": "AmlCompute", "properties": properties},
    }
    compute = workspace.store.assets.put_compute(name, body)
    workspace.fleet.configure(name, scale_of(compute, workspace.quotas))


def cluster_summaries(workspace: Workspace) -> dict[str, Any]:
    """Return each cluster for ``/_emulator/status``: nodes by state, and the queue."""
    return {
        compute.name: _summary(compute, workspace.fleet.view(compute.name))
        for compute in workspace.store.assets.computes()
    }


def _inner(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return (body.get("properties") or {}).get("properties") or {}


def _is_given(value: Any) -> bool:
    """Return whether a property is set; azure-ai-ml sends a subnet without its id."""
    return value is not None and value not in ({}, {"id": None}, "NotSpecified")


def _same(before: Any, now: Any) -> bool:
    """Return whether a fixed property is unchanged; Azure's own texts may change case."""
    if isinstance(before, str) and isinstance(now, str):
        return before.lower() == now.lower()
    return bool(before == now) or (before is None and now in ("Dedicated", "NotSpecified", True))
