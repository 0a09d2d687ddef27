"""Headers that Azure sends with each answer, by what it is for.

Names and values are as recorded (``tests/contracts/recorded``); times and ids are those of the answer.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Final

MANAGEMENT_HOST: Final = "management.azure.com"

_REMAINING: Final = {"GET": ("reads", 11999), "HEAD": ("reads", 11999), "DELETE": ("deletes", 14999)}
_WRITES: Final = ("writes", 1199)
"""Requests that a subscription may still send; the local AzureML counts none."""


def response_headers(method: str, host: str, status: int, *, location: str, seconds: float) -> dict[str, str]:
    """Return the headers of an answer, without those of its body.

    Args:
        location: the workspace's region.
        seconds: how long the answer took.
    """
    correlation = str(uuid.uuid4())
    headers = {
        "x-ms-request-id": correlation,
        "cache-control": "no-cache",
        "strict-transport-security": "max-age=31536000; includeSubDomains",
        "x-content-type-options": "nosniff",
        "x-aml-cluster": f"local-{location}-01",
        "x-ms-response-type": "error" if status >= 400 else "standard",
        "x-request-time": f"{seconds:.3f}",
        "request-context": "appId=cid-v1:aml-emulator",
    }
    if host != MANAGEMENT_HOST:
        return headers
    kind, remaining = _REMAINING.get(method, _WRITES)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return {
        **headers,
        "expires": "-1",
        "pragma": "no-cache",
        "server-timing": f'traceparent;desc="00-{uuid.uuid4().hex}-{uuid.uuid4().hex[:16]}-00"',
        "x-ms-correlation-request-id": correlation,
        "x-ms-routing-request-id": f"{location.upper()}:{moment}:{correlation}",
        f"x-ms-ratelimit-remaining-subscription-{kind}": str(remaining),
    }
