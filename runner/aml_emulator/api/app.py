"""The HTTPS application: route, token, handler, and the shape of errors."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from aml_emulator.api import artifacts, login
from aml_emulator.api import run_history as history
from aml_emulator.api.arm import assets, computes, datastores, jobs, registries, registry_assets, workspaces
from aml_emulator.api.errors import (
    ServiceError,
    error_code,
    management_body,
    mlflow_error,
    resource_not_found,
    service_body,
    service_error,
    state_error,
)
from aml_emulator.api.mlflow import experiments as mlflow_experiments
from aml_emulator.api.mlflow import models as mlflow_models
from aml_emulator.api.mlflow import runs as mlflow
from aml_emulator.api.routing import Call, Reply, Route, Router
from aml_emulator.api.shapes import MANAGEMENT_HOST, response_headers
from aml_emulator.api.v1 import datasets as v1_datasets
from aml_emulator.api.v1 import datastores as v1_datastores
from aml_emulator.api.v1 import environments as v1_environments
from aml_emulator.api.v1 import execution as v1_execution
from aml_emulator.api.v1 import metrics as v1_metrics
from aml_emulator.api.v1 import models as v1_models
from aml_emulator.api.v1 import runs as v1_runs
from aml_emulator.context import Context
from aml_emulator.domain.environment_builds import EnvironmentBuilds
from aml_emulator.domain.errors import DomainError, NotSupportedError
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.registry_tasks import RegistryTasks
from aml_emulator.identity.tokens import Principal, TokenError
from aml_emulator.network.hosts import LOGIN_HOSTS, REGISTRY_SUFFIX, SERVICE_SUFFIX

logger = logging.getLogger(__name__)

ASCII = "".join(map(chr, range(0x21, 0x7F)))
"""Characters that a path may hold; other bytes are percent-encoded."""

ANSWERING_THREADS = 40
"""How many requests are answered at once: handlers wait for the database and for Blob storage."""

MAX_BODY_BYTES = 64 * 1024 * 1024


class App:
    """The ASGI application; :meth:`answer` needs no server.

    Args:
        tasks: the registry's runs; None for a registry without ACR Tasks.
        builds: the builds of environments; None for a workspace that builds none on request.
    """

    def __init__(
        self,
        context: Context,
        job_service: JobService,
        tasks: RegistryTasks | None = None,
        builds: EnvironmentBuilds | None = None,
    ) -> None:
        self._context = context
        self._threads = ThreadPoolExecutor(ANSWERING_THREADS, thread_name_prefix="answer")
        self._login = Router(login.routes(context))
        modules: tuple[Iterable[Route], ...] = (
            workspaces.routes(context),
            workspaces.permission_routes(context),
            registries.task_routes(context, tasks) if tasks is not None else (),
            datastores.routes(context),
            computes.routes(context, job_service),
            assets.routes(context),
            jobs.routes(context, job_service),
            workspaces.empty_routes(),
            registries.routes(context),
            registry_assets.routes(context),
            history.routes(context),
            artifacts.history_routes(context),
            mlflow_experiments.routes(context),
            mlflow.routes(context),
            mlflow_models.routes(context),
            assets.resolve_routes(context),
            login.studio_routes(context),
            v1_execution.content_routes(context),
            v1_environments.routes(context, builds),
            v1_execution.routes(context, job_service),
            v1_runs.routes(context, job_service),
            artifacts.v1_routes(context),
            v1_metrics.routes(context),
            v1_models.routes(context),
            v1_datastores.routes(context),
            v1_datasets.routes(context),
        )
        self._routes = Router(chain(*modules))

    @property
    def routes(self) -> Sequence[Route]:
        """All operations."""
        return (*self._login.routes, *self._routes.routes)

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, *, from_job: bool = False, error: ServiceError | None = None
    ) -> None:
        """Answer one request.

        Args:
            from_job: whether it comes from a job's network.
            error: what its answer is already; None if it has to be handled.
        """
        if scope["type"] != "http":
            raise RuntimeError(f"not an HTTP request: {scope['type']}")
        headers, body = Headers(scope=scope), await _read(receive)
        if body is None:
            error = ServiceError(413, "RequestEntityTooLarge", f"More than {MAX_BODY_BYTES} bytes.")
        call = Call(
            method=scope["method"],
            host=headers.get("host", "").partition(":")[0].lower(),
            path=quote(scope["raw_path"], safe=ASCII),
            params={},
            query=QueryParams(scope["query_string"]),
            headers=headers,
            body=body or b"",
            principal=None,
            from_job=from_job,
        )
        response = await asyncio.get_running_loop().run_in_executor(self._threads, self.answer, call, error)
        await response(scope, receive, send)

    def answer(self, call: Call, error: ServiceError | None = None) -> Response:
        """Answer one request in this thread; an ASGI server is not needed.

        Args:
            error: what its answer is already; None if it has to be handled.
        """
        began = time.perf_counter()
        if error is None:
            reply, content = self._answer(call)
        else:
            reply = self._error(error, call.path, call.host)
            content = reply.encoded()
        took = time.perf_counter() - began
        logger.debug("%s %s%s -> %d in %.1f ms", call.method, call.host, call.path, reply.status, took * 1000)
        self._context.requests.add(
            call.method,
            call.host,
            call.path,
            reply.status,
            took,
            client=call.headers.get("user-agent", ""),
            error=error_code(reply.value) if reply.status >= 400 else "",
        )
        sent = {
            "content-length": str(len(content)),
            **response_headers(reply.status, seconds=took),
            **({"content-type": reply.media_type} if content else {}),
            **reply.headers,
        }
        return Response(b"" if call.method == "HEAD" else content, reply.status, sent)

    def _answer(self, call: Call) -> tuple[Reply, bytes]:
        """Return the answer and its body; a value that is no JSON is a fault, too."""
        try:
            value = self._dispatch(call)
            reply = value if isinstance(value, Reply) else Reply(value=value)
            return reply, reply.encoded()
        except Exception as error:  # noqa: BLE001 - the boundary: a fault of the emulator itself is logged whole and answered 500
            reply = self._failed(call, error)
            return reply, reply.encoded()

    def _failed(self, call: Call, error: Exception) -> Reply:
        if isinstance(error, NotSupportedError):
            self._context.unsupported.note(error.what)
        if isinstance(error, DomainError):
            error = mlflow_error(error) if call.path.startswith("/mlflow/") else service_error(error)
        if isinstance(error, ServiceError):
            return self._error(error, call.path, call.host)
        if isinstance(error, TokenError):
            authority = f"https://login.microsoftonline.com/{self._context.identity.tenant_id}"
            challenge = f'Bearer authorization_uri="{authority}", error="invalid_token"'
            reply = self._error(ServiceError(401, error.code, error.message), call.path, call.host)
            return Reply(status=401, value=reply.value, headers={"WWW-Authenticate": challenge})
        logger.error("%s %s%s failed", call.method, call.host, call.path, exc_info=error)
        damage = state_error(error)
        if damage is not None:
            return self._error(damage, call.path, call.host)
        message = "The local AzureML failed; its log says how."
        return self._error(ServiceError(500, "InternalServerError", message), call.path, call.host)

    def _error(self, error: ServiceError, raw_path: str, host: str) -> Reply:
        """Return the answer to a refused request, in its interface's form."""
        logger.info("%s -> %d %s", raw_path, error.status, json.dumps(error.message))
        body = error.body()
        general = type(error).body is ServiceError.body
        ids = {"operation": uuid.uuid4().hex, "request": uuid.uuid4().hex[:16]}
        location = self._context.identity.location
        if general and host.endswith(SERVICE_SUFFIX):
            body = service_body(error, location=location, **ids)
        elif general and (host == MANAGEMENT_HOST or host.endswith(REGISTRY_SUFFIX)):
            body = management_body(error, location=location, details=error.details, **ids)
        if raw_path.startswith("/mlflow/") and "error_code" not in body:
            # MLflow's client reads these two, ARM's the nested ones.
            body = {**body, "error_code": error.code, "message": error.message}
        return Reply(status=error.status, value=body)

    def _dispatch(self, call: Call) -> Any:
        found = (self._login if call.host in LOGIN_HOSTS else self._routes).find(call.method, call.path)
        principal = None if found is not None and found[0].open else self._principal(call.headers, call.host)
        if found is None:
            version = call.query.get("api-version", "none")
            operation = f"{call.method} https://{call.host}{call.path} (api-version {version})"
            raise NotSupportedError(operation)
        route, params = found
        self._check_scope(params)
        return route.handler(replace(call, params=params, principal=principal))

    def _principal(self, headers: Headers, host: str) -> Principal:
        if host in LOGIN_HOSTS:
            return Principal(object_id="")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise TokenError("AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing.")
        principal = self._context.tokens.verify(token.strip())
        if principal.run_id is not None:
            if host == MANAGEMENT_HOST:
                # AzureML signs it, and not Entra ID: Azure Resource Manager knows nothing of it.
                raise TokenError(
                    "InvalidAuthenticationToken",
                    "A job's own token is for AzureML's services, not for Azure Resource Manager.",
                )
            run = self._context.store.runs.get(principal.run_id)
            elsewhere = principal.workspace_id not in (None, self._context.identity.workspace_id)
            if run is None or run.terminal or elsewhere:
                raise TokenError("ExpiredAuthenticationToken", "The access token's run has ended.")
        return principal

    def _check_scope(self, params: dict[str, str]) -> None:
        """Raise if a path names another subscription, resource group or workspace."""
        identity = self._context.identity
        if "sub" in params and params["sub"].lower() != identity.subscription_id:
            raise ServiceError(404, "SubscriptionNotFound", f"The subscription '{params['sub']}' could not be found.")
        if "rg" in params and params["rg"].lower() != identity.resource_group.lower():
            raise ServiceError(404, "ResourceGroupNotFound", f"Resource group '{params['rg']}' could not be found.")
        if "ws" in params and params["ws"].lower() != identity.workspace.lower():
            raise resource_not_found(f"Microsoft.MachineLearningServices/workspaces/{params['ws']}")


async def _read(receive: Receive) -> bytes | None:
    """Return the request's body, or None if it is too large."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"".join(chunks)
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > MAX_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return b"".join(chunks)
