"""Jobs as ARM shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from aml_emulator.api.arm.computes import RETRY_AFTER
from aml_emulator.api.errors import resource_not_found
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.shapes import MANAGEMENT_HOST, address_of, archived_of, created, cut, page, resource
from aml_emulator.context import Context
from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.domain.jobs.composed import PIPELINE, composed_kind, is_child
from aml_emulator.domain.jobs.compute import DEFAULT_TIER, is_serverless
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.jobs.types import JOB_CHANGES, JOB_SHAPE, PIPELINE_SHAPE, SWEEP_SHAPE, unknown_members
from aml_emulator.domain.runs import known_job
from aml_emulator.executor.spec import Folder
from aml_emulator.schema import TEXT, Fields
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
        "parentJobName",
        "secretsConfiguration",
    )
)
_COMMON: Final = ("componentId", "computeId", "identity", "notificationSetting", "secretsConfiguration")
_COMPOSED: Final = {
    "pipeline": dict.fromkeys((*_COMMON, "jobs", "settings", "sourceJobId")),
    "sweep": dict.fromkeys(
        (*_COMMON, "componentConfiguration", "earlyTermination", "limits", "queueSettings", "resources")
    ),
}
_SERVICE: Final = {"port": None, "status": None, "errorMessage": None, "properties": None, "nodes": None}
_OUTPUT: Final = dict.fromkeys(("description", "assetName", "assetVersion", "autoDeleteSetting", "pathOnCompute"))


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
        "dockerArgsList": None,
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
    outputs: dict[str, Any] = {
        name: {
            **_OUTPUT,
            **(value or {}),
            # Recorded: the place of an output is shown once it is known to be there, unless the job names it.
            "uri": (value or {}).get("uri") or _stored_at(context, run, name),
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


def _stored_at(context: Context, run: Run, output: str) -> str | None:
    """Return where an output is, None until it is there; a pipeline's lies with the node that wrote it."""
    place = run.outputs.get(output) or {}
    if not place.get("stored"):
        return None
    folder = Folder(container=place["container"], prefix=place["prefix"])
    if folder.container != context.identity.blob_container:
        return context.datastore_uri(folder)
    return f"azureml://datastores/workspaceblobstore/paths/{folder.prefix.strip('/')}/"


def _services(context: Context, run: Run) -> dict[str, Any]:
    """Return the job's own services, and where it is followed: by MLflow, and in the studio."""
    identity = context.identity
    # The studio's form of a workspace id.
    place = f"/subscriptions/{identity.subscription_id}/resourcegroups/{identity.resource_group}"
    workspace = f"{place}/workspaces/{identity.workspace}"
    endpoints = {
        "Tracking": f"azureml://{identity.api_host}/mlflow/v1.0{identity.workspace_arm_id}?",
        "Studio": f"https://ml.azure.com/runs/{run.id}?wsid={workspace}&tid={identity.tenant_id}",
    }
    own = {name: value for name, value in ((run.job or {}).get("services") or {}).items() if name not in endpoints}
    return {
        **{name: {**_SERVICE, "endpoint": None, **(value or {})} for name, value in own.items()},
        **{name: {**_SERVICE, "jobServiceType": name, "endpoint": endpoint} for name, endpoint in endpoints.items()},
    }


PAGE = 50
_SHAPES: Final = {"pipeline": PIPELINE_SHAPE, "sweep": SWEEP_SHAPE}
CANCELLATION = "jc"
"""The first part of the id of a cancellation's operation."""


def routes(context: Context, jobs: JobService) -> Sequence[Route]:
    """Return the routes of jobs."""
    handlers = Jobs(context, jobs)
    locations = "/subscriptions/{sub}/providers/Microsoft.MachineLearningServices/locations"
    results = f"{locations}/{{location}}/mfeOperationResults/{{id}}"
    return (
        Route("GET", "{WS}/jobs", handlers.list),
        Route("GET", "{WS}/jobs/{name}", handlers.get),
        Route("PUT", "{WS}/jobs/{name}", handlers.put),
        Route("PATCH", "{WS}/jobs/{name}", handlers.patch),
        Route("DELETE", "{WS}/jobs/{name}", handlers.delete),
        Route("POST", "{WS}/jobs/{name}/cancel", handlers.cancel),
        Route("GET", results, handlers.result),
    )


