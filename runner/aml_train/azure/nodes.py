"""The nodes of a job: VM size, tier, number of GPUs, and why they are missing."""

from __future__ import annotations

from aml_train.azure.http import AzureHttp
from aml_train.core.answers import Answer
from aml_train.core.errors import ServiceError
from aml_train.jobs.spec import SERVERLESS
from aml_train.jobs.workspace import NodeKind, Placement


def node_kind(rest: AzureHttp, placement: Placement) -> NodeKind:
    """Return the kind of nodes of *placement*; None for unknown parts, and why.

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
            size = inner.optional_text("vmSize")
            spot = (inner.optional_text("vmPriority") or "").lower() == "lowpriority"
        if not size:
            return NodeKind(spot=spot, problem="AzureML does not say what VM size the nodes have.")
        gpus = _gpus(rest, size)
    except ServiceError as error:
        if error.transient:
            raise
        return NodeKind(size=size, spot=spot, problem=f"The kind of the nodes is not known: {error.message}")
    problem = "" if gpus is not None else f"AzureML does not say how many GPUs {size} has."
    return NodeKind(size=size, spot=spot, gpus=gpus, problem=problem)


def waiting_reason(rest: AzureHttp, placement: Placement) -> str:
    """Return why a job waits for nodes: its compute's last errors, else its nodes.

    Errors are ``properties.properties.errors`` of the compute, nodes ``nodeStateCounts`` and ``scaleSettings`` (AzureML REST API,
    2024-10-01-preview, ``AmlComputeProperties``). Empty if nothing is known.
    """
    compute = _cluster(placement)
    if compute is None:
        return ""
    try:
        inner = _inner(rest, compute)
        return f"There is no compute {compute} any more." if inner is None else _reason(compute, inner)
    except ServiceError:
        return ""


def _reason(compute: str, inner: Answer) -> str:
    errors = [one.at("error") if one.has("error") else one for one in inner.each("errors")]
    said = " ".join(f"{one.optional_text('code')}: {one.optional_text('message')}" for one in errors)
    if said:
        return f"The compute {compute} cannot grow: {said}"
    most, present = inner.whole("scaleSettings.maxNodeCount"), inner.whole("currentNodeCount")
    if most is None or present is None:
        return ""
    counts = inner.at("nodeStateCounts")
    busy, starting = counts.whole("runningNodeCount") or 0, counts.whole("preparingNodeCount") or 0
    return f"The compute {compute} has {present} of at most {most} nodes; {busy} of them run jobs, {starting} are starting."


def _cluster(placement: Placement) -> str | None:
    """Return the name of the compute, None for a serverless job."""
    return None if placement.compute == SERVERLESS else placement.compute


def _inner(rest: AzureHttp, compute: str) -> Answer | None:
    """Return what AzureML says of a cluster, None where there is none."""
    found = rest.find_compute(compute)
    return None if found is None else found.at("properties.properties")


def _gpus(rest: AzureHttp, size: str) -> int | None:
    same = (one.whole("gpus") for one in rest.vm_sizes() if (one.optional_text("name") or "").lower() == size.lower())
    return next((gpus for gpus in same if gpus is not None), None)
