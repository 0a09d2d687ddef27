"""Runs and experiments as run history shows them, for the routes of every client.

Shapes are those of the clients' generated models (``RunDetails``, ``GetRunDataResult``).
"""

from __future__ import annotations

import json
from typing import Any, Final

from aml_emulator.api.errors import history_error
from aml_emulator.api.routing import Call, Handler, Route
from aml_emulator.api.shapes import USER, iso
from aml_emulator.context import Context
from aml_emulator.domain.datasets import datasets_read_by
from aml_emulator.domain.jobs.check import instance_count
from aml_emulator.domain.jobs.composed import NODE_ID, composed_kind
from aml_emulator.domain.jobs.compute import compute_name
from aml_emulator.domain.jobs.places import output_asset
from aml_emulator.domain.jobs.types import OUTPUT_TYPES
from aml_emulator.domain.metrics import logged_by
from aml_emulator.domain.runs import known_run
from aml_emulator.domain.workspace import REUSED_RUN
from aml_emulator.store.runs import Run

#: Members of a run that have no value here.
_UNUSED: Final = dict.fromkeys(
    [
        "token",
        "tokenExpiryTimeUtc",
        "warnings",
        "currentComputeTime",
        "effectiveStartTimeUtc",
        "scheduleId",
        "cancelationReason",
        "scriptName",
        "runDefinition",
        "jobSpecification",
        "primaryMetricName",
        "createdFrom",
        "completeUri",
        "diagnosticsUri",
        "queueingInfo",
    ]
)

OWNERS = ("", "/experiments/{experiment}", "/experimentids/{experiment_id}")
"""The possible prefixes of ``/runs/{run}`` in a path."""


def run_routes(*operations: tuple[str, str, Handler]) -> list[Route]:
    """Return the routes of operations (method, path after the run, handler) on a run."""
    return [
        Route(method, f"/history/v1.0{{WS}}{owner}/runs/{{run}}{tail}", handler)
        for owner in OWNERS
        for method, tail, handler in operations
    ]


def run_of(context: Context, call: Call) -> Run:
    """Return the run that a path names, with or without its experiment."""
    params = call.params
    return known_run(
        context, params["run"], experiment=params.get("experiment"), experiment_id=params.get("experiment_id")
    )


def run_view(context: Context, run: Run) -> dict[str, Any]:
    """Return a run as run history shows it."""
    identity = context.identity
    user = user_view(context)
    cancel = None if run.job is None else _cancel_address(context, run)
    lasted = duration(run)
    spec = json.loads(run.spec or "{}")
    asset = f"azureml://locations/{identity.location}/workspaces/{identity.workspace_id}/data"
    return {
        **_UNUSED,
        "runNumber": run.number,
        **family_view(context, run),
        "createdUtc": iso(run.created),
        "createdBy": user,
        "userId": identity.object_id,
        "error": run_error(run),
        "revision": int(run.modified * 1000),
        "statusRevision": 1,
        "runUuid": run.uuid,
        "hasVirtualParent": False,
        "computeDuration": lasted,
        "duration": lasted,
        # A run that no job made, as MLflow's own, has no specification.
        "currentAttemptId": spec.get("attempt", 1),
        "lastStartTimeUtc": iso(spec.get("requeued") or run.started),
        "lastModifiedBy": user,
        "lastModifiedUtc": iso(run.modified),
        "runId": run.id,
        "experimentId": run.experiment_id,
        "status": run_status(context, run),
        "startTimeUtc": iso(run.started),
        "endTimeUtc": iso(run.ended),
        "displayName": run.display_name,
        "name": run.display_name if run.display_name != run.id else None,
        "dataContainerId": f"dcid.{run.id}",
        "description": run.description,
        "hidden": run.archived,
        "runType": _type(run),
        "runTypeV2": {"orchestrator": None, "traits": [], "attribution": None, "computeType": "AmlcTrain"},
        "properties": dict(run.properties),
        "parameters": dict(logged_by(context, run).params),
        "actionUris": {} if cancel is None else {"Cancel": cancel},
        "target": compute_name(run),
        "uniqueChildRunComputeTargets": [],
        "tags": dict(run.tags),
        "settings": {},
        "services": {},
        "inputDatasets": datasets_read_by(context, context.store.v1.definition(run.id)),
        "outputDatasets": [],
        "inputs": {},
        "outputs": {
            name: {
                # The asset of a reused node's output is the earlier run's.
                "assetId": f"{asset}/{output_asset(run.properties.get(REUSED_RUN, run.id), name)}/versions/1",
                "type": OUTPUT_TYPES[str(place["kind"])],
            }
            for name, place in run.outputs.items()
            if place["stored"]
        },
        "cancelUri": cancel,
        "computeRequest": None if run.job is None else {"nodeCount": instance_count(run.job), "gpuCount": 0},
        "compute": compute_view(run),
        "retainForLifetimeOfWorkspace": False,
    }


