"""Jobs as ARM shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from aml_emulator.api.arm.computes import RETRY_AFTER
from aml_emulator.api.arm.job_view import job_view
from aml_emulator.api.errors import resource_not_found
from aml_emulator.api.response_headers import MANAGEMENT_HOST
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.shapes import address_of, archived_of, created, cut, page
from aml_emulator.context import Context
from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.domain.jobs.composed import composed_kind
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.jobs.types import JOB_CHANGES, JOB_SHAPE, PIPELINE_SHAPE, SWEEP_SHAPE
from aml_emulator.domain.runs import known_job
from aml_emulator.schema import TEXT, Fields
from aml_emulator.store.runs import Run

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
        Route(method="GET", path="{WS}/jobs", handler=handlers.list),
        Route(method="GET", path="{WS}/jobs/{name}", handler=handlers.get, quick=True),
        Route(method="PUT", path="{WS}/jobs/{name}", handler=handlers.put),
        Route(method="PATCH", path="{WS}/jobs/{name}", handler=handlers.patch),
        Route(method="DELETE", path="{WS}/jobs/{name}", handler=handlers.delete),
        Route(method="POST", path="{WS}/jobs/{name}/cancel", handler=handlers.cancel),
        Route(method="GET", path=results, handler=handlers.result),
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
        run, new = self._jobs.put(
            call.params["name"], call.json(Fields({"properties": shape})).get("properties") or {}
        )
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
