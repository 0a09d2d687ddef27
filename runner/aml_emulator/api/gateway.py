"""Sends requests to their workspace: by the path, or admin's by a parameter."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from aml_emulator.api.directory import Directory, OpenWorkspace
from aml_emulator.api.errors import ServiceError, admin_answer
from aml_emulator.identity.identity import Identity

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._serve(scope, receive, send, from_job=False)

    async def for_jobs(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request that comes from a job's network."""
        await self._serve(scope, receive, send, from_job=True)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, *, from_job: bool) -> None:
        try:
            workspace = await self._workspace(scope)
        except ServiceError as error:
            await self._directory.first.app.refuse(scope, receive, send, error)
            return
        answer = workspace.app.for_jobs if from_job else workspace.app
        await answer(scope, receive, send)

    async def _workspace(self, scope: Scope) -> OpenWorkspace:
        """Return the workspace that a request names; the first one answers for none.

        Raises:
            ServiceError: its state cannot be used.
        """
        directory, path = self._directory, scope.get("raw_path") or b""
        match = _WORKSPACE.search(path)
        if match is None:
            return self._of_operation(path)
        name = unquote(match[1])
        found = directory.find_open(name) or await run_in_threadpool(directory.find, name)
        return found or directory.first

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
        handler = self._handler(method, path, query)
        if handler is not None:
            answered = partial(admin_answer, handler, f"{method} {path}")
            quick = (method, path) == ("POST", _WORKSPACES)
            return _as_json(*(answered() if quick else await run_in_threadpool(answered)))
        name = query.pop("workspace", None)
        if name is None:
            return await self._directory.first.admin.answer(method, target)
        try:
            found = self._directory.find_open(name) or await run_in_threadpool(self._directory.find, name)
        except ServiceError as error:
            return _as_json(error.status, {"error": error.message})
        if found is None:
            return _as_json(404, {"error": f"there is no workspace '{name}'"})
        return await found.admin.answer(method, f"{path}?{urlencode(query)}" if query else path)

    def _handler(self, method: str, path: str, query: dict[str, str]) -> Callable[[], Answer] | None:
        """Return what answers for all workspaces, None for one workspace's requests."""
        if (method, path) == ("POST", _RESET) and "workspace" not in query and len(self._directory.all()) > 1:
            return lambda: self._reset(force=query.get("force") == "1")
        handlers: dict[tuple[str, str], Callable[[], Answer]] = {
            ("GET", _WORKSPACES): self._listed,
            ("POST", _WORKSPACES): lambda: (200, _view(self._directory.create(query.get("name", "")))),
            ("DELETE", _WORKSPACES): lambda: self._deleted(query),
        }
        return handlers.get((method, path))

    def _listed(self) -> Answer:
        return 200, {"workspaces": [_view(identity) for identity in self._directory.all()]}

    def _deleted(self, query: dict[str, str]) -> Answer:
        self._directory.delete(query.get("name", ""), force=query.get("force") == "1")
        return self._listed()

    def _reset(self, *, force: bool) -> Answer:
        """Delete the workspaces that were created, and what is in the first one."""
        for identity in self._directory.all()[1:]:
            self._directory.delete(identity.workspace, force=force)
        return self._directory.first.admin.reset(force=force)


def _as_json(status: int, value: dict[str, Any]) -> tuple[int, bytes]:
    return status, json.dumps(value).encode("utf-8") + b"\n"


def _view(identity: Identity) -> dict[str, str]:
    """Return what a client must know of a workspace."""
    return {
        "name": identity.workspace,
        "id": identity.workspace_id,
        "instance": identity.instance,
        "subscription_id": identity.subscription_id,
        "resource_group": identity.resource_group,
    }
