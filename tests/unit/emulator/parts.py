"""Pieces that the emulator's unit tests share: an identity, a clock, services without storage, a runner that runs nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote

import anyio
from starlette.datastructures import Headers

from aml_emulator.api.admin import Admin
from aml_emulator.api.app import App
from aml_emulator.api.errors import admin_answer
from aml_emulator.context import Context
from aml_emulator.domain.clusters import create_default_cluster
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.registry_tasks import RegistryTasks
from aml_emulator.executor.spec import RunError, RunSpec
from aml_emulator.identity.identity import Identity
from aml_emulator.identity.tokens import Tokens
from aml_emulator.store.blobs import Blobs
from aml_emulator.store.store import Store

IDENTITY = Identity(
    instance="abcd1234",
    tenant_id="11111111-1111-1111-1111-111111111111",
    client_id="22222222-2222-2222-2222-222222222222",
    client_secret="the secret",
    object_id="33333333-3333-3333-3333-333333333333",
    token_secret="ab" * 32,
    subscription_id="44444444-4444-4444-4444-444444444444",
    resource_group="aml-local",
    workspace="local",
    workspace_id="55555555-5555-5555-5555-555555555555",
    location="eastus",
    compute="local-cluster",
    login_server="amllocal.azurecr.io",
    storage_account="amllocalstore",
    storage_key="a2V5",
)
WS = IDENTITY.workspace_arm_id
VERSION = "2024-01-01-preview"


class Clock:
    """A clock that is set by hand; it moves a millisecond with every look at it, so that things have an order."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


class IdleRunner:
    """Takes runs and never runs them."""

    def __init__(self) -> None:
        self.submitted: list[RunSpec] = []
        self.failed: dict[str, RunError] = {}
        self.adopted: list[str] = []
        self.started = False

    def start(self) -> None:
        self.started = True

    def submit(self, spec: RunSpec) -> None:
        self.submitted.append(spec)

    def cancel(self, run_id: str) -> bool:
        return any(spec.run_id == run_id for spec in self.submitted)

    def adopt(self, specs: Iterable[RunSpec]) -> None:
        self.adopted += [spec.run_id for spec in specs]

    def active(self) -> tuple[str, ...]:
        return tuple(spec.run_id for spec in self.submitted)

    def fail(self, run_id: str, error: RunError) -> bool:
        self.failed[run_id] = error
        return self.cancel(run_id)

    def preempt(self, run_id: str) -> bool:
        return self.cancel(run_id)

    def forget_images(self) -> None:
        return

    def wake(self) -> None:
        return

    def engine_ready(self) -> bool:
        return True

    def close(self) -> None:
        self.submitted.clear()


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer of the application."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def made_admin(**parts: Any) -> Admin:
    """Return the admin interface of a workspace."""
    values = {"version": "1", "ca_pem": "", "registry_engine_name": "", "max_jobs": 2}
    return Admin(children_alive=lambda: True, **values, **parts)  # type: ignore[arg-type]


class Service:
    """The application over a database in memory, called without a socket."""

    def __init__(self, blobs: Blobs | None = None) -> None:
        self.clock = Clock()
        self.store = Store(":memory:", clock=self.clock)
        self.tokens = Tokens(IDENTITY, clock=self.clock)
        # Signs URLs only: nothing listens where it would connect.
        self.blobs = blobs or Blobs(
            account=IDENTITY.storage_account,
            key=IDENTITY.storage_key,
            endpoint="https://127.0.0.1:1/amllocalstore",
            public_endpoint=f"https://{IDENTITY.blob_host}",
            ca_file="unused",
        )
        self.services = Context(
            identity=IDENTITY, store=self.store, blobs=self.blobs, tokens=self.tokens, clock=self.clock
        )
        create_default_cluster(self.services, name=IDENTITY.compute, max_nodes=2)
        self.runner = IdleRunner()
        self.jobs = JobService(self.services, self.runner)
        self.app = App(self.services, self.jobs)
        self.token = self.tokens.issue(audience="https://management.azure.com")

    def close(self) -> None:
        self.blobs.close()
        self.store.close()

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        host: str = "management.azure.com",
        token: str | None = "",
        content: bytes | None = None,
        from_job: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request, with an api-version if it has none; *token* empty is a signed-in client's, None is none."""
        target, _, query = path.partition("?")
        if host == "management.azure.com" and "api-version" not in query:
            query = f"{query}&api-version={VERSION}".lstrip("&")
        fields = [(b"host", host.encode()), *((k.encode(), v.encode()) for k, v in (headers or {}).items())]
        if token is not None:
            fields.append((b"authorization", f"Bearer {token or self.token}".encode()))
        data = content if content is not None else (b"" if body is None else json.dumps(body).encode())
        scope = {
            "type": "http",
            "method": method,
            "raw_path": quote(target, safe="/%:.-_").encode(),
            "query_string": query.encode(),
            "headers": fields,
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        async def run() -> None:
            await self.app(scope, receive, send, from_job=from_job)

        anyio.run(run)
        return Answer(status=sent[0]["status"], headers=Headers(raw=sent[0]["headers"]), body=sent[1]["body"])

    def admin(self, method: str, target: str, *, tasks: RegistryTasks | None = None) -> tuple[int, Any]:
        """Ask the admin interface; *target* is its path below ``/_emulator/``."""
        path, _, raw_query = target.partition("?")
        query = {name: values[-1] for name, values in parse_qs(raw_query).items()}
        admin = made_admin(context=self.services, jobs=self.jobs, tasks=tasks)
        return admin_answer(lambda: admin.answer(method, f"/_emulator/{path}", query), target)

    def environment(self, name: str = "env", **properties: Any) -> str:
        """Make an environment and return its id."""
        self.store.assets.put("environments", name, "1", {"image": "python:3.11", **properties})
        return f"{WS}/environments/{name}/versions/1"

    def job(self, **properties: Any) -> dict[str, Any]:
        """Return the properties of a job that is accepted."""
        return {
            "jobType": "Command",
            "command": "python train.py",
            "environmentId": self.environment(),
            "computeId": f"{WS}/computes/local-cluster",
            "experimentName": "exp",
            **properties,
        }

    def submit(self, name: str, **properties: Any) -> Answer:
        """Submit a job."""
        return self.call("PUT", f"{WS}/jobs/{name}", {"properties": self.job(**properties)})
