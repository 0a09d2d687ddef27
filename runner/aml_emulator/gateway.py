"""Sends requests to their workspace: by the path, or admin's by a parameter."""

from __future__ import annotations

import json
import re
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from aml_emulator.api.errors import ServiceError, admin_answer
from aml_emulator.domain.errors import NotFoundError
from aml_emulator.identity.identity import Identity
from aml_emulator.workspaces import Directory, OpenWorkspace

_WORKSPACE: Final = re.compile(
    rb"/providers/Microsoft\.MachineLearningServices/workspaces/([^/]+)", flags=re.IGNORECASE
)
_OPERATION: Final = re.compile(
    rb"/locations/[^/]+/(?:mfeOperationResults|computeOperationsStatus)/([^/]+)$", flags=re.IGNORECASE
)
_WORKSPACES: Final = "/_emulator/workspaces"
_RESET: Final = "/_emulator/reset"

Answer = tuple[int, dict[str, Any]]


class Gateway:
    """The ASGI application of all workspaces, and the admin interface of all."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    async def __call__(self, scope: Scope, receive: Receive, send: Send, *, from_job: bool = False) -> None:
        """Answer one request; *from_job* says whether it comes from a job's network."""
        try:
            workspace = await self._workspace(scope)
        except ServiceError as error:
            await self._directory.first.app(scope, receive, send, error=error)
            return
        await workspace.app(scope, receive, send, from_job=from_job)

    async def _workspace(self, scope: Scope) -> OpenWorkspace:
        """Return the workspace that a request names; the first one answers for none.

        Raises:
            ServiceError: its state cannot be used.
        """
        directory, path = self._directory, scope.get("raw_path") or b""
        match = _WORKSPACE.search(path)
        if match is None:
            return self._of_operation(path)
        return await run_in_threadpool(directory.find, unquote(match[1])) or directory.first

    def _of_operation(self, path: bytes) -> OpenWorkspace:
        """Return the workspace of a long-running operation, whose address has none."""
        opened = self._directory.opened()
        match = _OPERATION.search(path) if len(opened) > 1 else None
        if match is not None:
            operation = unquote(match[1])
            for one in opened:
                named = f":{one.context.identity.workspace_id}:" in operation
                if named or one.context.store.assets.operation(operation) is not None:
                    return one
        return self._directory.first

    async def admin(self, method: str, target: str) -> tuple[int, bytes]:
        """Return status and JSON for one request of the admin interface.

        The parameter ``workspace`` names a workspace; without it, it is the first one.
        """
        path, _, raw_query = target.partition("?")
        query = {name: values[-1] for name, values in parse_qs(raw_query).items()}
        status, value = await run_in_threadpool(
            admin_answer, lambda: self._answer(method, path, query), f"{method} {path}"
        )
        return status, json.dumps(value).encode("utf-8") + b"\n"

    def _answer(self, method: str, path: str, query: dict[str, str]) -> Answer:
        directory, force = self._directory, query.get("force") == "1"
        name = query.pop("workspace", None)
        if path == _WORKSPACES:
            match method:
                case "POST":
                    return 200, _view(directory.create(query.get("name", "")))
                case "DELETE":
                    directory.delete(query.get("name", ""), force=force)
            return 200, {"workspaces": [_view(identity) for identity in directory.all()]}
        if (method, path, name) == ("POST", _RESET, None):
            for identity in directory.all()[1:]:
                directory.delete(identity.workspace, force=force)
        found = directory.first if name is None else directory.find(name)
        if found is None:
            raise NotFoundError(f"workspace '{name}'", message=f"there is no workspace '{name}'")
        return found.admin.answer(method, path, query)


def _view(identity: Identity) -> dict[str, str]:
    """Return what a client must know of a workspace."""
    return {
        "name": identity.workspace,
        "id": identity.workspace_id,
        "instance": identity.instance,
        "subscription_id": identity.subscription_id,
        "resource_group": identity.resource_group,
    }
