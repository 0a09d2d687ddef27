"""Builds of environments: what is sent, what is made of states, and where the image is found."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from aml_train.azure import environment_builds
from aml_train.azure.build_services import build_service
from aml_train.azure.environment_builds import EnvironmentBuilds
from aml_train.azure.environment_log import ClassicLog
from aml_train.config.sections.image_builder import BuilderConfig
from aml_train.core.answers import Answer
from aml_train.core.clock import Clock
from aml_train.core.errors import CancelledError, InvalidError, ServiceError, TimedOutError
from aml_train.core.events import Event, Notice
from aml_train.core.text import Piece
from aml_train.image.builders.service import ServiceBuild
from aml_train.image.registry.auth import RegistryAuth

HOST = "https://eastus.api.azureml.ms"
OPERATION = f"{HOST}/operations/1"
DIGEST = "sha256:" + "d" * 64


def a_build(**changes: Any) -> ServiceBuild:
    given: dict[str, Any] = {
        "name": "candidate-1",
        "image": "x-candidate:candidate-1",
        "dockerfile": "FROM a\n",
        "files": {"one.txt": b"1"},
        "platform": "linux/amd64",
    }
    return ServiceBuild(**given | changes)


def answer(value: Any) -> Answer:
    return Answer(value, lambda problem: ServiceError(f"the answer {problem}"))


class Rest:
    """The workspace's answers."""

    workspace = SimpleNamespace(name="ws")
    session = cast("Any", None)

    def __init__(self, states: list[str], image: Any = None, location: str = OPERATION) -> None:
        self.states = states
        self.image = image
        self.location = location
        self.asked: list[tuple[str, str, Any]] = []

    def arm(self, path: str) -> str:
        return f"arm{path}"

    def environments(self, path: str, version: str = "v1.0") -> str:
        return f"{HOST}/{version}{path}"

    def need(self, method: str, url: str, _what: str, *, params: Any = None, body: Any) -> Answer:
        self.asked.append((method, url, body))
        return answer({"location": self.location} if method == "POST" else {})

    def read(self, url: str, _what: str, *, params: Any = None) -> Answer | None:
        if url != OPERATION:
            assert params == {"secrets": "false"}
            return answer(self.image) if self.image is not None else None
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return answer({"status": state, "logUrl": None})

    def describe(self) -> Answer:
        return answer({"containerRegistry": "/subscriptions/s/registries/Own"})


class Registry:
    host = "own.azurecr.io"

    def __init__(self, manifests: dict[tuple[str, str], str]) -> None:
        self.manifests = manifests

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return

    def get_manifest(self, repository: str, reference: str) -> Any:
        digest = self.manifests.get((repository, reference))
        return None if digest is None else SimpleNamespace(digest=digest)


@pytest.fixture
def uploads(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, bytes]]:
    found: list[dict[str, bytes]] = []

    def upload(_rest: Any, files: Any, _token: Any, _noun: str) -> str:
        found.append({entry.path: (files.root / entry.path).read_bytes() for entry in files.entries})
        return "https://store.blob.core.windows.net/c/code"

    monkeypatch.setattr(environment_builds, "upload_folder", upload)
    return found


def builds(
    rest: Rest, registry: Registry | None = None, compute: str | None = None
) -> tuple[EnvironmentBuilds, list[Event]]:
    events: list[Event] = []
    clock = [0.0]

    def wait(seconds: float) -> None:
        clock[0] += seconds

    location = SimpleNamespace(job_name="own.azurecr.io", client=lambda: registry)
    made = EnvironmentBuilds(
        cast("Any", rest),
        cast("Any", location),
        listener=events.append,
        where="aml-train.yml:4",
        compute=compute,
        clock=Clock(now=lambda: clock[0], sleep=wait),
    )
    return made, events


def ready(name: str) -> dict[str, Any]:
    return {"imageExistsInRegistry": True, "dockerImage": {"name": name, "registry": {"address": "own.azurecr.io"}}}


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        (f"azureml/azureml_1@{DIGEST}", DIGEST),
        (f"own.azurecr.io/azureml/azureml_1@{DIGEST}", DIGEST),
        ("azureml/azureml_1", "latest"),
        ("azureml/azureml_1:2", "2"),
    ],
)
def test_a_build_is_registered_started_followed_and_taken(
    name: str, reference: str, uploads: list[dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []
    monkeypatch.setattr(environment_builds, "release", lambda _registry, manifest, **to: taken.append((manifest, to)))
    rest = Rest(["Queued", "GettingOrProvisioningACR", "Running", "Succeeded"], ready(name))
    made, _events = builds(rest, Registry({("azureml/azureml_1", reference): DIGEST}))
    assert made.build(a_build(), lambda _piece: None)
    assert uploads == [{"Dockerfile": b"FROM a\n", "one.txt": b"1"}]
    (put, version, first), (post, started, _), (_again, archived, last) = rest.asked
    assert (put, post, version, archived) == ("PUT", "POST", archived, version)
    assert started == f"{HOST}/v2.0{version.removeprefix('arm')}/image"
    assert first["properties"]["build"] == {
        "contextUri": "https://store.blob.core.windows.net/c/code/",
        "dockerfilePath": "Dockerfile",
    }
    assert (first["properties"]["isArchived"], last["properties"]["isArchived"]) == (False, True)
    [(manifest, to)] = taken
    assert (manifest.digest, to) == (
        DIGEST,
        {"source": "azureml/azureml_1", "repository": "x-candidate", "tags": ["candidate-1"]},
    )


def test_a_build_whose_image_is_not_wanted_is_not_taken(uploads: list[dict[str, bytes]]) -> None:
    rest = Rest(["Succeeded"])
    made, _events = builds(rest, compute="cpu")
    assert made.build(a_build(image=None), lambda _piece: None)
    assert rest.asked[1][1].endswith("/imageoncompute/cpu")
    assert len(uploads) == 1


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        ("Canceled", CancelledError, "A build of AzureML's builds of the workspace ws was cancelled"),
        ("Cancelled", CancelledError, "was cancelled"),
        ("Paused", ServiceError, "the unknown status 'Paused'"),
        ("Running", TimedOutError, "aml-train.yml:4: a build of .* took longer than 7200 seconds"),
    ],
)
def test_other_endings_are_errors(
    state: str, error: type[Exception], words: str, uploads: list[dict[str, bytes]]
) -> None:
    rest = Rest([state])
    made, _events = builds(rest)
    with pytest.raises(error, match=words):
        made.build(a_build(), lambda _piece: None)
    assert rest.asked[-1][2]["properties"]["isArchived"] is True
    assert len(uploads) == 1


