"""Runs of ACR Tasks: what is sent, and what is made of states."""

from __future__ import annotations

import base64
import io
import shlex
import tarfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import yaml

from aml_train.azure import acr_tasks
from aml_train.azure.acr_tasks import AcrTasks, run_request, task_file
from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.core.answers import Answer
from aml_train.core.clock import Clock
from aml_train.core.errors import CancelledError, ServiceError, TimedOutError
from aml_train.core.events import Event
from aml_train.core.text import Piece
from aml_train.image.builders.service import ServiceBuild
from aml_train.image.registry.auth import RegistryAuth
from tests.support.image_configs import plan

HOST = "my.azurecr.io"
ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerRegistry/registries/my"


def a_build(**changes: Any) -> ServiceBuild:
    of_image = {key: changes.pop(key) for key in ("files", "build_args", "target", "platform") if key in changes}
    spec = replace(plan().with_dockerfile("FROM a\n", {}), **of_image)
    given: dict[str, Any] = {"spec": spec, "name": "candidate-1", "image": "x-candidate:candidate-1"}
    return ServiceBuild(**given | changes)


def words(build: ServiceBuild) -> list[str]:
    """Return the words of the build but for those that keep the caches of two levels of trust apart."""
    given = shlex.split(yaml.safe_load(task_file(build, HOST))["steps"][0]["build"])
    return [one for one in given if not one.startswith("--build-arg=BUILDKIT_")]


def test_a_task_builds_with_buildkit_and_pushes_under_the_candidates_name() -> None:
    task = yaml.safe_load(task_file(a_build(timeout=900.0), HOST))
    assert task == {
        "version": "v1.0.0",
        "stepTimeout": 900,
        "steps": [
            {
                "id": "candidate-1",
                "build": "--progress=plain --platform=linux/amd64 --file=Dockerfile "
                "--build-arg=BUILDKIT_CACHE_MOUNT_NS=aml-train/protected/digits "
                "--build-arg=BUILDKIT_SANDBOX_HOSTNAME=aml-train-protected "
                f"--tag={HOST}/x-candidate:candidate-1 context",
                "env": ["DOCKER_BUILDKIT=1"],
            },
            {"push": [f"{HOST}/x-candidate:candidate-1"]},
        ],
    }


def test_a_build_that_is_pushed_nowhere() -> None:
    task = yaml.safe_load(task_file(a_build(image=None), HOST))
    assert len(task["steps"]) == 1
    assert "--tag" not in task["steps"][0]["build"]


@pytest.mark.parametrize("value", ["plain", "a 'b' \"c\"", "$(id) `id` $X", "a\\b", "x; rm -rf /", "ü", "a: b # c"])
def test_values_reach_the_build_as_they_are(value: str) -> None:
    """The file is YAML, and a shell takes the words apart."""
    build = a_build(build_args={"B": value}, target="t", no_cache=True, network=False)
    assert words(build)[3:] == [
        f"--build-arg=B={value}",
        "--target=t",
        "--no-cache",
        "--network=none",
        f"--tag={HOST}/x-candidate:candidate-1",
        "context",
    ]


def test_limits_of_the_tests_are_options_of_the_build() -> None:
    assert words(a_build(shm=1 << 30, memlock=-1))[3:5] == ["--shm-size=1073741824", "--ulimit=memlock=-1:-1"]


def test_braces_are_no_template() -> None:
    text = task_file(a_build(build_args={"B": "{{.Run.ID}}"}), HOST)
    assert '{{"{{"}}.Run.ID}}' in text
    assert words_of(text.replace('{{"{{"}}', "{{")) == "--build-arg=B={{.Run.ID}}"


def words_of(text: str) -> str:
    return shlex.split(yaml.safe_load(text)["steps"][0]["build"])[3]


def test_a_request() -> None:
    build = a_build(
        platform="linux/arm64", login=("nvcr.io", RegistryAuth(username="$oauthtoken", password="hidden"))
    )
    request = run_request(build, HOST, "source/a.tar.gz", agent_pool="pool")
    content = base64.b64decode(request.pop("encodedTaskContent")).decode()
    assert content == task_file(build, HOST)
    assert request == {
        "type": "EncodedTaskRunRequest",
        "encodedValuesContent": "",
        "values": [],
        "sourceLocation": "source/a.tar.gz",
        "timeout": 7200,
        "isArchiveEnabled": False,
        "platform": {"os": "Linux", "architecture": "arm64"},
        "agentPoolName": "pool",
        "credentials": {
            "sourceRegistry": {"loginMode": "Default"},
            "customRegistries": {
                "nvcr.io": {
                    "userName": {"value": "$oauthtoken", "type": "Opaque"},
                    "password": {"value": "hidden", "type": "Opaque"},
                }
            },
        },
    }
    assert "hidden" not in content
    assert "hidden" not in repr(build)


