"""A registry's actions as Azure Resource Manager has them: ACR Tasks.

Shapes as in azure-mgmt-containerregistry 10.3.0, ``v2019_06_01_preview``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aml_emulator.api.errors import resource_not_found
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.shapes import cut, page
from aml_emulator.context import Context
from aml_emulator.domain.errors import NotSupportedError
from aml_emulator.domain.registry_tasks import RUN_REQUEST, RegistryRun, RegistryTasks

MAX_PAGE = 100
_REGISTRY = "/subscriptions/{sub}/resourceGroups/{rg}/providers/Microsoft.ContainerRegistry/registries/{name}"


def routes(context: Context, tasks: RegistryTasks) -> Sequence[Route]:
    """Return the routes of the registry's runs."""
    answers = TaskAnswers(context, tasks)
    return (
        Route(method="POST", path=f"{_REGISTRY}/listBuildSourceUploadUrl", handler=answers.upload),
        Route(method="POST", path=f"{_REGISTRY}/scheduleRun", handler=answers.schedule),
        Route(method="GET", path=f"{_REGISTRY}/runs", handler=answers.list),
        Route(method="GET", path=f"{_REGISTRY}/runs/{{run}}", handler=answers.get),
        Route(method="POST", path=f"{_REGISTRY}/runs/{{run}}/listLogSasUrl", handler=answers.log),
        Route(method="POST", path=f"{_REGISTRY}/runs/{{run}}/cancel", handler=answers.cancel),
    )


class TaskAnswers:
    """Answers for one registry's runs."""

    def __init__(self, context: Context, tasks: RegistryTasks) -> None:
        self._context = context
        self._tasks = tasks

    def upload(self, call: Call) -> dict[str, Any]:
        """Return where to upload a source."""
        self._check(call)
        url, path = self._tasks.upload()
        return {"uploadUrl": url, "relativePath": path}

    def schedule(self, call: Call) -> Reply:
        """Begin a run."""
        self._check(call)
        return Reply(value=self._view(self._tasks.schedule(call.json(RUN_REQUEST))))

    def list(self, call: Call) -> dict[str, Any]:
        """Return the runs, newest first."""
        self._check(call)
        if call.option("$filter"):
            raise NotSupportedError("a filter of the registry's runs")
        top = call.integer("$top", MAX_PAGE, low=1, high=MAX_PAGE)
        shown, following = cut(self._tasks.runs(), call.integer("$skip", 0), top)
        return page(call, [self._view(run) for run in shown], following)

    def get(self, call: Call) -> dict[str, Any]:
        """Return one run."""
        self._check(call)
        return self._view(self._tasks.run(call.params["run"]))

    def log(self, call: Call) -> dict[str, Any]:
        """Return the signed address of a run's log."""
        self._check(call)
        return {"logLink": self._tasks.log_address(call.params["run"])}

    def cancel(self, call: Call) -> Reply:
        """End a run; the answer does not wait for it."""
        self._check(call)
        self._tasks.cancel(call.params["run"])
        return Reply(status=202)

    def _check(self, call: Call) -> None:
        _check_registry(self._context, call)

    def _view(self, run: RegistryRun) -> dict[str, Any]:
        identity = self._context.identity
        registry = identity.login_server.partition(".")[0]
        base = f"{identity.resource_group_id}/providers/Microsoft.ContainerRegistry/registries/{registry}"
        return {
            "id": f"{base}/runs/{run.id}",
            "name": run.id,
            "type": "Microsoft.ContainerRegistry/registries/runs",
            "properties": dict(run.properties),
        }


def _check_registry(context: Context, call: Call) -> None:
    if call.params["name"].lower() != context.identity.login_server.partition(".")[0]:
        raise resource_not_found(f"Microsoft.ContainerRegistry/registries/{call.params['name']}")
