"""Sign-in at the registry under its Azure name."""

from __future__ import annotations

import base64

import pytest

from aml_emulator.proxy import Head
from aml_emulator.registry_front import TOKEN_USER, RegistryFront, needed_access
from aml_emulator.tokens import REGISTRY_ACCESS_SECONDS, RegistryAccess, Tokens
from tests.unit.emulator.parts import IDENTITY, Clock

HOST = IDENTITY.login_server
ARM = "https://management.azure.com"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> Tokens:
    return Tokens(IDENTITY, clock=clock)


@pytest.fixture
def front(tokens: Tokens) -> RegistryFront:
    return RegistryFront(5000, login_server=HOST, tokens=tokens)


def _head(method: str, target: str, authorization: str = "") -> Head:
    return Head(method=method, target=target, headers=(("Authorization", authorization),) if authorization else ())


def _exchange(front: RegistryFront, token: str, **changes: str) -> tuple[int, dict[str, object]]:
    form = {"grant_type": "access_token", "service": HOST, "access_token": token, **changes}
    answer = front.answer(_head("POST", "/oauth2/exchange"), form)
    assert answer is not None
    return answer[0], answer[1]


@pytest.mark.parametrize("audience", [ARM, "https://containerregistry.azure.net"])
@pytest.mark.parametrize("how", ["form", "password"])
def test_sign_in(front: RegistryFront, tokens: Tokens, audience: str, how: str) -> None:
    status, value = _exchange(front, tokens.issue(audience=audience))
    assert status == 200
    refresh = str(value["refresh_token"])
    scope = "repository:a/b:pull,push"
    if how == "form":
        form = {"grant_type": "refresh_token", "refresh_token": refresh, "service": HOST, "scope": scope}
        answer = front.answer(_head("POST", "/oauth2/token"), form)
    else:
        basic = "Basic " + base64.b64encode(f"{TOKEN_USER}:{refresh}".encode()).decode()
        answer = front.answer(_head("GET", f"/oauth2/token?service={HOST}&scope={scope}", basic), {})
    assert answer is not None
    assert answer[0] == 200
    bearer = f"Bearer {answer[1]['access_token']}"
    assert front.answer(_head("PUT", "/v2/a/b/manifests/x", bearer), {}) is None
    assert front.answer(_head("GET", "/v2/", bearer), {}) is None
    refused = front.answer(_head("GET", "/v2/other/manifests/x", bearer), {})
    assert refused is not None
    assert refused[0] == 401
    assert refused[2]["WWW-Authenticate"] == (
        f'Bearer realm="https://{HOST}/oauth2/token",service="{HOST}",scope="repository:other:pull"'
    )


def test_a_token_ends(front: RegistryFront, tokens: Tokens, clock: Clock) -> None:
    bearer = f"Bearer {tokens.issue_registry_access([])}"
    assert front.answer(_head("GET", "/v2/", bearer), {}) is None
    clock.now += REGISTRY_ACCESS_SECONDS
    answer = front.answer(_head("GET", "/v2/", bearer), {})
    assert answer is not None
    assert answer[1]["errors"][0]["message"] == "The access token expiry is in the past."


def test_refusals(front: RegistryFront, tokens: Tokens) -> None:
    token = tokens.issue(audience=ARM)
    assert _exchange(front, "")[0] == 401
    assert _exchange(front, tokens.issue(audience="https://vault.azure.net"))[0] == 401
    assert _exchange(front, token, service="other.azurecr.io")[0] == 404
    assert _exchange(front, token, grant_type="password")[0] == 400
    anonymous = front.answer(_head("GET", "/v2/"), {})
    assert anonymous is not None
    assert anonymous[0] == 401
    for refresh in ("", token, tokens.issue_registry_access([])):
        answer = front.answer(_head("POST", "/oauth2/token"), {"refresh_token": refresh})
        assert answer is not None
        assert answer[0] == 401
    with_refresh = front.answer(_head("GET", "/v2/", f"Bearer {tokens.issue_registry_refresh()}"), {})
    assert with_refresh is not None
    assert with_refresh[0] == 401
    other = front.answer(_head("GET", "/acr/v1/_catalog"), {})
    assert other is not None
    assert other[0] == 501


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/v2/", []),
        ("HEAD", "/v2/a/manifests/x", [("a", "pull")]),
        ("DELETE", "/v2/a/b/manifests/x", [("a/b", "delete")]),
        ("PATCH", "/v2/a/blobs/uploads/1", [("a", "push")]),
        ("POST", "/v2/a/blobs/uploads/?mount=sha256:0&from=b/c", [("a", "push"), ("b/c", "pull")]),
    ],
)
def test_what_a_request_needs(method: str, target: str, expected: list[tuple[str, str]]) -> None:
    assert needed_access(method, target) == [
        RegistryAccess(repository=name, actions=frozenset({action})) for name, action in expected
    ]
