"""The sign-in to the local AzureML is one request, kept until shortly before its end."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs

import pytest
import requests
import stamina

from aml_train.core.errors import ServiceError
from aml_train.local.sign_in import ClientSecret, sign_in_to_local

VARIABLES = {"AZURE_TENANT_ID": "the-tenant", "AZURE_CLIENT_ID": "the-client", "AZURE_CLIENT_SECRET": "the-secret"}
SCOPE = "https://management.azure.com/.default"
REFUSED = {"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}


class Login(requests.adapters.BaseAdapter):
    """Answers in turn, each a status with a body, or an error to raise; keeps the requests."""

    def __init__(self, *answers: tuple[int, object] | Exception) -> None:
        super().__init__()
        self.answers = list(answers)
        self.requests: list[requests.PreparedRequest] = []

    def send(self, request: requests.PreparedRequest, *_args: Any, **_options: Any) -> requests.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        response = requests.Response()
        response.status_code, content = answer
        response._content = content if isinstance(content, bytes) else json.dumps(content).encode()
        response.url, response.request = str(request.url), request
        return response

    def close(self) -> None:
        return


def session(login: Login) -> requests.Session:
    found = requests.Session()
    found.mount("https://", login)
    return found


def issued(text: str = "a.b.c", seconds: int = 3600) -> tuple[int, object]:
    return 200, {"access_token": text, "expires_in": seconds, "token_type": "Bearer"}


def test_the_request_is_that_of_the_grant() -> None:
    login = Login(issued())
    token = ClientSecret(VARIABLES, session(login), now=lambda: 1000.9).get_token(SCOPE)
    assert token == ("a.b.c", 4600)
    assert (token.token, token.expires_on) == ("a.b.c", 4600)
    (request,) = login.requests
    assert request.url == "https://login.microsoftonline.com/the-tenant/oauth2/v2.0/token"
    assert isinstance(request.body, str)
    assert parse_qs(request.body) == {
        "grant_type": ["client_credentials"],
        "client_id": ["the-client"],
        "client_secret": ["the-secret"],
        "scope": [SCOPE],
    }


def test_a_token_is_kept_for_its_scope_until_it_is_forgotten() -> None:
    login = Login(issued("one"), issued("two"), issued("three"))
    sign_in = sign_in_to_local(VARIABLES, session(login))
    assert [sign_in.token(SCOPE), sign_in.token(SCOPE), sign_in.token("other")] == ["one", "one", "two"]
    sign_in.forget()
    assert sign_in.token(SCOPE) == "three"


def test_a_token_that_ends_soon_is_renewed() -> None:
    sign_in = sign_in_to_local(VARIABLES, session(Login(issued("one", 299), issued("two"))))
    assert [sign_in.token(SCOPE), sign_in.token(SCOPE)] == ["one", "two"]


@pytest.mark.parametrize(
    "failure",
    [
        (503, b"<html>"),
        (429, {}),
        (200, b'{"access_'),
        requests.ConnectionError("reset"),
        requests.ReadTimeout("late"),
    ],
    ids=str,
)
def test_a_failure_on_the_way_is_retried(failure: tuple[int, object] | Exception) -> None:
    with stamina.set_testing(testing=True, attempts=3):
        assert sign_in_to_local(VARIABLES, session(Login(failure, failure, issued()))).token(SCOPE) == "a.b.c"


def test_a_refusal_is_final_and_does_not_show_the_secret() -> None:
    login = Login((401, REFUSED))
    with pytest.raises(ServiceError, match=r"signing in to the local AzureML: .*AADSTS7000215") as caught:
        sign_in_to_local(VARIABLES, session(login)).token(SCOPE)
    assert len(login.requests) == 1
    assert "the-secret" not in str(caught.value)