def test_a_failed_build_is_archived_too(uploads: list[dict[str, bytes]]) -> None:
    rest = Rest(["Failed"])
    made, _events = builds(rest)
    assert made.build(a_build(), lambda _piece: None) is False
    assert rest.asked[-1][2]["properties"]["isArchived"] is True
    assert len(uploads) == 1


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (None, "the build succeeded, and its image is not there"),
        ({"imageExistsInRegistry": False}, "the build succeeded, and its image is not there"),
        (
            {
                "imageExistsInRegistry": True,
                "dockerImage": {"name": "a", "registry": {"address": "other.azurecr.io"}},
            },
            "pushes to other.azurecr.io, and the target's registry is own.azurecr.io",
        ),
        (ready("azureml/gone"), "own.azurecr.io does not have azureml/gone as latest"),
    ],
)
def test_an_image_that_is_not_there(image: Any, words: str, uploads: list[dict[str, bytes]]) -> None:
    made, _events = builds(Rest(["Succeeded"], image), Registry({}))
    with pytest.raises(ServiceError, match=words):
        made.build(a_build(), lambda _piece: None)
    assert len(uploads) == 1


def test_the_token_goes_to_the_service_alone(uploads: list[dict[str, bytes]]) -> None:
    made, _events = builds(Rest(["Succeeded"], location="https://elsewhere.example.com/1"))
    with pytest.raises(ServiceError, match="names an operation that is not at the same host"):
        made.build(a_build(), lambda _piece: None)
    assert len(uploads) == 1


def test_credentials_of_a_base_stay_here(uploads: list[dict[str, bytes]]) -> None:
    rest = Rest(["Failed"])
    made, events = builds(rest)
    login = ("nvcr.io", RegistryAuth(username="u", password="hidden"))
    made.build(a_build(login=login), lambda _piece: None)
    assert "hidden" not in json.dumps([list(one) for one in rest.asked])
    [notice] = [event for event in events if isinstance(event, Notice)]
    assert "does not get the credentials of nvcr.io" in notice.text
    assert len(uploads) == 1


def test_files_of_an_archive_keep_their_modes(tmp_path: Path) -> None:
    import tarfile

    a_build(archive=True).write(tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {"Dockerfile", "context.tar"}
    with tarfile.open(tmp_path / "context.tar") as archive:
        members = {member.name: (member.mode, member.uid) for member in archive if member.isfile()}
    assert members == {"./one.txt": (0o644, 0)}


def test_only_the_workspaces_own_registry() -> None:
    config = BuilderConfig(kind="azureml", where="aml-train.yml:4")
    location = SimpleNamespace(job_name="other.azurecr.io")
    with pytest.raises(InvalidError, match=r"^aml-train\.yml:4: the builder `azureml` pushes to .* \(Own\)"):
        build_service(config, cast("Any", Rest([])), cast("Any", location), lambda _event: None)
    location.job_name = "own.azurecr.io"
    assert build_service(config, cast("Any", Rest([])), cast("Any", location), lambda _event: None).limits == set()


def translated(*lines: str) -> list[str]:
    log = ClassicLog()
    return [piece.text for line in lines for piece in log.translate(Piece(line, more=False))]


def test_steps_of_the_log() -> None:
    assert translated(
        "2024-10-15T00:33:45: Sending build context to Docker daemon  77.31kB",
        "2024-10-15T00:33:45: Step 1/2 : FROM a",
        "2024-10-15T00:33:45:  ---> 0123",
        "Step 2/2 : RUN x",
        "aml-train: error: no",
        "The command '/bin/sh -c x' returned a non-zero code: 1",
    ) == [
        "Sending build context to Docker daemon  77.31kB",
        "#1 [1/2] FROM a",
        "#1 0.0  ---> 0123",
        "#2 [2/2] RUN x",
        "#2 0.0 aml-train: error: no",
        "#2 0.0 The command '/bin/sh -c x' returned a non-zero code: 1",
        "#2 ERROR: The command '/bin/sh -c x' returned a non-zero code: 1",
    ]


def test_a_line_in_parts() -> None:
    log = ClassicLog()
    first = log.translate(Piece("Step 1/1 : RUN a long", more=True))
    rest = log.translate(Piece("er line", more=False))
    assert [*first, *rest] == [Piece("#1 [1/1] RUN a long", more=True), Piece("er line", more=False)]
