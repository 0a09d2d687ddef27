"""Choosing a credential, and what it says when it is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import azure.identity  # noqa: F401 - its import looks for processes, which a test may not
import pytest
import stamina
from azure.core.credentials import AccessToken
from azure.core.exceptions import (
    ClientAuthenticationError,
    DecodeError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
)

from aml_train.azure.clouds import cloud_named
from aml_train.azure.credentials import KeptTokens
from aml_train.azure.sign_in import SignIn, sign_in_to_azure, without_secrets
from aml_train.config.sections.targets import SIGN_INS
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.version import PRODUCT

IDS = {"AZURE_TENANT_ID": "the-tenant", "AZURE_CLIENT_ID": "the-client"}
SECRET = {**IDS, "AZURE_CLIENT_SECRET": "the-secret"}
CREDS = {"AZURE_CREDENTIALS": '{"tenantId": "t", "clientId": "c", "clientSecret": "the-secret"}'}
FEDERATED = {**IDS, "AZURE_FEDERATED_TOKEN_FILE": "/nowhere/token"}


class Made(list[tuple[str, tuple[object, ...], dict[str, object]]]):
    """The credentials of azure-identity that were made: class, arguments, options."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    found = Made()
    names = (
        "AzureCli", "ClientAssertion", "ClientSecret", "Certificate", "ManagedIdentity", "WorkloadIdentity",
    )  # fmt: skip
    for name in names:

        def make(*args: object, _name: str = name, **options: object) -> object:
            found.append((_name, args, options))
            return object()

        monkeypatch.setattr(f"azure.identity.{name}Credential", make)
    return found


def assertion(_audience: str) -> str:
    return "e30.eyJzdWIiOiAieCJ9."


@pytest.mark.parametrize(
    ("environment", "with_assertion", "expected", "title"),
    [
        (SECRET, True, "ClientSecret", "the service principal's secret"),
        (SECRET | FEDERATED, False, "ClientSecret", "the service principal's secret"),
        (CREDS, True, "ClientSecret", "AZURE_CREDENTIALS"),
        (IDS, True, "ClientAssertion", "the OIDC token of the workflow"),
        (FEDERATED, True, "ClientAssertion", "the OIDC token of the workflow"),
        (FEDERATED, False, "WorkloadIdentity", "the workload identity's token file"),
        ({"AML_TRAIN_SIGN_IN": "managed-identity"}, True, "ManagedIdentity", "the managed identity"),
        (SECRET | {"AML_TRAIN_SIGN_IN": "oidc"}, True, "ClientAssertion", "the OIDC token of the workflow"),
        (SECRET | CREDS | {"AML_TRAIN_SIGN_IN": "secret"}, False, "ClientSecret", "the service principal's secret"),
    ],
)
def test_what_is_given_chooses(
    environment: Mapping[str, str], with_assertion: bool, expected: str, title: str, made: Made
) -> None:
    chosen = sign_in_to_azure(environment, assertion=assertion if with_assertion else None)
    assert ([name for name, _, _ in made], chosen.title) == ([expected], title)


def test_a_cloud_has_its_own_authority_and_audience(made: Made) -> None:
    asked: list[str] = []

    def record(audience: str) -> str:
        asked.append(audience)
        return assertion(audience)

    sign_in_to_azure(IDS, cloud=cloud_named("azureusgovernment"), assertion=record)
    ((_, (tenant, client, fetch), options),) = made
    wanted = {"authority": "login.microsoftonline.us", "user_agent": PRODUCT}
    assert (tenant, client, options) == ("the-tenant", "the-client", wanted)
    assert callable(fetch)
    assert [fetch(), fetch()] == [assertion(""), assertion("")]
    assert asked == ["api://AzureADTokenExchangeUSGov"] * 2


