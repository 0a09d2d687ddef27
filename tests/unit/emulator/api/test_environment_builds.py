"""Builds of environments on request, over an executor that builds nothing."""

from __future__ import annotations

from typing import Any

import pytest

from aml_emulator.api.app import App
from aml_emulator.domain.environment_builds import EnvironmentBuilds
from aml_emulator.executor.spec import BuildSpec
from aml_emulator.executor.task_runner import TaskSink
from tests.unit.emulator.memory_service import furnished
from tests.unit.emulator.parts import IDENTITY, WS, Service

V1 = f"/environment/v1.0{WS}/environments"
V2 = f"/environment/v2.0{WS}/environments"
CONTEXT = "azureml://datastores/workspaceblobstore/paths/context/"
DIGEST = "sha256:" + "d" * 64


class Executor:
    def __init__(self) -> None:
        self.submitted: list[tuple[BuildSpec, str, TaskSink]] = []

    def build(self, build: BuildSpec, image: str, sink: TaskSink) -> None:
        self.submitted.append((build, image, sink))


@pytest.fixture
def executor() -> Executor:
    return Executor()


@pytest.fixture
def building(executor: Executor) -> Service:
    service = furnished()
    service.app = App(service.services, service.jobs, None, EnvironmentBuilds(service.services, executor))
    service.store.assets.put("environments", "built", "1", {"build": {"contextUri": CONTEXT}})
    return service


def ask(service: Service, method: str, path: str, body: Any = None) -> Any:
    return service.call(method, path.removeprefix(f"https://{IDENTITY.api_host}"), body, host=IDENTITY.api_host)


def test_a_build_is_followed_to_its_image(building: Service, executor: Executor) -> None:
    before = ask(building, "GET", f"{V1}/built/versions/1/image").json
    assert (before["imageExistsInRegistry"], before["dockerImage"]["registry"]["address"]) == (
        False,
        IDENTITY.login_server,
    )
    started = ask(building, "POST", f"{V2}/built/versions/1/image", {})
    assert started.status == 202
    location = started.json["location"]
    assert ask(building, "GET", location).json == {"status": "Queued", "logUrl": None}
    [(build, image, sink)] = executor.submitted
    assert build.context is not None
    assert image == before["dockerImage"]["name"]
    sink.started()
    sink.log("Step 1/1 : FROM a\n")
    answer = ask(building, "GET", location)
    running = answer.json
    assert (answer.status, running["status"]) == (202, "Running")
    assert running["logUrl"].startswith(f"https://{IDENTITY.blob_host}/environment-builds/logs/")
    sink.ended("Succeeded", [{"digest": DIGEST}], "")
    ended = ask(building, "GET", location)
    assert (ended.status, ended.json["status"]) == (200, "Succeeded")
    after = ask(building, "GET", f"{V1}/built/image?secrets=false").json
    assert (after["imageExistsInRegistry"], after["dockerImage"]["name"]) == (True, f"{image}@{DIGEST}")


def test_a_build_of_an_earlier_process_has_failed(building: Service, executor: Executor) -> None:
    location = ask(building, "POST", f"{V2}/built/versions/1/image", {}).json["location"]
    EnvironmentBuilds(building.services, executor).recover()
    assert ask(building, "GET", location).json["status"] == "Failed"
