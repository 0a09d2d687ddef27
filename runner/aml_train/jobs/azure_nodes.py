"""What kind of nodes a job runs on, as AzureML tells: the VM size of its compute, the tier, and how many GPUs that size has."""

from __future__ import annotations

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
        if placement.compute not in (None, "serverless"):
            what = f"Looking for the compute {placement.compute}"
            url = rest.arm(f"/computes/{quote(str(placement.compute))}")
            found = rest.read(url, what, params={"api-version": _API})
            if found is None:
                return NodeKind(problem=f"There is no compute {placement.compute}.")
            inner: Any = (found.get("properties") or {}).get("properties") or {}
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
