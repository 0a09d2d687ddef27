"""Checks of the workspace, the identity's roles in it, and the compute."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from aml_train.azure.doctor.probe import ML, Probe, Reply
from aml_train.azure.target import known_names
from aml_train.core.answers import Answer
from aml_train.core.diagnosis import Outcome, failed, misconfigured, ok, skipped, warning
from aml_train.core.errors import ServiceError

#: https://learn.microsoft.com/rest/api/authorization/permissions/list-for-resource: the permissions that the caller has.
_PERMISSIONS: Final = "2022-04-01"
_PREFIX: Final = "Microsoft.MachineLearningServices/workspaces"
#: What a run does, by AzureML's operations
#: (https://learn.microsoft.com/azure/role-based-access-control/permissions/ai-machine-learning): the job, its code, its environment, its
#: model, and the storage's credentials.
ACTIONS: Final = tuple(
    f"{_PREFIX}/{one}"
    for one in (
        "jobs/read",
        "jobs/write",
        "jobs/cancel/action",
        "codes/versions/write",
        "environments/versions/write",
        "models/versions/write",
        "datastores/listsecrets/action",
        "computes/read",
    )
)


def check_workspace(probe: Probe) -> Outcome:
    """Look the workspace up."""
    place = probe.wanted.workspace
    reply = probe.get(probe.workspace_path(), f"Looking for the workspace {place.name}", ML)
    if reply.status == 403:
        return failed(
            f"the identity may not see the workspace {place.name}: {reply.message}",
            probe.assign("AzureML Data Scientist", place.path),
        )
    if reply.answer is None:
        known = known_names(probe.rest(), probe.workspace_path().rpartition("/")[0], "workspaces", place.name)
        return misconfigured(
            f"{reply.code or reply.status}: there is no workspace {place.name} in the resource group {place.resource_group}. {known}",
            f"az ml workspace list {probe.at_group()} --output table; correct {probe.key('workspace')} and {probe.key('resource-group')}.",
        )
    probe.resource = reply.answer
    state = reply.answer.optional_text("properties.provisioningState") or "Succeeded"
    if state != "Succeeded":
        return failed(
            f"the workspace {place.name} is {state}", f"az ml workspace show --name {place.name} {probe.at_group()}"
        )
    private = (reply.answer.optional_text("properties.publicNetworkAccess") or "").lower() == "disabled"
    text = f"{place.name} in {reply.answer.optional_text('location') or 'an unknown region'}"
    return ok(f"{text}, reached by its private endpoint" if private else text)


def check_workspace_role(probe: Probe) -> Outcome:
    """Compare the identity's permissions with what a run does."""
    place = probe.wanted.workspace
    command = probe.assign("AzureML Data Scientist", place.path)
    try:
        what = "Reading the permissions in the workspace"
        address = probe.rest().arm("/providers/Microsoft.Authorization/permissions")
        listed = probe.rest().items(address, what, params={"api-version": _PERMISSIONS}, required=True)
        known = [permission_of(one) for one in listed]
    except ServiceError as error:
        if error.transient:
            raise
        return warning(
            f"the identity may not read its permissions in {place.name}", f"If a run is refused: {command}"
        )
    lacking = [action for action in ACTIONS if not any(allows(one, action) for one in known)]
    if lacking:
        return failed(f"the identity may not: {_short(lacking)}", command)
    return ok(f"jobs, code, environments and models in {place.name}")


Permission = Mapping[str, Sequence[str]]
"""Patterns under ``actions`` and ``notActions`` (https://learn.microsoft.com/azure/role-based-access-control/role-definitions)."""


def permission_of(answer: Answer) -> Permission:
    """Return one of the permissions of a caller."""
    return {key: answer.list_of_texts(key) for key in ("actions", "notActions")}


def allows(permission: Permission, action: str) -> bool:
    """Return whether a permission includes *action*."""
    # AzureML Data Scientist excludes computes/*/write, and so the creation of computes, which is computes/write:
    # https://learn.microsoft.com/azure/machine-learning/how-to-assign-roles#default-roles.
    taken = [form for one in permission.get("notActions") or () for form in (one, one.replace("/*/", "/"))]
    return _matches(action, permission.get("actions") or ()) and not _matches(action, taken)


def _matches(action: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(action.lower(), one.lower()) for one in patterns)


def _short(actions: Sequence[str]) -> str:
    return ", ".join(action.removeprefix(f"{_PREFIX}/") for action in actions)


def check_compute(probe: Probe) -> Outcome:
    """Look the compute up, or check that it can be created."""
    wanted, cluster = probe.wanted, probe.wanted.target.cluster
    name = wanted.compute_name
    if name == "local" or (wanted.serverless and wanted.needs_compute):
        said = "the compute `local` is this machine" if name else "neither the target nor the job names a compute"
        return misconfigured(
            said, f"Write {probe.key('compute')}; az ml compute list {probe.at_workspace()} lists them."
        )
    if name is None:
        size = wanted.size or "of AzureML's default size"
        return skipped(f"serverless, {size}" if wanted.serverless else "the job names a resource id")
    reply = _compute(probe, name)
    if reply.answer is None and reply.status != 404:
        return failed(f"{name}: {reply.code or reply.status}: {reply.message}", "See the check workspace-role.")
    if reply.answer is not None:
        return _found_compute(probe, name, reply.answer)
    if cluster is not None:
        return ok(f"{name} ({cluster.size}) is created by the first run")
    known = known_names(probe.rest(), probe.workspace_path("/computes"), "computes", name)
    return misconfigured(
        f"there is no compute {name}. {known}",
        f"az ml compute create --name {name} --type AmlCompute --size Standard_DS3_v2 --min-instances 0 --max-instances "
        f"{wanted.nodes} {probe.at_workspace()}; or correct {probe.key('compute')}.",
    )


def _compute(probe: Probe, name: str) -> Reply:
    return probe.get(probe.workspace_path(f"/computes/{quote(name)}"), f"Looking for the compute {name}", ML)


def _found_compute(probe: Probe, name: str, found: Answer) -> Outcome:
    kind = found.optional_text("properties.computeType") or "compute"
    state = found.optional_text("properties.provisioningState") or "Succeeded"
    show = f"az ml compute show --name {name} {probe.at_workspace()}"
    if state in ("Failed", "Canceled"):
        return failed(
            f"the compute {name} is {state}",
            f"{show}; then az ml compute delete --name {name} {probe.at_workspace()}",
        )
    most = found.whole("properties.properties.scaleSettings.maxNodeCount")
    if most is not None and most < probe.wanted.nodes:
        command = f"az ml compute update --name {name} --max-instances {probe.wanted.nodes} {probe.at_workspace()}"
        return failed(f"{name} grows to {most} nodes, and the job needs {probe.wanted.nodes}", command)
    size = found.optional_text("properties.properties.vmSize")
    parts = [part for part in (kind, size, f"up to {most} nodes" if most is not None else None) if part]
    text = f"{name}: {', '.join(parts)}"
    return ok(text) if state == "Succeeded" else warning(f"{text}; it is {state}", show)
