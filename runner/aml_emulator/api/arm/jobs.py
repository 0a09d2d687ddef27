"""Jobs as ARM shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from aml_emulator.api.arm.computes import RETRY_AFTER
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.shapes import cut, page, resource
from aml_emulator.context import Context
from aml_emulator.domain import JOB_CHANGES, JOB_SHAPE, InvalidError, JobService, NotSupportedError, known_job
from aml_emulator.schema import Fields
from aml_emulator.store import Run

PAGE = 50


def routes(context: Context, jobs: JobService) -> Sequence[Route]:
    """Return the routes of jobs."""
    handlers = Jobs(context, jobs)
    return (
        Route(method="GET", path="{WS}/jobs", handler=handlers.list),
        Route(method="GET", path="{WS}/jobs/{name}", handler=handlers.get),
        Route(method="PUT", path="{WS}/jobs/{name}", handler=handlers.put),
        Route(method="PATCH", path="{WS}/jobs/{name}", handler=handlers.patch),
        Route(method="POST", path="{WS}/jobs/{name}/cancel", handler=handlers.cancel),
        Route(method="PUT", path="{WS}/components/{name}/versions/{version}", handler=handlers.component),
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
        if (call.option("jobType") or "command").lower() != "command":
            # There are none of other types.
            return page(call, [], None)
        size = call.integer("$top", PAGE, low=1, high=PAGE)
        archived = {"All": None, "ArchivedOnly": True}.get(call.option("listViewType"), False)
        runs = self._context.store.runs.jobs(
            limit=size + 1, after=_after(call.option("$skip")), archived=archived, tag=call.option("tag")
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
        run, new = self._jobs.put(
            call.params["name"], call.json(Fields({"properties": JOB_SHAPE})).get("properties") or {}
        )
        return Reply(status=201 if new else 200, value=self._view(run))

    def patch(self, call: Call) -> dict[str, Any]:
        """Change tags, names and whether a job is archived."""
        known_job(self._context, call.params["name"])
        changes = call.json(Fields({"properties": JOB_CHANGES})).get("properties") or {}
        return self._view(self._jobs.change(call.params["name"], changes))

    def cancel(self, call: Call) -> Reply:
        """Ask for a job to be stopped; the operation ends when it has."""
        run = self._jobs.cancel(call.params["name"])
        operation = self._context.store.assets.start_operation("cancel", run.id)
        address = (
            f"https://management.azure.com{self._context.identity.workspace_arm_id}/operationResults/{operation}"
            f"?{urlencode({'api-version': call.query.get('api-version', '')})}"
        )
        return Reply(status=202, headers={"Location": address, **RETRY_AFTER})

    def component(self, call: Call) -> Reply:
        """Refuse a component: azure-ai-ml creates them before a pipeline job."""
        raise NotSupportedError(f"components ('{call.params['name']}'), which jobs of type 'Pipeline' consist of")

    def _view(self, run: Run) -> dict[str, Any]:
        job = dict(run.job or {})
        identity = self._context.identity
        arm_id = identity.workspace_arm_id
        artifacts = self._context.artifacts_of(run.id)
        outputs: dict[str, Any] = {
            name: {
                **value,
                "uri": value.get("uri") or f"azureml://datastores/workspaceblobstore/paths/azureml/{run.id}/{name}/",
                "mode": value.get("mode") or "ReadWriteMount",
            }
            for name, value in (job.get("outputs") or {}).items()
        }
        outputs["default"] = {
            "uri": f"azureml://datastores/workspaceartifactstore/{artifacts.prefix}",
            "mode": "ReadWriteMount",
            "jobOutputType": "uri_folder",
        }
        properties = dict(run.properties)
        if run.exit_code is not None:
            properties["exitCode"] = str(run.exit_code)
        if run.error_message:
            properties["errorMessage"] = run.error_message
        return resource(
            f"{arm_id}/jobs/{run.id}",
            "workspaces/jobs",
            {
                **job,
                "jobType": "Command",
                "displayName": run.display_name,
                "description": run.description,
                "experimentName": run.experiment,
                "tags": dict(run.tags),
                "properties": properties,
                "isArchived": run.archived,
                "status": self._context.shown.status(run),
                "outputs": outputs,
                "services": {
                    "Tracking": {
                        "endpoint": f"azureml://{identity.api_host}/mlflow/v1.0{arm_id}",
                        "jobServiceType": "Tracking",
                        "port": None,
                        "status": None,
                    },
                    "Studio": {
                        "endpoint": f"https://ml.azure.com/runs/{run.id}?wsid={arm_id}&tid={identity.tenant_id}",
                        "jobServiceType": "Studio",
                        "port": None,
                        "status": None,
                    },
                },
            },
            created=run.created,
            modified=run.modified,
        )


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
