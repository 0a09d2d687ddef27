"""What a client of a registry does about refusals that pass, tokens that end, and locks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import stamina
from requests.adapters import BaseAdapter

from aml_train.core.errors import ImageError
from aml_train.image.registry.auth import BusyError, RegistryAuth
from aml_train.image.registry.client import Registry
from aml_train.image.registry.http import _backoff
from aml_train.image.registry.manifest import OCI_MANIFEST, Manifest, sha256_digest

URL = "https://my.azurecr.io"
REALM = "https://my.azurecr.io/oauth2/token"


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=3):
        yield


def answer(status: int, body: bytes = b"", **headers: str) -> requests.Response:
    response = requests.Response()
    response.status_code, response._content = status, body
    response.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return response


class Script(BaseAdapter):
    """Answers by a function of ``METHOD path`` and the request; keeps what it was asked."""

    def __init__(self, play: Callable[[str, requests.PreparedRequest], requests.Response]) -> None:
        super().__init__()
        self.play = play
        self.log: list[str] = []

    def send(self, request: requests.PreparedRequest, *_args: Any, **_options: Any) -> requests.Response:
        what = f"{request.method} {urlsplit(str(request.url)).path}"
        self.log.append(what)
        response = self.play(what, request)
        response.request, response.url = request, str(request.url)
        return response

    def close(self) -> None:
        self.log.clear()


class Acr:
    """A registry whose access tokens and refresh tokens can be ended."""

    def __init__(self) -> None:
        self.access, self.refresh = 0, 0
        self.now = 0.0
        self.given, self.better = 0, -1
        self.session = requests.Session()
        self.script = Script(self.play)
        self.session.mount("https://", self.script)

    def __call__(self) -> RegistryAuth:
        return RegistryAuth(username="0", identity_token=f"refresh-{self.given}")

    def renew(self) -> None:
        self.given = self.refresh if self.better < 0 else self.better

    def play(self, what: str, request: requests.PreparedRequest) -> requests.Response:
        if what == "POST /oauth2/token":
            form = parse_qs(str(request.body))
            if form["refresh_token"] != [f"refresh-{self.refresh}"]:
                return answer(401)
            return answer(200, json.dumps({"access_token": f"access-{self.access}"}).encode())
        if request.headers.get("Authorization") != f"Bearer access-{self.access}":
            return answer(401, WWW_Authenticate=f'Bearer realm="{REALM}",service="my.azurecr.io"')
        return answer(404)


def test_ended_tokens_are_renewed() -> None:
    acr = Acr()
    client = Registry(URL, auth=acr, transport=acr.script)
    assert client.head_manifest("a", "x") is None
    acr.access = 1  # the access token has ended
    assert client.head_manifest("a", "x") is None
    acr.access, acr.refresh = 2, 1  # the refresh token as well
    assert client.head_manifest("a", "x") is None
    assert acr.script.log.count("POST /oauth2/token") == 4
    acr.access, acr.refresh, acr.better = 3, 5, 4  # nothing better is to be had
    with pytest.raises(ImageError, match=r"refused to sign in as 0: HTTP 401\n.*AcrPush"):
        client.head_manifest("a", "x")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BusyError(answer(429)), True),
        (BusyError(answer(503, Retry_After="30")), 30.0),
        (BusyError(answer(429, Retry_After="0")), 0.1),
        (BusyError(answer(429, Retry_After="121")), False),
        (requests.ConnectionError(), True),
        (requests.Timeout(), True),
        (requests.exceptions.InvalidURL(), False),
        (ValueError(), False),
    ],
)
def test_what_is_tried_again(error: Exception, expected: bool | float) -> None:
    assert _backoff(error) == expected


def test_an_upload_that_breaks_off_is_begun_again() -> None:
    content = b"content"
    puts: list[str] = []

    def play(what: str, request: requests.PreparedRequest) -> requests.Response:
        if what.startswith("HEAD"):
            return answer(404)
        if what.startswith("POST"):
            return answer(202, Location=f"/v2/a/blobs/uploads/{len(puts)}?state=x")
        puts.append(what)
        if len(puts) == 1:
            raise requests.ConnectionError("reset")
        assert request.body == content
        return answer(201)

    script = Script(play)
    assert Registry(URL, transport=script).upload_blob("a", content) == sha256_digest(content)
    assert puts == ["PUT /v2/a/blobs/uploads/0", "PUT /v2/a/blobs/uploads/1"]


@pytest.mark.parametrize(("refusal", "there"), [(405, True), (412, True), (400, True), (405, False), (403, True)])
def test_a_tag_that_may_not_be_written_but_is_right_already(refusal: int, there: bool) -> None:
    manifest = Manifest(digest=sha256_digest(b"{}"), media_type=OCI_MANIFEST, content=b"{}")
    other = sha256_digest(b"other")

    def play(what: str, _: requests.PreparedRequest) -> requests.Response:
        if what.startswith("PUT"):
            return answer(refusal)
        return answer(200, Docker_Content_Digest=manifest.digest if there else other, Content_Type=OCI_MANIFEST)

    client = Registry(URL, transport=Script(play))
    if there and refusal != 403:
        client.put_tag("a", "x", manifest)
    else:
        with pytest.raises(ImageError, match=f"refused to write a:x: HTTP {refusal}"):
            client.put_tag("a", "x", manifest)


def test_tags_are_locked_and_removed_by_azures_own_interface() -> None:
    bodies: list[Any] = []

    def play(what: str, request: requests.PreparedRequest) -> requests.Response:
        bodies.append(request.body)
        return answer({"PATCH": 200, "DELETE": 202}[what.partition(" ")[0]])

    script = Script(play)
    client = Registry(URL, transport=script)
    assert client.lock_tag("a/b", "x")
    assert client.untag("a/b", "x")
    assert script.log == ["PATCH /acr/v1/a/b/_tags/x", "DELETE /acr/v1/a/b/_tags/x"]
    assert json.loads(bodies[0]) == {"writeEnabled": False}
    assert client.can_lock
    assert not Registry("https://ghcr.io", transport=script).can_lock
    assert not Registry(URL, transport=Script(lambda *_: answer(403))).lock_tag("a", "x")
