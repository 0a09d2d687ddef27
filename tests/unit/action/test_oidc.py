"""Fetching GitHub's OIDC tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
import stamina

from aml_train.core.errors import ServiceError
from aml_train_action.github.oidc import github_assertion
from tests.support.scripted_answers import ScriptedAnswers

ENVIRONMENT = {
    "GITHUB_ACTIONS": "true",
    "ACTIONS_ID_TOKEN_REQUEST_URL": "https://oidc.example/token?api-version=2.0",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "request-secret",
}


def fetch(endpoint: ScriptedAnswers, audience: str = "api://x", **options: Any) -> str:
    session = requests.Session()
    session.mount("https://", endpoint)
    assertion = github_assertion(ENVIRONMENT, session=session, **options)
    assert assertion is not None
    with stamina.set_testing(True, attempts=3):
        return assertion(audience)


def test_a_new_token_is_fetched_for_the_audience() -> None:
    endpoint = ScriptedAnswers((200, '{"value": "one"}'))
    masked: list[str] = []
    assert fetch(endpoint, "api://AzureADTokenExchange", fetched=masked.append) == "one"
    (asked,) = endpoint.asked
    assert parse_qs(urlsplit(str(asked.url)).query) == {
        "api-version": ["2.0"],
        "audience": ["api://AzureADTokenExchange"],
    }
    assert asked.headers["Authorization"] == "Bearer request-secret"
    assert masked == ["one"]


def test_an_outage_is_waited_for() -> None:
    assert fetch(ScriptedAnswers((503, ""), requests.ConnectionError("no"), (200, '{"value": "two"}'))) == "two"


@pytest.mark.parametrize(
    ("answers", "message", "hint"),
    [
        ([(403, "request-secret")], "GitHub's OIDC service answered 403.", "permissions:\n  id-token: write"),
        (
            [(500, "request-secret")] * 3,
            "GitHub's OIDC service answered 500.",
            "https://www.githubstatus.com",
        ),
        (
            [requests.ConnectionError("request-secret")] * 3,
            "does not answer (ConnectionError).",
            "Run again",
        ),
        ([(200, "request-secret")], "gave no token", "Run again"),
        ([(200, '{"value": ""}')], "gave no token", "Run again"),
        ([(200, "[]")], "gave no token", "Run again"),
    ],
)
def test_refusals_say_what_to_do(answers: list[tuple[int, str] | Exception], message: str, hint: str) -> None:
    with pytest.raises(ServiceError) as caught:
        fetch(ScriptedAnswers(*answers))
    assert message in caught.value.message
    assert hint in str(caught.value.hint)
    assert "request-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "environment",
    [{}, {"GITHUB_ACTIONS": "true", "AZURE_FEDERATED_TOKEN_FILE": "/token"}],
)
def test_none_where_there_is_nothing_to_fetch(environment: Mapping[str, str]) -> None:
    assert github_assertion(environment) is None


def test_a_job_without_the_permission_is_told() -> None:
    assertion = github_assertion({"GITHUB_ACTIONS": "true"})
    assert assertion is not None
    with pytest.raises(ServiceError, match="GitHub does not let this job have one") as caught:
        assertion("api://x")
    assert "id-token: write" in str(caught.value.hint)