_COMPOSED_TYPES: Final = {"pipeline": "azureml.PipelineRun", "sweep": "azureml.sweep"}


def family_view(context: Context, run: Run) -> dict[str, Any]:
    """Return the ids of a run's parent and of the root above it.

    A run without a parent is its own root.
    """
    above = context.store.runs.ancestors(run)
    root = above[-1] if above else run
    return {
        "parentRunId": run.parent_id,
        "parentRunUuid": above[0].uuid if above else None,
        "rootRunId": root.id,
        "rootRunUuid": root.uuid,
    }


def _type(run: Run) -> str:
    """Return the type of a run, in the words of AzureML's own clients."""
    if run.job is None:
        return "mlflow"
    if (kind := composed_kind(run.job)) is not None:
        return _COMPOSED_TYPES[kind]
    return "azureml.StepRun" if NODE_ID in run.properties else "azureml.scriptrun"


def user_view(context: Context) -> dict[str, Any]:
    """Return who made a run: the one service principal."""
    identity = context.identity
    return {
        "userObjectId": identity.object_id,
        "userPuId": None,
        "userIdp": None,
        "userAltSecId": None,
        "userIss": f"https://sts.windows.net/{identity.tenant_id}/",
        "userTenantId": identity.tenant_id,
        "userName": USER,
        "upn": None,
    }


def duration(run: Run) -> str | None:
    """Return how long a run took, ``HH:MM:SS.ffffff``; None before its end."""
    if run.started is None or run.ended is None:
        return None
    whole, rest = divmod(max(0.0, run.ended - run.started), 1)
    minutes, seconds = divmod(int(whole), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{int(rest * 1e6):06}"


def compute_view(run: Run) -> dict[str, Any]:
    """Return where a run runs."""
    resources = (run.job or {}).get("resources") or {}
    return {
        "target": compute_name(run),
        "targetType": "amlcompute" if run.job else None,
        "vmSize": None,
        "instanceType": resources.get("instanceType"),
        "instanceCount": int(resources.get("instanceCount") or 1),
        "gpuCount": 0,
        "priority": None,
        "region": None,
        "armId": None,
        "properties": None,
    }


def _cancel_address(context: Context, run: Run) -> str:
    identity = context.identity
    place = f"subscriptions/{identity.subscription_id}/resourceGroups/{identity.resource_group}"
    path = f"{place}/workspaces/{identity.workspace}/runs/{run.id}/Cancel"
    return f"https://{identity.api_host}/studioservice/apiv2/{path}"


def run_status(context: Context, run: Run) -> str:
    """Return a run's status, for azureml-core without Finalizing.

    It takes that for the end, and requests outputs that are not stored yet.
    """
    shown = context.shown.status(run)
    unstored = shown == "Finalizing" and context.store.v1.definition(run.id) is not None
    return "Running" if unstored else shown


def experiment_view(context: Context, name: str) -> dict[str, Any]:
    """Return an experiment as run history shows it, made if there is none."""
    experiment = context.store.runs.ensure_experiment(name)
    return {
        "experimentId": experiment.id,
        "name": experiment.name,
        "createdUtc": iso(experiment.created),
        "tags": dict(experiment.tags),
        "archivedTime": None,
        "artifactLocation": None,
    }


def run_error(run: Run) -> dict[str, Any] | None:
    """Return why a run failed, as ``ErrorResponse`` of run history."""
    if run.error_code is None:
        return None
    return {
        "error": {
            **history_error(run.error_code, run.error_message),
            "messageParameters": {"exitCode": str(run.exit_code)} if run.exit_code is not None else {},
        },
        "correlation": None,
        "environment": None,
        "location": None,
        "time": iso(run.ended),
        "componentName": "aml-emulator",
    }
