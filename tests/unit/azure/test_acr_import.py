"""Imports of a base into the target's registry: what is sent, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest
import requests

from aml_train.azure import acr
from aml_train.azure.acr_import import AcrImports, base_repository, import_request
from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.core.answers import Answer
from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError, ServiceError, TimedOutError
from aml_train.core.events import Event, Notice
from aml_train.core.references import ImageRef
from aml_train.image import BaseImage
from aml_train.image.registry.auth import RegistryAuth
from aml_train.image.registry.manifest import ManifestHead

ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerRegistry/registries/my"
URL = f"https://management.azure.com{ID}/importImage"
PLACE = f"https://management.azure.com{ID}/operationResults/1?api-version=2023-07-01"
DIGEST = "sha256:" + "1" * 64
IMPORTED = "bases/nvcr.io/nvidia/pytorch"


def base(reference: str = "nvcr.io/nvidia/pytorch:24.10-py3") -> BaseImage:
    return BaseImage(reference=ImageRef.parse(reference), digest=DIGEST)


@pytest.mark.parametrize(
    ("reference", "repository"),
    [
        ("nvcr.io/nvidia/pytorch:24.10-py3", IMPORTED),
        ("python:3.11-slim", "bases/docker.io/library/python"),
        ("localhost:5000/a/b:1", "bases/localhost-5000/a/b"),
    ],
)
def test_a_base_has_a_repository_of_its_registry_and_name(reference: str, repository: str) -> None:
    assert base_repository(base(reference)) == repository


def test_a_request() -> None:
    assert import_request(base(), source=None, login=None) == {
        "source": {"registryUri": "nvcr.io", "sourceImage": f"nvidia/pytorch@{DIGEST}"},
        "targetTags": [f"{IMPORTED}:dig-{'1' * 64}"],
        "mode": "Force",
    }
    login = RegistryAuth(username="$oauthtoken", password="hidden")
    given = import_request(base(), source=None, login=login)["source"]
    assert given["credentials"] == {"username": "$oauthtoken", "password": "hidden"}
    assert import_request(base(), source="/id", login=None)["source"]["resourceId"] == "/id"


def response(status: int, headers: Mapping[str, str] | None = None) -> requests.Response:
    found = requests.Response()
    found.status_code = status
    found.headers.update(headers or {})
    found.url = URL
    found.request = requests.Request("POST", URL).prepare()
    found._content = b'{"error": {"code": "X", "message": "refused"}}'
    return found


class Rest:
    """Answers in order; the last one stays."""

    cloud = AZURE_PUBLIC

    def __init__(self, *answers: requests.Response) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []

    def call(self, method: str, url: str, _what: str, *, params: Any = None, body: Any = None) -> requests.Response:
        self.asked.append((method, url, body))
        assert (params == {"api-version": "2023-07-01"}) is (method == "POST")
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Registry:
    """Has the base from a certain look on."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def head_manifest(self, repository: str, digest: str) -> ManifestHead | None:
        assert (repository, digest) == (IMPORTED, DIGEST)
        self.looks -= 1
        return ManifestHead(digest=digest, media_type="m") if self.looks < 0 else None


class Importing:
    """An import into the registry my.azurecr.io in virtual time."""

    def __init__(self, rest: Rest) -> None:
        self.now = 0.0
        self.events: list[Event] = []

        def sleep(seconds: float) -> None:
            self.now += seconds

        resource = Answer(
            {"id": ID, "properties": {"loginServer": "my.azurecr.io"}}, lambda problem: ServiceError(problem)
        )
        clock = Clock(now=lambda: self.now, sleep=sleep)
        self.imports = AcrImports(
            cast("Any", rest), resource, listener=self.events.append, where="aml-train.yml:4", clock=clock
        )

    def run(self, looks: int = 1, login: RegistryAuth | None = None) -> str:
        return self.imports.import_base(base(), cast("Any", Registry(looks)), login)


NAME = f"my.azurecr.io/{IMPORTED}@{DIGEST}"


def test_a_base_that_is_there_is_not_imported() -> None:
    rest = Rest(response(500))
    assert Importing(rest).run(looks=0) == NAME
    assert rest.asked == []


def test_an_import_is_followed_to_its_end() -> None:
    rest = Rest(
        response(202, {"Location": PLACE}), response(202, {"Location": PLACE, "Retry-After": "7"}), response(200)
    )
    importing = Importing(rest)
    assert importing.run() == NAME
    assert [(method, url) for method, url, _ in rest.asked] == [("POST", URL), ("GET", PLACE), ("GET", PLACE)]
    assert importing.now == 1.0 + 7.0
    assert all(isinstance(event, Notice) for event in importing.events)


@pytest.mark.parametrize(
    ("answers", "looks", "message"),
    [
        ([response(403)], 1, r"importing the base nvcr.io/nvidia/pytorch@sha256:1+ into my.azurecr.io: .*refused"),
        ([response(202, {"Location": "https://evil.test/x"})], 1, "names no place at https://management.azure.com"),
        ([response(202)], 1, "names no place"),
        ([response(202, {"Location": PLACE}), response(400)], 1, "refused"),
        ([response(200)], 2, "does not have my.azurecr.io/bases/"),
    ],
)
def test_what_fails_names_the_place_in_the_file(answers: list[requests.Response], looks: int, message: str) -> None:
    with pytest.raises(ServiceError, match=message) as caught:
        Importing(Rest(*answers)).run(looks)
    assert caught.value.message.startswith("aml-train.yml:4: ")


def test_a_refusal_names_the_role() -> None:
    with pytest.raises(ServiceError) as caught:
        Importing(Rest(response(403))).run()
    assert "registries/importImage/action" in str(caught.value.hint)


def test_an_import_without_an_end_times_out() -> None:
    importing = Importing(Rest(response(202, {"Location": PLACE})))
    with pytest.raises(TimedOutError, match="longer than 60 minutes"):
        importing.run()
    assert 3600 <= importing.now < 3660


def test_credentials_are_in_no_event_and_no_error() -> None:
    importing = Importing(Rest(response(403)))
    with pytest.raises(AmlTrainError) as caught:
        importing.run(login=RegistryAuth(username="me", password="hidden-word"))
    assert "hidden-word" not in f"{importing.events} {caught.value} {caught.value.hint}"


def test_a_base_of_another_azure_registry_is_read_by_the_callers_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Answer({"id": "/other"}, lambda problem: ServiceError(problem))
    monkeypatch.setattr(acr, "find_registry", lambda _rest, host: other if host == "one.azurecr.io" else None)
    rest = Rest(response(200))
    reference = BaseImage(reference=ImageRef.parse("one.azurecr.io/a:1"), digest=DIGEST)

    class Known(Registry):
        def head_manifest(self, _repository: str, digest: str) -> ManifestHead | None:
            return super().head_manifest(IMPORTED, digest)

    Importing(rest).imports.import_base(reference, cast("Any", Known(1)), None)
    assert rest.asked[0][2]["source"] == {"resourceId": "/other", "sourceImage": f"a@{DIGEST}"}
