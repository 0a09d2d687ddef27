"""A job as Azure Resource Manager shows it.

The service fills in what a client leaves out: recorded answers (``tests/contracts/recorded/jobs.json``) have every field of
a command job, null where the job says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aml_emulator.api.shapes import resource
from aml_emulator.context import Context
from aml_emulator.domain.jobs.composed import PIPELINE, composed_kind, is_child
from aml_emulator.domain.jobs.compute import DEFAULT_TIER, is_serverless
from aml_emulator.store.runs import Run

SHM_SIZE: Final = "2g"
"""The size of /dev/shm of a job that names none."""

_UNSET: Final = dict.fromkeys(
    (
        "autologgerSettings",
        "codeId",
        "componentId",
        "computeId",
        "distribution",
        "environmentVariables",
        "identity",
        "limits",
        "notificationSetting",
        "secretsConfiguration",
    )
)
_COMMON: Final = ("componentId", "computeId", "identity", "notificationSetting")
_COMPOSED: Final = {
    "pipeline": dict.fromkeys((*_COMMON, "jobs", "settings", "sourceJobId")),
    "sweep": dict.fromkeys((*_COMMON, "earlyTermination", "limits", "queueSettings")),
}
_SERVICE: Final = {"port": None, "status": None, "errorMessage": None, "properties": None, "nodes": None}
_OUTPUT: Final = {"description": None, "assetName": None, "assetVersion": None, "autoDeleteSetting": None}


def job_view(context: Context, run: Run) -> dict[str, Any]:
    """Return a job's resource.

    That of a node or a trial has no properties: azure-ai-ml 1.35, ``_is_pipeline_child_job``.
    """
    job = dict(run.job or {})
    if is_child(run):
        place = f"{context.identity.workspace_arm_id}/jobs/{run.id}"
        return {
            **resource(place, "workspaces/jobs", {}, created=run.created, modified=run.modified),
            "properties": None,
        }
    kind = composed_kind(job)
    if kind is not None:
        own = {**_COMPOSED[kind], **job, "jobType": kind.capitalize()}
    else:
        own = {
            **_UNSET,
            **job,
            "jobType": "Command",
            "queueSettings": _queue(job),
            "resources": _resources(job.get("resources") or {}),
            "parameters": {},
        }
    return _resource(context, run, job, own)


def _resource(context: Context, run: Run, job: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's resource: *own* is of its type, the rest of every job."""
    identity = context.identity
    properties = {**_nulls(job.get("properties")), **run.properties}
    if run.exit_code is not None:
        properties["exitCode"] = str(run.exit_code)
    if run.error_message:
        properties["errorMessage"] = run.error_message
    return resource(
        f"{identity.workspace_arm_id}/jobs/{run.id}",
        "workspaces/jobs",
        {
            **own,
            "displayName": run.display_name,
            "description": run.description,
            "experimentName": run.experiment,
            "tags": {**_nulls(job.get("tags")), **run.tags},
            "properties": properties,
            "isArchived": run.archived,
            "status": context.shown.status(run),
            "inputs": {name: _input(value) for name, value in (job.get("inputs") or {}).items()},
            "outputs": _outputs(context, run, job.get("outputs") or {}),
            "services": _services(context, run),
        },
        created=run.created,
        modified=run.modified,
    )


def _nulls(given: Mapping[str, Any] | None) -> dict[str, None]:
    """Return the tags or properties that were submitted without a value."""
    return {key: None for key, value in (given or {}).items() if value is None}


def _resources(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "instanceCount": 1,
        "instanceType": None,
        "locations": None,
        "maxInstanceCount": None,
        "properties": None,
        "dockerArgs": None,
        **given,
        "shmSize": given.get("shmSize") or SHM_SIZE,
    }


def _queue(job: Mapping[str, Any]) -> dict[str, Any] | None:
    given = job.get("queueSettings") or {}
    if not given and not is_serverless(job):
        return None
    return {"jobTier": DEFAULT_TIER if is_serverless(job) else None, "priority": None, **given}


def _input(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    literal = str(given.get("jobInputType")).lower() == "literal"
    mode = {} if literal else {"mode": given.get("mode") or "ReadOnlyMount"}
    return {"description": None, **given, **mode}


def _outputs(context: Context, run: Run, given: Mapping[str, Mapping[str, Any] | None]) -> dict[str, Any]:
    base = f"azureml://datastores/workspaceblobstore/paths/azureml/{run.id}"
    outputs: dict[str, Any] = {
        name: {
            **_OUTPUT,
            **(value or {}),
            # Recorded: the place of an output is shown once it is known to be there, unless the job names it.
            "uri": (value or {}).get("uri") or (f"{base}/{name}/" if _is_stored(run, name) else None),
            "mode": (value or {}).get("mode") or "ReadWriteMount",
        }
        for name, value in given.items()
    }
    if composed_kind(run.job or {}) == PIPELINE:
        return outputs  # Recorded: pipeline_job/e2etests, test_pipeline_component_job.
    outputs["default"] = {
        **_OUTPUT,
        "uri": f"azureml://datastores/workspaceartifactstore/{context.artifacts_of(run.id).prefix}",
        "mode": "ReadWriteMount",
        "jobOutputType": "uri_folder",
    }
    return outputs


def _is_stored(run: Run, output: str) -> bool:
    return bool((run.outputs.get(output) or {}).get("stored"))


def _services(context: Context, run: Run) -> dict[str, Any]:
    """Return where the job is followed: by MLflow, and in the studio."""
    identity = context.identity
    # The studio's form of a workspace id.
    place = f"/subscriptions/{identity.subscription_id}/resourcegroups/{identity.resource_group}"
    workspace = f"{place}/workspaces/{identity.workspace}"
    endpoints = {
        "Tracking": f"azureml://{identity.api_host}/mlflow/v1.0{identity.workspace_arm_id}?",
        "Studio": f"https://ml.azure.com/runs/{run.id}?wsid={workspace}&tid={identity.tenant_id}",
    }
    return {name: {**_SERVICE, "jobServiceType": name, "endpoint": endpoint} for name, endpoint in endpoints.items()}
