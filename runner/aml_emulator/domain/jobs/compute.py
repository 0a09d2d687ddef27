"""The cluster of a job: the named one, or the local one for a serverless job.

A job without a compute is serverless (azure-sdk-for-python, sdk/ml/azure-ai-ml/tests/recordings/command_job/e2etests,
test_command_job_serverless), and azure-ai-ml sends the id of a compute named ``serverless`` for ``compute: serverless``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aml_emulator.domain.clusters import check_quota, scale_of, size_of, vm_size
from aml_emulator.domain.errors import InvalidError
from aml_emulator.domain.jobs.check import instance_count
from aml_emulator.domain.jobs.composed import PIPELINE, composed_kind
from aml_emulator.domain.vm_sizes import size_named
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.nodes import Scale
from aml_emulator.store.assets import Compute
from aml_emulator.store.runs import Run

SERVERLESS: Final = "Serverless"
"""The compute that run history shows of a serverless job."""

DEFAULT_TIER: Final = "Standard"
"""The tier of a serverless job that names none (recording test_command_job_local)."""


def is_serverless(job: Mapping[str, Any]) -> bool:
    """Return whether a job leaves the choice of its nodes to the service."""
    return _named(job).lower() in ("", SERVERLESS.lower())


def compute_of(workspace: Workspace, job: Mapping[str, Any]) -> str:
    """Return the name of the cluster that a job runs on."""
    return workspace.identity.compute if is_serverless(job) else _named(job)


def shown_compute(job: Mapping[str, Any]) -> str:
    """Return the name of a job's compute, as users read it."""
    return SERVERLESS if is_serverless(job) else _named(job)


def compute_name(run: Run) -> str | None:
    """Return the name of a job's compute, as users read it.

    None for another run, and for a pipeline, whose nodes have one each.
    """
    return shown_compute(run.job) if run.job and composed_kind(run.job) != PIPELINE else None


def is_low_priority(workspace: Workspace, job: Mapping[str, Any]) -> bool:
    """Return whether the nodes of a job may be taken back: ``Spot``, or low priority."""
    if is_serverless(job):
        return _is_spot(job)
    view = workspace.fleet.view(_named(job))
    return view is not None and view.scale.low_priority


def node_memory(workspace: Workspace, job: Mapping[str, Any]) -> int | None:
    """Return the memory of a node's VM size in bytes.

    None if no size was chosen, as for the local cluster, which has the machine's memory.
    """
    if is_serverless(job):
        size = size_named(str((job.get("resources") or {}).get("instanceType") or ""))
    else:
        compute = workspace.store.assets.compute(_named(job))
        size = None if compute is None or compute.name == workspace.identity.compute else size_of(compute)
    return None if size is None else int(size.memory_gb * 2**30)


def check_compute(workspace: Workspace, job: Mapping[str, Any]) -> None:
    """Return if a job can run on its cluster.

    Raises:
        InvalidError: the cluster does not exist or has too few nodes; of a serverless job also an unknown VM size, or one
            whose quota is too small.
    """
    name, serverless = compute_of(workspace, job), is_serverless(job)
    target = workspace.store.assets.compute(name)
    if target is None:
        why = ", on which serverless jobs run here" if serverless else ""
        raise InvalidError(f"Unknown compute target '{name}'{why}.", reasons=("BadArgument", "UnknownTargetType"))
    nodes = instance_count(job)
    size = (job.get("resources") or {}).get("instanceType")
    if serverless and size:
        scale = Scale(min_nodes=nodes, max_nodes=nodes, idle_seconds=0.0, low_priority=_is_spot(job))
        check_quota(scale, vm_size(str(size), workspace.identity.location), workspace.quotas)
    _check_nodes(workspace, nodes, target)


def _check_nodes(workspace: Workspace, nodes: int, compute: Compute) -> None:
    """Refuse a job on more nodes than its cluster may have."""
    most = scale_of(compute, workspace.quotas).max_nodes
    if nodes > max(1, most):
        raise InvalidError(
            f"The requested node count {nodes} (resources.instance_count) exceeds the maximum node count {most} of the"
            f" compute target '{compute.name}'. Reduce it, or let the cluster grow further.",
            reasons=("BadArgument", "NodeCountExceedsMaxNodeCount"),
        )


def _is_spot(job: Mapping[str, Any]) -> bool:
    return str((job.get("queueSettings") or {}).get("jobTier") or "").lower() == "spot"


def _named(job: Mapping[str, Any]) -> str:
    return str(job.get("computeId") or "").rstrip("/").rpartition("/")[2].removeprefix("azureml:")
