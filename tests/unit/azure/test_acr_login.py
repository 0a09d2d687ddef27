"""Exchanging a token of Entra ID for one of a registry."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest
import requests
import stamina

from aml_train.azure.acr import TOKEN_USER, AcrLogin
from aml_train.core.errors import ServiceError
from tests.support.scripted_answers import ScriptedAnswers

HOST = "my.azurecr.io"


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time


@pytest.fixture(autouse=True)
def no_pauses() -> Iterator[None]:
    with stamina.set_testing(True, attempts=4):
        yield


@pytest.fixture
def clock() -> Clock:
    return Clock()


def login(
    exchange: ScriptedAnswers, clock: Clock, tokens: Iterator[str] | None = None, told: list[str] | None = None
) -> AcrLogin:
    session = requests.Session()
    session.mount("https://", exchange)
    given = tokens or iter(("aad-1", "aad-2"))
    return AcrLogin(
        HOST,
        lambda: next(given),
        session=session,
        now=clock.now,
        fetched=told.append if told is not None else str,
    )


def test_credentials_are_renewed_after_five_minutes(clock: Clock) -> None:
    exchange = ScriptedAnswers((200, '{"refresh_token": "one"}'), (200, '{"refresh_token": "two"}'))
    told: list[str] = []
    acr = login(exchange, clock, told=told)
    first = acr()
    assert (first.username, first.password, first.identity_token) == (TOKEN_USER, "one", "one")
    assert "one" not in repr(first)
    clock.time = 299
    assert acr() is first
    clock.time = 301
    assert acr().password == "two"
    assert told == ["one", "two"]
    first.fetched("an access token")
    assert told[-1] == "an access token"
    assert {asked.url for asked in exchange.asked} == {f"https://{HOST}/oauth2/exchange"}
    assert [parse_qs(str(asked.body)) for asked in exchange.asked] == [
        {"grant_type": ["access_token"], "service": [HOST], "access_token": [token]} for token in ("aad-1", "aad-2")
    ]


def test_an_outage_is_waited_for(clock: Clock) -> None:
    exchange = ScriptedAnswers((503, ""), requests.ConnectionError("no"), (200, '{"refresh_token": "one"}'))
    assert login(exchange, clock)().password == "one"
    assert not exchange.answers


@pytest.mark.parametrize(
    ("answers", "message", "hint"),
    [
        ([(401, "aad-1")], "refused the sign-in: it answered 401", "AcrPush"),
        ([(404, "")], "refused the sign-in: it answered 404", "Check the registry's name"),
        ([(200, "aad-1")], "is no Azure Container Registry", "None"),
        ([(200, "[]")], "is no Azure Container Registry", "None"),
        ([(200, "{}")], "is no Azure Container Registry", "None"),
        ([(503, "")] * 4, "answered 503 to the sign-in", "HTTPS_PROXY"),
        ([requests.ConnectionError("aad-1")] * 4, "does not answer: ConnectionError", "HTTPS_PROXY"),
    ],
)
def test_refusals(answers: list[tuple[int, str] | Exception], message: str, hint: str, clock: Clock) -> None:
    with pytest.raises(ServiceError) as caught:
        login(ScriptedAnswers(*answers), clock)()
    assert message in caught.value.message
    assert hint in str(caught.value.hint)
    assert "aad-1" not in str(caught.value)
