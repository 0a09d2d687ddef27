from __future__ import annotations

import base64
import dataclasses
import json

import pytest

from aml_emulator.identity.tokens import LIFETIME_SECONDS, TokenError, Tokens, decode_token
from tests.unit.emulator.parts import IDENTITY, Clock


def _unsigned(**claims: object) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none'})}.{part(claims)}."


def test_a_token_is_taken_back() -> None:
    tokens = Tokens(IDENTITY, clock=Clock())
    token = tokens.issue(audience="https://management.azure.com")
    principal = tokens.verify(token)
    assert (principal.object_id, principal.run_id) == (IDENTITY.object_id, None)
    assert decode_token(token)[1]["appid"] == IDENTITY.client_id
    assert tokens.verify(tokens.issue_for_run("run")).run_id == "run"


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("", "InvalidAuthenticationToken"),
        ("a.b.c", "InvalidAuthenticationToken"),
        ("{}", "InvalidAuthenticationToken"),
        ("W10.W10.W10", "InvalidAuthenticationToken"),
        (
            _unsigned(aud="https://management.azure.com", exp=2**40, tid=IDENTITY.tenant_id),
            "InvalidAuthenticationToken",
        ),
    ],
)
def test_what_is_no_token_of_ours_is_refused(token: str, code: str) -> None:
    with pytest.raises(TokenError) as caught:
        Tokens(IDENTITY, clock=Clock()).verify(token)
    assert caught.value.code == code


def test_a_changed_token_is_refused() -> None:
    tokens = Tokens(IDENTITY, clock=Clock())
    head, claims, signature = tokens.issue(audience="https://ml.azure.com").split(".")
    other = tokens.issue_for_run("x").split(".")[1]
    for changed in (f"{head}.{other}.{signature}", f"{head}.{claims}.{signature[::-1]}", f"{head}.{claims}."):
        with pytest.raises(TokenError, match=r"not signed by this service|not a JSON Web Token"):
            tokens.verify(changed)


def test_expired_foreign_and_misdirected_tokens_are_refused() -> None:
    clock = Clock()
    tokens = Tokens(IDENTITY, clock=clock)
    foreign = Tokens(dataclasses.replace(IDENTITY, tenant_id="other"), clock=clock)
    with pytest.raises(TokenError, match="wrong tenant"):
        tokens.verify(foreign.issue(audience="https://management.azure.com"))
    stranger = Tokens(dataclasses.replace(IDENTITY, token_secret="cd" * 32), clock=clock)
    with pytest.raises(TokenError, match="not signed by this service"):
        tokens.verify(stranger.issue(audience="https://management.azure.com"))
    with pytest.raises(TokenError, match=r"wrong audience or resource 'https://storage\.azure\.com'"):
        tokens.verify(tokens.issue(audience="https://storage.azure.com/"))
    token = tokens.issue(audience="https://management.azure.com/")
    clock.now += LIFETIME_SECONDS + 1
    with pytest.raises(TokenError, match="expiry is in the past"):
        tokens.verify(token)


def test_a_client_assertion_must_be_a_token_that_has_not_expired() -> None:
    clock = Clock()
    tokens = Tokens(IDENTITY, clock=clock)
    tokens.check_assertion(_unsigned(exp=clock.now + 60))
    early = _unsigned(nbf=clock.now + 60, exp=clock.now + 120)
    for bad in (_unsigned(exp=clock.now - 60), early, _unsigned(iss="x"), "nonsense"):
        with pytest.raises(TokenError):
            tokens.check_assertion(bad)
