"""Requests find their workspace, and each workspace has its own state."""

from __future__ import annotations

import dataclasses
import errno
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from aml_emulator.api.app import App
from aml_emulator.context import Context
from aml_emulator.domain.clusters import create_default_cluster
from aml_emulator.domain.jobs.service import JobService
from aml_emulator.domain.workspace import ShownStates
from aml_emulator.executor.shared import Shared
from aml_emulator.executor.spec import ExecutorSettings
from aml_emulator.gateway import Gateway
from aml_emulator.identity.identity import Identity, WorkspaceNames
from aml_emulator.identity.tokens import Tokens
from aml_emulator.store.store import Store
from aml_emulator.workspaces import Directory, Opener, OpenWorkspace
from tests.unit.emulator.parts import IDENTITY, WS, Answer, IdleRunner, Service, made_admin

OTHER = WS.replace("workspaces/local", "workspaces/other")
SETTINGS = ExecutorSettings(
    max_jobs=2,
    proxy_port=1,
    ca_bundle=b"",
    registry_login_server="r",
    registry_engine_name="r",
    instance="i",
    shared=Shared(2),
)


def not_a_database() -> sqlite3.DatabaseError:
    """Return SQLite's own error for a file that is no database."""
    error = sqlite3.DatabaseError("file is not a database")
    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    return error


class Held(Directory):
    """Workspaces in memory."""

    def __init__(self, world: World, first: OpenWorkspace) -> None:
        opener = Opener(executing=SETTINGS, make_runner=world.runner, make_admin=made_admin)
        super().__init__(world.names, first, opener, Path("nowhere"))
        self._world = world

    def _is_empty(self, identity: Identity) -> bool:
        return identity.workspace not in self._world.opened

    def _open(self, identity: Identity) -> OpenWorkspace:
        return self._world.open(identity)

    def _remove(self, identity: Identity) -> None:
        self._world.removed.append(identity.workspace)

    def _remove_folder(self, identity: Identity) -> None:
        self._world.deleted.append(identity.workspace)


class World:
    """An emulator of several workspaces, all in memory."""

    def __init__(self) -> None:
        self.service = Service()
        self.names = WorkspaceNames(IDENTITY)
        first = dataclasses.replace(self.service.services, siblings=self.names.all)
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.deleted: list[str] = []
        self.runners: dict[str, IdleRunner] = {}
        self.removed: list[str] = []
        self.damage: Exception | None = None
        self.directory = Held(self, self._made(first, self.service.runner))
        self.gateway = Gateway(self.directory)
        self.service.app = self.gateway  # type: ignore[assignment]

    def runner(self, context: Context, *_: Any) -> IdleRunner:
        return self.runners.setdefault(context.identity.workspace, IdleRunner())

    def open(self, identity: Identity) -> OpenWorkspace:
        self.opened.append(identity.workspace)
        if self.damage is not None:
            raise self.damage
        clock = self.service.clock
        context = dataclasses.replace(
            self.directory.first.context,
            identity=identity,
            store=Store(":memory:", clock=clock),
            tokens=Tokens(identity, clock=clock),
            shown=ShownStates(),
        )
        create_default_cluster(context, name=identity.compute, max_nodes=2)
        return self._made(context, self.runner(context))

    def _made(self, context: Context, runner: IdleRunner) -> OpenWorkspace:
        jobs = JobService(context, runner)
        return OpenWorkspace(
            context=context,
            jobs=jobs,
            app=App(context, jobs),
            admin=made_admin(context=context, jobs=jobs),
            close=lambda: self.closed.append(context.identity.workspace),
        )

    def ask(self, method: str, path: str) -> tuple[int, Any]:
        status, body = anyio.run(self.gateway.admin, method, f"/_emulator/{path}")
        return status, json.loads(body)

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        return self.service.call(method, path, body, **options)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World()
    monkeypatch.setattr(made.service.blobs, "containers", list)
    monkeypatch.setattr(made.service.blobs, "create_container", lambda _name: None)
    yield made
    made.service.close()


def test_a_workspace_is_created_at_once_and_opened_when_it_is_used(world: World) -> None:
    status, made = world.ask("POST", "workspaces?name=other")
    assert (status, made["name"], made["resource_group"]) == (200, "other", "aml-local")
    assert world.opened == []
    assert world.call("GET", OTHER).json["properties"]["workspaceId"] == made["id"]
    world.call("GET", OTHER.replace("other", "OTHER"))
    assert world.opened == ["other"]
    assert world.call("GET", OTHER.replace("other", "third")).status == 404


def test_a_job_s_token_is_good_in_its_workspace_alone(world: World) -> None:
    world.ask("POST", "workspaces?name=other")
    other = world.directory.find("other")
    assert other is not None
    for one in (world.directory.first, other):
        store = one.context.store
        store.runs.create(
            run_id="same", experiment_id=store.runs.ensure_experiment("e").id, display_name="same", status="Running"
        )
    token = other.context.tokens.issue_for_run("same")
    path = "/history/v1.0{}/runs/same"
    assert world.call("GET", path.format(OTHER), host=IDENTITY.api_host, token=token).status == 200
    assert world.call("GET", path.format(WS), host=IDENTITY.api_host, token=token).status == 401


def test_a_workspace_is_deleted_with_its_jobs(world: World) -> None:
    world.ask("POST", "workspaces?name=other")
    assert world.directory.find("other") is not None
    world.runners["other"].active = lambda: ("run-1",)  # type: ignore[method-assign]
    status, answer = world.ask("DELETE", "workspaces?name=other")
    assert (status, "jobs are running: run-1" in answer["error"]) == (409, True)
    del world.runners["other"].active
    status, answer = world.ask("DELETE", "workspaces?name=other")
    assert (status, [one["name"] for one in answer["workspaces"]]) == (200, ["local"])
    assert (world.closed, world.deleted) == (["other"], ["other"])
    assert world.ask("DELETE", "workspaces?name=other")[0] == 404
    assert world.ask("DELETE", "workspaces?name=local") == (
        400,
        {"error": "the workspace 'local' stays: reset it instead"},
    )


FULL = "The local AzureML cannot store anything: the disk is full."
FORCED = "Restore the data folder from a copy, or delete it: aml-train emulator workspace delete --force other"


@pytest.mark.parametrize(
    ("damage", "status", "code", "cause"),
    [
        (not_a_database(), 500, "StateDamaged", f"file is not a database. {FORCED}."),
        (ValueError("store.db has schema 99"), 500, "StateDamaged", f"store.db has schema 99. {FORCED}."),
        (OSError(errno.ENOSPC, "No space left on device"), 507, "InsufficientStorage", FULL),
        (KeyError("x"), 500, "InternalServerError", "The log of the local AzureML says how."),
    ],
)
def test_a_workspace_that_cannot_be_opened_says_why_and_the_others_work(
    world: World, damage: Exception, status: int, code: str, cause: str
) -> None:
    world.ask("POST", "workspaces?name=other")
    world.damage = damage
    message = f"The workspace 'other' cannot be opened. {cause}"
    answer = world.call("GET", f"{OTHER}/jobs")
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert answer.json["error"]["message"] == message
    assert world.ask("GET", "info?workspace=other") == (status, {"error": message})
    assert world.call("GET", f"{WS}/jobs").status == 200
    assert world.ask("GET", "info")[0] == 200
    assert world.ask("DELETE", "workspaces?name=other") == (409, {"error": f"{message} Its jobs may run."})
    assert world.ask("POST", "reset")[0] == 409
    assert world.removed == []
    world.damage = None
    assert world.call("GET", f"{OTHER}/jobs").status == 200, "it is tried with each request"
