"""Sign-in at the registry under its Azure name."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from urllib.parse import urlencode

import pytest

from aml_emulator.identity.tokens import Tokens, decode_token
from aml_emulator.network.heads import Head
from aml_emulator.registry.acr import AcrInterface, Answer, Locks, read_scope
from aml_emulator.registry.front import TOKEN_USER, RegistryFront
from aml_emulator.registry.storage import RegistryStorage
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
def front(tokens: Tokens, tmp_path: Path) -> RegistryFront:
    storage, locks = RegistryStorage(tmp_path), Locks(tmp_path / "attributes.json")
    return RegistryFront(
        5000, login_server=HOST, tokens=tokens, acr=AcrInterface(login_server=HOST, storage=storage, locks=locks)
    )


def _head(method: str, target: str, authorization: str = "", host: str = HOST) -> Head:
    headers = [("Host", host), *([("Authorization", authorization)] if authorization else [])]
    return Head(method=method, target=target, headers=tuple(headers))


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _post(front: RegistryFront, path: str, **form: str) -> Answer:
    answer = front.answer(_head("POST", path), urlencode(form).encode())
    assert answer is not None
    return answer


def _get(front: RegistryFront, path: str, authorization: str = "", host: str = HOST) -> Answer:
    answer = front.answer(_head("GET", path, authorization, host))
    assert answer is not None
    return answer


def _exchange(front: RegistryFront, token: str, **changes: str) -> Answer:
    return _post(
        front, "/oauth2/exchange", **{"grant_type": "access_token", "service": HOST, "access_token": token, **changes}
    )


def _bearer(tokens: Tokens, *scopes: str) -> str:
    return "Bearer " + tokens.issue_registry_access([found for one in scopes if (found := read_scope(one))])


@pytest.mark.parametrize("audience", [ARM, "https://containerregistry.azure.net"])
@pytest.mark.parametrize("how", ["form", "password"])
def test_sign_in(front: RegistryFront, tokens: Tokens, audience: str, how: str) -> None:
    status, value, _ = _exchange(front, tokens.issue(audience=audience))
    assert status == 200
    refresh = str(value["refresh_token"])
    scope = "repository:a/b:pull,push"
    if how == "form":
        answer = _post(
            front,
            "/oauth2/token",
            grant_type="refresh_token",
            refresh_token=refresh,
            service=HOST,
            scope=f"{scope} registry:catalog:*",
        )
    else:
        answer = _get(front, f"/oauth2/token?service={HOST}&scope={scope}", _basic(TOKEN_USER, refresh))
    assert answer[0] == 200
    bearer = f"Bearer {answer[1]['access_token']}"
    assert front.answer(_head("PUT", "/v2/a/b/manifests/x", bearer)) is None
    assert front.answer(_head("PUT", "/v2/a%2Fb/manifests/x", bearer)) is None
    assert front.answer(_head("GET", "/v2/", bearer)) is None
    refused = _get(front, "/v2/other/manifests/x", bearer)
    assert refused[0] == 401
    assert refused[1]["errors"][0]["detail"] == [{"Type": "repository", "Name": "other", "Action": "pull"}]
    assert refused[2]["WWW-Authenticate"] == (
        f'Bearer realm="https://{HOST}/oauth2/token",service="{HOST}",scope="repository:other:pull"'
        ',error="insufficient_scope"'
    )


def test_the_admin_user(front: RegistryFront, tokens: Tokens) -> None:
    user, password = tokens.registry_admin
    assert user == "amllocal"
    scope = "repository:a:pull,push"
    for answer in (
        _get(front, f"/oauth2/token?service={HOST}&scope={scope}", _basic(user, password)),
        _post(
            front, "/oauth2/token", grant_type="password", username=user, password=password, service=HOST, scope=scope
        ),
    ):
        assert answer[0] == 200
        assert front.answer(_head("PUT", "/v2/a/manifests/x", f"Bearer {answer[1]['access_token']}")) is None
    assert front.answer(_head("PUT", "/v2/a/manifests/x", _basic(user, password))) is None
    for wrong in (_basic(user, "no"), _basic("other", password), "Basic !", _basic(TOKEN_USER, password)):
        assert _get(front, f"/oauth2/token?service={HOST}", wrong)[0] == 401
        assert _get(front, "/v2/a/manifests/x", wrong)[0] == 401


def test_refusals(front: RegistryFront, tokens: Tokens) -> None:
    token = tokens.issue(audience=ARM)
    assert _exchange(front, "")[0] == 401
    assert _exchange(front, tokens.issue(audience="https://vault.azure.net"))[0] == 401
    assert _exchange(front, token, service="other.azurecr.io")[0] == 404
    assert _exchange(front, token, grant_type="password")[0] == 400
    assert _get(front, "/v2/")[0] == 401
    for refresh in ("", token, tokens.issue_registry_access([])):
        assert _post(front, "/oauth2/token", refresh_token=refresh, service=HOST)[0] == 401
    good = {"refresh_token": tokens.issue_registry_refresh(), "service": HOST}
    assert _post(front, "/oauth2/token", **{**good, "service": "other"})[0] == 401
    assert _post(front, "/oauth2/token", **good, grant_type="device_code")[0] == 400
    assert _post(front, "/oauth2/token", **good, scope="repository:a:fly")[0] == 400
    assert _get(front, "/v2/", f"Bearer {tokens.issue_registry_refresh()}")[0] == 401
    forged = Tokens(dataclasses.replace(IDENTITY, token_secret="cd" * 32))
    assert _get(front, "/v2/", _bearer(forged, "registry:catalog:*"))[0] == 401
    assert _get(front, "/elsewhere")[0] == 404
    assert _get(front, "/v2/a/../b/manifests/x")[0] == 404


@pytest.mark.parametrize(
    ("roles", "scope", "actions", "may_push"),
    [
        (("AcrPull",), "pull,push,delete", ["pull"], False),
        (("AcrPush",), "pull,push,delete", ["pull", "push"], True),
        (("AcrPush", "AcrDelete"), "pull,push,delete", ["delete", "pull", "push"], True),
        ((), "pull,push", [], False),
        (("AcrPull",), "*", ["metadata_read", "pull"], False),
    ],
)
def test_roles_bound_the_tokens_of_the_service_principal(
    front: RegistryFront, tokens: Tokens, roles: tuple[str, ...], scope: str, actions: list[str], may_push: bool
) -> None:
    front._roles.set("registry", roles)
    refresh = tokens.issue_registry_refresh()
    form = {"grant_type": "refresh_token", "service": HOST, "scope": f"repository:a/b:{scope}"}
    status, value, _ = _post(front, "/oauth2/token", refresh_token=refresh, **form)
    assert status == 200
    (granted,) = decode_token(value["access_token"])[1]["access"]
    assert granted["actions"] == actions
    push = _head("PUT", "/v2/a/b/manifests/x", _basic(TOKEN_USER, refresh))
    assert (front.answer(push) is None) is may_push
    # The admin user is no identity, and has no roles.
    assert front.answer(_head("PUT", "/v2/a/b/manifests/x", _basic(*tokens.registry_admin))) is None