@pytest.mark.parametrize(("given", "sent"), [(1.0, 300), (900.5, 900), (1e6, 28_800)])
def test_the_time_of_a_run_is_within_what_the_service_takes(given: float, sent: int) -> None:
    assert run_request(a_build(timeout=given), HOST, "s", agent_pool=None)["timeout"] == sent


def test_the_context_is_packed_as_roots() -> None:
    buffer = io.BytesIO()
    a_build(files={"a/b.txt": b"hello"}).pack(buffer)
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as archive:
        members = {member.name: member for member in archive}
        assert set(members) == {"Dockerfile", "context", "context/a", "context/a/b.txt"}
        assert {(one.uid, one.gid, one.uname) for one in members.values()} == {(0, 0, "")}
        assert archive.extractfile("context/a/b.txt").read() == b"hello"  # type: ignore[union-attr]


def answer(value: Any) -> Answer:
    return Answer(value, lambda problem: ServiceError(f"the answer {problem}"))


class Registry:
    """The requests of a run, answered by functions."""

    cloud = AZURE_PUBLIC
    session = cast("Any", None)

    def __init__(self, schedule: Callable[[], str], states: list[str]) -> None:
        self.schedule = schedule
        self.states = states
        self.asked: list[str] = []

    def ask(self, method: str, url: str, _what: str, *, params: Any, body: Any) -> Answer:
        path = url.removeprefix(f"https://management.azure.com{ID}")
        self.asked.append(f"{method} {path}")
        assert params == {"api-version": "2019-06-01-preview"}
        if path == "/scheduleRun":
            return answer({"properties": {"runId": self.schedule()}})
        return answer({"uploadUrl": "https://store/source?sig=1", "relativePath": "source/1"})

    def read(self, url: str, _what: str, *, params: Any) -> Answer:
        self.asked.append("GET " + url.partition(ID)[2])
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return answer({"properties": {"status": state, "runErrorMessage": "no agent"}})

    def once(self, method: str, url: str, _what: str, *, params: Any) -> Any:
        self.asked.append(f"{method} " + url.partition(ID)[2])
        return type("Response", (), {"ok": True, "status_code": 202})()


class Log:
    def read(self, *, final: bool) -> list[Piece]:
        return [Piece("a line", more=False)] if final else []


def tasks(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> tuple[AcrTasks, list[Event]]:
    events: list[Event] = []
    clock = [0.0]

    def wait(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(AcrTasks, "_put", lambda *_args: None)
    monkeypatch.setattr(AcrTasks, "_log", lambda *_args: Log())
    made = AcrTasks(
        cast("Any", registry),
        answer({"id": ID, "properties": {"loginServer": HOST}}),
        listener=events.append,
        where="aml-train.yml:4",
        clock=Clock(now=lambda: clock[0], sleep=wait),
    )
    return made, events


@pytest.mark.parametrize(
    ("states", "succeeded"), [(["Queued", "Started", "Running", "Succeeded"], True), (["Failed"], False)]
)
def test_a_run_is_followed_to_its_end(states: list[str], succeeded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry(lambda: "ca1", states)
    made, _events = tasks(registry, monkeypatch)
    lines: list[Piece] = []
    assert made.build(a_build(), lines.append) is succeeded
    assert [line.text for line in lines] == ["a line"]
    assert registry.asked[:2] == ["POST /listBuildSourceUploadUrl", "POST /scheduleRun"]
    assert not any("cancel" in one for one in registry.asked)


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        ("Canceled", CancelledError, "The run ca1 of ACR Tasks of my.azurecr.io was cancelled"),
        ("Timeout", TimedOutError, "aml-train.yml:4: the run ca1 .* took longer than 7200 seconds"),
        ("Error", ServiceError, "could not be executed: no agent"),
        ("Paused", ServiceError, "the unknown status 'Paused'"),
    ],
)
def test_other_endings_are_errors(
    state: str, error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry(lambda: "ca1", [state])
    made, _events = tasks(registry, monkeypatch)
    with pytest.raises(error, match=words):
        made.build(a_build(), lambda _piece: None)
    # Of an unknown state it is not known that the run has ended.
    assert ("POST /runs/ca1/cancel" in registry.asked) is (state == "Paused")


def test_a_refusal_names_the_key_and_the_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise ServiceError("Azure answered 403")

    registry = Registry(refuse, ["Succeeded"])
    made, _events = tasks(registry, monkeypatch)
    with pytest.raises(ServiceError, match=r"^aml-train\.yml:4: Azure answered 403") as caught:
        made.build(a_build(), lambda _piece: None)
    assert "Container Registry Tasks Contributor" in str(caught.value.hint)
    assert acr_tasks.API == "2019-06-01-preview"
