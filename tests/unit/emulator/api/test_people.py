"""The sign-in of people: granted at once, refused in Entra ID's words."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from typing import Any
from urllib.parse import urlencode

import pytest

from aml_emulator.identity.tokens import CODE_SECONDS, decode_token
from tests.unit.emulator.parts import IDENTITY, WS, Answer, Service

LOGIN = "login.microsoftonline.com"
AZURE_CLI = "04b07795-8ddb-461a-bbee-02f9e1bf7b46"
SCOPE = "https://management.core.windows.net//.default openid profile offline_access"
REDIRECT = "http://localhost:8400"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


def page(service: Service, *, tenant: str = "organizations", from_job: bool = False, **changes: Any) -> Answer:
    asked: dict[str, Any] = {
        "client_id": AZURE_CLI,
        "response_type": "code",
        "redirect_uri": REDIRECT,
        "scope": SCOPE,
        "state": "the state",
        "nonce": "n",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "response_mode": "form_post",
    }
    query = urlencode({name: value for name, value in {**asked, **changes}.items() if value})
    path = f"/{tenant}/oauth2/v2.0/authorize?{query}"
    return service.call("GET", path, host=LOGIN, token=None, from_job=from_job)


def fields(answer: Answer) -> dict[str, str]:
    """Return the hidden fields of the page's form."""
    found = re.findall(r'name="(\w+)" value="([^"]*)"', answer.body.decode())
    return {name: html.unescape(value) for name, value in found}


def ask(service: Service, path: str, *, tenant: str = "organizations", from_job: bool = False, **form: Any) -> Answer:
    content = urlencode(form).encode()
    return service.call(
        "POST", f"/{tenant}/oauth2/v2.0/{path}", content=content, host=LOGIN, token=None, from_job=from_job
    )


def redeem(service: Service, code: str, **changes: Any) -> Answer:
    form: dict[str, Any] = {
        "grant_type": "authorization_code",
        "client_id": AZURE_CLI,
        "code": code,
        "redirect_uri": REDIRECT,
        "code_verifier": VERIFIER,
        "scope": SCOPE,
    }
    return ask(service, "token", **{**form, **changes})


def device(service: Service, **changes: Any) -> Any:
    form: dict[str, Any] = {"client_id": AZURE_CLI, "scope": SCOPE, **changes}
    return ask(service, "devicecode", **form)


def code_of(error: Any) -> int:
    (code,) = error["error_codes"]
    assert error["error_description"].startswith(f"AADSTS{code}: ")
    assert f"Trace ID: {error['trace_id']} Correlation ID: {error['correlation_id']}" in error["error_description"]
    assert error["error_uri"].endswith(f"code={code}")
    return int(code)


def test_the_page_sends_a_code_to_the_program_at_once(service: Service) -> None:
    answer = page(service)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert f'method="POST" name="hiddenform" action="{REDIRECT}"' in answer.body.decode()
    sent = fields(answer)
    assert sent["state"] == "the state"
    tokens = redeem(service, sent["code"]).json
    assert service.call("GET", WS, token=tokens["access_token"]).json["name"] == "local"
    claims = decode_token(tokens["id_token"])[1]
    assert (claims["aud"], claims["nonce"], claims["tid"]) == (AZURE_CLI, "n", IDENTITY.tenant_id)
    assert claims["preferred_username"] == IDENTITY.person.username == "you@amllocal.onmicrosoft.com"
    access = decode_token(tokens["access_token"])[1]
    assert (access["aud"], access["scp"], access["idtyp"]) == (
        "https://management.core.windows.net",
        "user_impersonation",
        "user",
    )
    assert access["oid"] == IDENTITY.person.object_id != IDENTITY.object_id
    info = json.loads(base64.urlsafe_b64decode(tokens["client_info"] + "=="))
    assert info == {"uid": IDENTITY.person.object_id, "utid": IDENTITY.tenant_id}
    assert "https://management.core.windows.net//.default" in tokens["scope"].split()


def test_a_device_code_is_granted_at_once(service: Service) -> None:
    flow = device(service).json
    assert flow["user_code"] in flow["message"]
    assert (flow["expires_in"], flow["interval"]) == (CODE_SECONDS, 5)
    form: dict[str, Any] = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "client_id": AZURE_CLI}
    tokens = ask(service, "token", **form, device_code=flow["device_code"]).json
    assert service.call("GET", "/tenants", token=tokens["access_token"]).json["value"][0]["tenantId"] == (
        IDENTITY.tenant_id
    )
    unknown = ask(service, "token", **form, device_code="x").json
    assert (unknown["error"], code_of(unknown)) == ("invalid_grant", 9002313)
    service.clock.now += CODE_SECONDS
    assert code_of(ask(service, "token", **form, device_code=flow["device_code"]).json) == 70008
    assert code_of(device(service, client_id="other").json) == 700016
    assert code_of(device(service, scope="").json) == 900144


@pytest.mark.parametrize(
    ("changes", "status", "code", "words"),
    [
        (
            {"client_id": "x"},
            400,
            700016,
            f"'x' was not found in the directory '{IDENTITY.tenant_id}'. This can happen",
        ),
        ({"client_secret": "x"}, 401, 7000215, f"for a secret added to app '{IDENTITY.client_id}'."),
        ({"client_secret": ""}, 401, 7000218, "'client_assertion' or 'client_secret'."),
        ({"grant_type": "password"}, 400, 70003, "unsupported grant type 'password'."),
        ({"scope": "https://management.azure.com/x"}, 400, 1002012, "suffixed to the resource identifier"),
        ({"scope": ""}, 400, 900144, "parameter: 'scope'."),
        ({"tenant": "other"}, 400, 90002, "Tenant 'other' not found. Check to make sure"),
    ],
)
def test_a_service_principal_is_refused_in_entra_s_words(
    service: Service, changes: dict[str, Any], status: int, code: int, words: str
) -> None:
    form: dict[str, Any] = {
        "tenant": IDENTITY.tenant_id,
        "grant_type": "client_credentials",
        "client_id": IDENTITY.client_id,
        "client_secret": IDENTITY.client_secret,
        "scope": "https://management.azure.com/.default",
    }
    answer = ask(service, "token", **{**form, **changes})
    assert (answer.status, code_of(answer.json)) == (status, code)
    assert words in answer.json["error_description"]