class Jobs:
    """Answers for jobs."""

    def __init__(self, context: Context, jobs: JobService) -> None:
        self._context = context
        self._jobs = jobs

    def list(self, call: Call) -> dict[str, Any]:
        """Return jobs, newest first, in pages."""
        for name in ("properties", "scheduleid", "assetname"):
            if call.option(name):
                raise NotSupportedError(f"listing jobs by '{name}'")
        kind = (call.option("jobType") or "").lower()
        if kind not in ("", "command", "pipeline", "sweep"):
            # There are none of other types.
            return page(call, [], None)
        size = call.integer("$top", PAGE, low=1, high=PAGE)
        archived = archived_of(call)
        runs = self._context.store.runs.jobs(
            limit=size + 1,
            after=_after(call.option("$skip")),
            archived=archived,
            tag=call.option("tag"),
            kind=kind or None,
        )
        # The next page begins after a job, and not at a number: jobs that are submitted meanwhile shift none.
        shown, following = cut(runs, 0, size)
        last = None if following is None else f"{shown[-1].created!r}/{shown[-1].id}"
        return page(call, [self._view(run) for run in shown], last)

    def get(self, call: Call) -> dict[str, Any]:
        """Return one job."""
        return self._view(known_job(self._context, call.params["name"]))

    def put(self, call: Call) -> Reply:
        """Submit a job, or change its tags and names."""
        sent = call.json(Fields({"properties": Fields({"jobType": TEXT})})).get("properties")
        shape = _SHAPES.get(composed_kind(sent) or "", JOB_SHAPE)
        job = call.json(Fields({"properties": shape})).get("properties") or {}
        if unknown := unknown_members(job, call.query.get("api-version", "")):
            raise InvalidError(
                "Request is invalid and/or missing fields.",
                reasons=("RequestInvalid",),
                details=tuple({"code": "RequestInvalid", "message": said} for said in unknown),
            )
        run, new = self._jobs.put(call.params["name"], job)
        return created(call, self._view(run), new=new)

    def patch(self, call: Call) -> dict[str, Any]:
        """Change tags, names and whether a job is archived."""
        known_job(self._context, call.params["name"])
        changes = call.json(Fields({"properties": JOB_CHANGES})).get("properties") or {}
        return self._view(self._jobs.change(call.params["name"], changes))

    def delete(self, call: Call) -> Reply:
        """Delete a job that has ended, with its metrics; its files in Blob storage stay."""
        self._jobs.delete(call.params["name"])
        return Reply(status=200)

    def cancel(self, call: Call) -> Reply:
        """Ask for a job to be stopped; the operation ends when it has."""
        if known_job(self._context, call.params["name"]).terminal:
            return Reply(status=200)
        run, identity = self._jobs.cancel(call.params["name"]), self._context.identity
        operation = f"{CANCELLATION}:{identity.workspace_id}:{run.id}"
        address = (
            f"https://{MANAGEMENT_HOST}{identity.location_id}/mfeOperationResults/{operation}"
            f"?{urlencode({'api-version': call.query.get('api-version', '')})}"
        )
        headers = {"Location": address, "x-ms-async-operation-timeout": "PT1H", **RETRY_AFTER}
        return Reply(status=202, headers=headers)

    def result(self, call: Call) -> Reply:
        """Return the result of a cancellation: 202 until the job has ended."""
        kind, _, rest = call.params["id"].partition(":")
        run = self._context.store.runs.get(rest.partition(":")[2])
        if kind != CANCELLATION or run is None:
            raise resource_not_found(f"mfeOperationResults/{call.params['id']}")
        if run.terminal:
            return Reply(status=200)
        return Reply(status=202, value={}, headers={"Location": address_of(call), **RETRY_AFTER})

    def _view(self, run: Run) -> dict[str, Any]:
        return job_view(self._context, run)


def _after(token: str) -> tuple[float, str] | None:
    """Return the creation and name of the job before a page, None for the first page.

    Raises:
        ServiceError: it is not a token of this list.
    """
    if not token:
        return None
    created, _, name = token.partition("/")
    try:
        return float(created), name
    except ValueError as error:
        raise InvalidError(f"Not a continuation token of this list: '{token}'") from error
