"""What AzureML tells of the nodes of a job: the VM size of its compute, the tier, how many GPUs that size has, and why there are none yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from aml_train.errors import ServiceError
from aml_train.jobs.service import NodeKind, Placement

if TYPE_CHECKING:
    from aml_train.jobs.azure_rest import AzureRest

_API: Final = "2024-10-01-preview"


def node_kind(rest: AzureRest, placement: Placement) -> NodeKind:
    """Return the kind of nodes of *placement*; what cannot be found out is None, and why is said.

    The VM size of a cluster is ``properties.properties.vmSize`` of the compute, its tier ``vmPriority``; the GPUs are ``gpus`` in the
    list of a region's sizes (AzureML REST API, 2024-10-01-preview, ``AmlCompute`` and ``VirtualMachineSizes_List``).

    Raises:
        ServiceError: the service stays away.
    """
    size, spot = placement.size, placement.spot
    try:
        if (compute := _cluster(placement)) is not None:
            inner = _inner(rest, compute)
            if inner is None:
                return NodeKind(problem=f"There is no compute {compute}.")
            size, spot = inner.get("vmSize"), str(inner.get("vmPriority") or "").lower() == "lowpriority"
        if not size:
            return NodeKind(spot=spot, problem="AzureML does not say what VM size the nodes have.")
        gpus = _gpus(rest, size)
    except ServiceError as error:
        if error.transient:
            raise
        return NodeKind(size=size, spot=spot, problem=f"The kind of the nodes is not known: {error.message}")
    problem = "" if gpus is not None else f"AzureML does not say how many GPUs {size} has."
    return NodeKind(size=size, spot=spot, gpus=gpus, problem=problem)


def waiting_reason(rest: AzureRest, placement: Placement) -> str:
    """Return why a job waits for nodes, as far as its compute tells: the errors of its last change of size, else its nodes.

    Errors are ``properties.properties.errors`` of the compute, nodes ``nodeStateCounts`` and ``scaleSettings`` (AzureML REST API,
    2024-10-01-preview, ``AmlComputeProperties``). Empty where nothing is told.
    """
    compute = _cluster(placement)
    if compute is None:
        return ""
    try:
        inner = _inner(rest, compute)
    except ServiceError:
        return ""
    if inner is None:
        return f"There is no compute {compute} any more."
    errors = [one.get("error") or one for one in inner.get("errors") or () if isinstance(one, Mapping)]
    said = " ".join(f"{one.get('code')}: {one.get('message')}" for one in errors)
    if said:
        return f"The compute {compute} cannot grow: {said}"
    counts, scale = inner.get("nodeStateCounts") or {}, inner.get("scaleSettings") or {}
    if scale.get("maxNodeCount") is None or inner.get("currentNodeCount") is None:
        return ""
    busy, starting = counts.get("runningNodeCount") or 0, counts.get("preparingNodeCount") or 0
    return (
        f"The compute {compute} has {inner['currentNodeCount']} of at most {scale['maxNodeCount']} nodes;"
        f" {busy} of them run jobs, {starting} are starting."
    )


def _cluster(placement: Placement) -> str | None:
    """Return the name of the compute, None for a serverless job."""
    return None if placement.compute == "serverless" else placement.compute


def _inner(rest: AzureRest, compute: str) -> Mapping[str, Any] | None:
    """Return what AzureML says of a cluster, None where there is none."""
    url = rest.arm(f"/computes/{quote(compute)}")
    found = rest.read(url, f"Looking for the compute {compute}", params={"api-version": _API})
    return None if found is None else ((found.get("properties") or {}).get("properties") or {})


def _gpus(rest: AzureRest, size: str) -> int | None:
    place = rest.workspace
    address = (
        f"{rest.cloud.arm}/subscriptions/{place.subscription_id}/providers/Microsoft.MachineLearningServices"
        f"/locations/{rest.location()}/vmSizes"
    )
    known = rest.read(address, "Listing the sizes", params={"api-version": _API})
    for one in (known or {}).get("value") or ():
        if str(one.get("name")).lower() == size.lower() and one.get("gpus") is not None:
            return int(one["gpus"])
    return None