@pytest.mark.parametrize(
    ("environment", "kind", "message"),
    [
        ({}, ServiceError, "nothing is given to sign in with"),
        (IDS, ServiceError, "nothing is given to sign in with"),
        (SECRET | CREDS, InvalidError, "AZURE_CLIENT_SECRET and AZURE_CREDENTIALS are both set"),
        ({"AML_TRAIN_SIGN_IN": "az"}, InvalidError, "AML_TRAIN_SIGN_IN: 'az' is not known"),
        ({"AML_TRAIN_SIGN_IN": "oidc"} | IDS, ServiceError, "only the action can fetch a token"),
        ({"AZURE_CLIENT_SECRET": "the-secret"}, ServiceError, "AZURE_TENANT_ID, AZURE_CLIENT_ID not set"),
        ({"AZURE_CREDENTIALS": "the-secret"}, ServiceError, "AZURE_CREDENTIALS is not JSON with tenantId"),
        ({"AZURE_CREDENTIALS": '["the-secret"]'}, ServiceError, "AZURE_CREDENTIALS is not JSON with tenantId"),
        ({"AZURE_CREDENTIALS": '{"clientSecret": "the-secret"}'}, ServiceError, "AZURE_CREDENTIALS is not JSON"),
    ],
)
def test_what_cannot_work_is_told(environment: Mapping[str, str], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        sign_in_to_azure(environment)
    assert "the-secret" not in str(caught.value)


class Giving:
    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        return AccessToken(self.tokens.pop(0), 0)


def test_each_new_token_is_told_once() -> None:
    told: list[str] = []
    identity = SignIn(Giving("one", "one", "two", "three", "two"), way="oidc", fetched=told.append)
    given = [identity.token(scope) for scope in ("a", "a", "a", "b", "a")]
    assert given == ["one", "one", "two", "three", "two"]
    assert told == ["one", "two", "three"]


def test_other_commands_get_no_secret() -> None:
    environment = SECRET | CREDS | {"AZURE_CLIENT_CERTIFICATE_PASSWORD": "p", "PATH": "/bin"}
    assert without_secrets(environment) == {**IDS, "PATH": "/bin"}


class Refusing:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        raise self.error


def test_a_refusal_names_credential_answer_and_remedy() -> None:
    refused = ClientAuthenticationError(message="AADSTS700213: No matching federated identity record found.")
    claims = {"iss": "i", "sub": "repo:a/b:pull_request", "aud": "u"}
    with pytest.raises(ServiceError) as caught:
        SignIn(Refusing(refused), way="oidc", claims=lambda: claims).token("s")
    assert caught.value.message == (
        "Sign-in to Azure failed, with the OIDC token of the workflow: "
        "AADSTS700213: No matching federated identity record found."
    )
    assert "subject:  repo:a/b:pull_request" in str(caught.value.hint)
    assert not caught.value.transient


def wrapped(cause: Exception) -> ClientAuthenticationError:
    """Return what azure-identity makes of whatever happens while it signs in."""
    error = ClientAuthenticationError(message=f"Authentication failed: {cause}")
    error.__cause__ = cause
    return error


def answered(status: int) -> Any:
    return SimpleNamespace(status_code=status, reason="")


@pytest.mark.parametrize(
    "error",
    [
        ServiceRequestError("no way"),
        wrapped(ServiceRequestError("no way")),
        wrapped(IncompleteReadError(message="no way")),
        wrapped(DecodeError(message="no way", response=answered(200))),
        wrapped(HttpResponseError(message="no way", response=answered(503))),
        ClientAuthenticationError(message="no way", response=answered(500)),
        wrapped(json.JSONDecodeError("no way", "", 0)),
    ],
)
def test_an_outage_is_transient_and_asked_through_another_credential(error: Exception) -> None:
    class Down(Giving):
        def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
            asked.append(1)
            raise error

    asked: list[int] = []
    with (
        stamina.set_testing(True, attempts=3),
        pytest.raises(ServiceError, match=r"did not succeed, with the managed identity: .*no way") as caught,
    ):
        SignIn(Down(), way="managed-identity").token("s")
    assert caught.value.transient
    assert len(asked) == 3
    with stamina.set_testing(True, attempts=3):
        # The one that failed answers from memory for a while.
        assert SignIn(Down(), way="secret", again=lambda: Giving("one")).token("s") == "one"


def test_an_error_of_the_assertion_comes_through() -> None:
    ours = ServiceError("GitHub said no", hint="the hint", transient=True)
    for error in (ours, wrapped(ours)):
        with pytest.raises(ServiceError) as caught:
            SignIn(Refusing(error), way="oidc").token("s")
        assert caught.value is ours


def programs(folder: Path, *names: str) -> str:
    """Make empty programs, and return the path to find them by."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return str(folder)


def machine(folder: Path, *names: str) -> dict[str, str]:
    """Return the environment of a machine with programs."""
    return {"PATH": programs(folder / "bin", *names), "HOME": str(folder)}


CI = [{"CI": "true"}, {"CI": "1"}, {"GITHUB_ACTIONS": "true"}, {"TF_BUILD": "True"}, {"JENKINS_URL": "https://x"}]


@pytest.mark.parametrize("ci", CI)
def test_a_login_is_never_used_in_ci_unless_it_is_named(ci: Mapping[str, str], tmp_path: Path, made: Made) -> None:
    environment = machine(tmp_path, "az")
    assert sign_in_to_azure(environment).way == "cli"
    with pytest.raises(ServiceError, match="nothing is given to sign in with") as caught:
        sign_in_to_azure({**environment, **ci})
    assert "In CI, a login of az is used only by its name." in str(caught.value.hint)
    assert sign_in_to_azure({**environment, **ci, "AML_TRAIN_SIGN_IN": "cli"}).way == "cli"
    assert sign_in_to_azure({**environment, **ci}, named="cli").way == "cli"


def test_the_environment_alone_leaves_the_login_of_the_machine(tmp_path: Path) -> None:
    environment = {**machine(tmp_path, "az"), "AML_TRAIN_SIGN_IN": "environment"}
    with pytest.raises(ServiceError, match="nothing is given to sign in with") as caught:
        sign_in_to_azure(environment)
    for word in (*SIGN_INS, "az login", "AZURE_FEDERATED_TOKEN_FILE", "targets.NAME.sign-in"):
        assert word in str(caught.value.hint)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {"tenant_id": "", "subscription": "the-subscription"}),
        ({"AZURE_TENANT_ID": "the-tenant"}, {"tenant_id": "the-tenant", "subscription": None}),
    ],
)
def test_the_subscription_selects_the_account_unless_a_tenant_does(
    environment: Mapping[str, str], expected: dict[str, object], made: Made
) -> None:
    sign_in_to_azure(environment, named="cli", subscription="the-subscription")
    assert made == [("AzureCli", (), {**expected, "process_timeout": 60})]


def test_the_token_of_a_program_is_kept_until_shortly_before_its_end() -> None:
    class Counting:
        def get_token(self, *scopes: str, **_options: Any) -> AccessToken:
            asked.append(scopes)
            return AccessToken(f"token-{len(asked)}", 1000)

    asked: list[tuple[str, ...]] = []
    now = 0.0
    kept = KeptTokens(Counting(), now=lambda: now)
    assert [kept.get_token(scope).token for scope in ("a", "a", "b", "a")] == [
        "token-1",
        "token-1",
        "token-2",
        "token-1",
    ]
    assert kept.get_token("a", claims="more").token == "token-3"
    now = 701.0
    assert kept.get_token("a").token == "token-4"
