"""What a job may do with the service: without an engine."""

from __future__ import annotations

import base64
import json
from urllib.parse import urlencode

import pytest

from aml_emulator.identity.federation import FederatedCredential
from aml_emulator.identity.tokens import TokenError
from tests.unit.emulator.parts import IDENTITY, WS, Service

LOGIN = "login.microsoftonline.com"
TOKEN_PATH = f"/{IDENTITY.tenant_id}/oauth2/v2.0/token"


def assertion(service: Service, issuer: str) -> str:
    now = service.clock.now
    claims = {
        "iss": issuer,
        "sub": "me",
        "aud": "api://AzureADTokenExchange",
        "iat": now,
        "nbf": now - 1,
        "exp": now + 60,
    }
    parts = ({"alg": "RS256", "typ": "JWT"}, claims)
    return ".".join(
        [*(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts), "AA"]
    )


def sign_in(service: Service, *, from_job: bool, **form: str) -> tuple[int, str]:
    form = {"grant_type": "client_credentials", "client_id": IDENTITY.client_id, "scope": "x/.default", **form}
    answer = service.call(
        "POST", TOKEN_PATH, host=LOGIN, token=None, content=urlencode(form).encode(), from_job=from_job
    )
    return answer.status, answer.json.get("error_description", "")


def test_a_job_cannot_sign_in_with_what_it_signs_itself(service: Service) -> None:
    issuer = "https://mine.example"
    form = {
        "client_assertion": assertion(service, issuer),
        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
    }
    assert sign_in(service, from_job=False, **form)[0] == 200
    status, said = sign_in(service, from_job=True, **form)
    assert (status, said.partition(":")[0]) == (401, "AADSTS700211")
    # A trust without keys cannot be checked either.
    service.services.federation.add(FederatedCredential(issuer=issuer, subject="me"))
    assert sign_in(service, from_job=True, **form)[0] == 401


def test_a_job_that_was_given_the_secret_signs_in_as_in_azure(service: Service) -> None:
    assert sign_in(service, from_job=True, client_secret=IDENTITY.client_secret)[0] == 200
    assert sign_in(service, from_job=True, client_secret="guessed")[0] == 401


def test_a_jobs_own_token_is_for_azureml_alone(service: Service) -> None:
    """Not for Azure Resource Manager, which gives the registry's password and submits jobs; nor for the registry."""
    service.submit("one")
    token = service.tokens.issue_for_run("one")
    registry = (
        f"{WS.partition('/providers/')[0]}/providers/Microsoft.ContainerRegistry/registries/amllocal/listCredentials"
    )
    for method, path in (("GET", WS), ("POST", registry), ("GET", f"{WS}/jobs/one")):
        answer = service.call(method, path, token=token, from_job=True)
        assert (answer.status, answer.json["error"]["code"]) == (401, "InvalidAuthenticationToken")
    found = service.call("GET", f"/history/v1.0{WS}/experiments/exp/runs/one", host=IDENTITY.api_host, token=token)
    assert found.status == 200
    with pytest.raises(TokenError, match="none of Entra ID"):
        service.tokens.verify_for_registry(token)


def test_without_a_token_a_job_has_nothing(service: Service) -> None:
    for host, path in (
        ("management.azure.com", WS),
        (IDENTITY.api_host, f"/history/v1.0{WS}/experiments/exp/runs/one"),
    ):
        assert service.call("GET", path, host=host, token=None, from_job=True).status == 401
