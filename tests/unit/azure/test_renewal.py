"""A day of one run: access tokens of an hour, each renewed with an assertion of its own."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import azure.identity
import pytest

from aml_train.azure.sign_in import sign_in_to_azure
from tests.support.memory_transport import MemoryTransport

HOUR = 3600
LIFETIME = 3599


class EntraId(MemoryTransport):
    """Issues tokens for assertions that were not used before and are at most five seconds old."""

    def __init__(self, now: list[float]) -> None:
        self.now = now
        self.used: list[str] = []

    def send(self, request: Any, **_options: Any) -> Any:
        form = parse_qs(request.body) if isinstance(request.body, str) else {k: [v] for k, v in request.data.items()}
        (assertion,) = form["client_assertion"]
        assert assertion not in self.used
        assert self.now[0] - float(assertion) <= 5
        self.used.append(assertion)
        return Answer(request, {"access_token": f"token {len(self.used)}", "expires_in": LIFETIME})


class Answer:
    """As much of azure-core's response as azure-identity reads."""

    status_code = 200
    content_type = "application/json"
    reason = "OK"

    def __init__(self, request: Any, value: dict[str, Any]) -> None:
        self.request = request
        self.headers = {"Content-Type": "application/json"}
        self.value = json.dumps({"token_type": "Bearer", **value})

    def text(self, _encoding: str | None = None) -> str:
        return self.value

    def body(self) -> bytes:
        return self.value.encode()


def test_a_day_needs_a_new_assertion_about_every_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_800_000_000.0]
    entra = EntraId(now)
    monkeypatch.setattr(time, "time", lambda: now[0])
    monkeypatch.setattr(
        azure.identity,
        "ClientAssertionCredential",
        partial(azure.identity.ClientAssertionCredential, transport=entra),
    )
    identity = sign_in_to_azure(
        {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c"}, assertion=lambda _audience: str(now[0])
    )
    tokens = []
    end = now[0] + 24 * HOUR
    while now[0] < end:
        tokens.append(identity.token("https://management.azure.com/.default"))
        now[0] += 30
    assert len(tokens) == 24 * 120
    # azure-identity renews five minutes before the end.
    assert 24 <= len(entra.used) <= 28
    assert len(set(tokens)) == len(entra.used)
