from __future__ import annotations

import base64
import json

import pytest

from aml_emulator.identity.tokens import TokenError, Tokens, decode_token
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


def test_a_changed_token_is_refused() -> None:
    tokens = Tokens(IDENTITY, clock=Clock())
    head, claims, signature = tokens.issue(audience="https://ml.azure.com").split(".")
    other = tokens.issue_for_run("x").split(".")[1]
    for changed in (f"{head}.{other}.{signature}", f"{head}.{claims}.{signature[::-1]}", f"{head}.{claims}."):
        with pytest.raises(TokenError, match=r"not signed by this service|not a JSON Web Token"):
            tokens.verify(changed)


def test_a_client_assertion_must_be_a_token_that_has_not_expired() -> None:
    clock = Clock()
    tokens = Tokens(IDENTITY, clock=clock)
    tokens.check_assertion(_unsigned(exp=clock.now + 60))
    early = _unsigned(nbf=clock.now + 60, exp=clock.now + 120)
    for bad in (_unsigned(exp=clock.now - 60), early, _unsigned(iss="x"), "nonsense"):
        with pytest.raises(TokenError):
            tokens.check_assertion(bad)
