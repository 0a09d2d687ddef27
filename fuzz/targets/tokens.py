"""Tokens that the local AzureML verifies: none that it did not issue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from aml_emulator.identity import TokenError
from aml_emulator.identity.federation import FederatedCredential, Federation
from aml_emulator.identity.tokens import Tokens, decode_token, unbase64
from aml_emulator.registry.requests import read_scope
from aml_train.azure.credentials import claims_of
from fuzz.target import Target, require
from tests.unit.emulator.parts import IDENTITY

NOW = 1_800_000_000.0


@cache
def _tokens() -> Tokens:
    return Tokens(IDENTITY, clock=lambda: NOW)


@cache
def _valid() -> frozenset[str]:
    tokens = _tokens()
    return frozenset(
        (
            tokens.issue(audience="https://management.azure.com/"),
            tokens.issue_for_run("run-1"),
            tokens.issue_refresh(client_id="c"),
            tokens.issue_registry_refresh(),
        )
    )


def seeds() -> Sequence[str]:
    """Return signed tokens, unsigned ones, and a scope."""
    return [
        *sorted(_valid()),
        "e30.e30.AA",
        "e30.eyJpc3MiOiAieCIsICJzdWIiOiAieSIsICJhdWQiOiAieiIsICJleHAiOiA5ZTl9.AA",
        "repository:a/b:pull,push",
    ]


def check(text: str) -> None:
    """Verify a text as each kind of token."""
    tokens = _tokens()
    verify: tuple[Callable[[str], object], ...] = (
        tokens.verify,
        tokens.verify_for_registry,
        tokens.verify_registry_refresh,
        tokens.verify_registry_access,
        lambda one: tokens.verify_refresh(one, client_id="c"),
    )
    for one in verify:
        try:
            one(text)
        except TokenError as error:
            require(error.message, "a refusal says nothing")
        else:
            require(text.strip() in _valid(), "a token that was not issued is accepted")
    try:
        # An assertion of another issuer is checked for form and time alone.
        tokens.check_assertion(text)
    except TokenError as error:
        require(error.message, "a refusal says nothing")
    federation = Federation()
    federation.add(FederatedCredential(issuer="x", subject="y", audience="z"))
    for signed in (True, False):
        try:
            federation.check(text, signed=signed)
        except TokenError as error:
            require(error.message, "a refusal says nothing")
    try:
        decode_token(text)
        unbase64(text)
    except (TokenError, ValueError) as error:
        require(str(error), "a refusal says nothing")
    claims_of(text)
    scope = read_scope(text)
    require(scope is None or read_scope(scope.text) == scope, "a scope is another one if it is written again")


TARGET = Target(
    kind="text",
    reads=(
        "aml_emulator.identity.tokens",
        "aml_emulator.identity.federation",
        "aml_emulator.registry.requests",
        "aml_train.azure.credentials",
    ),
    seeds=seeds,
    check=check,
    words=(
        ".",
        "e30",
        "=",
        "-",
        "_",
        "eyJhbGciOiAibm9uZSJ9",
        "AA",
        "W10",
        "bnVsbA",
        "repository:",
        ":pull",
        ",",
        "\n",
    ),
)
