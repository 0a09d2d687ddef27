"""Entra ID's refusals, as its token service words them.

Codes and causes: https://learn.microsoft.com/entra/identity-platform/reference-error-codes; the body's members:
https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow#error-response. Every text ends with
a trace id, a correlation id and a time, which clients print and strip.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final

from aml_emulator.api.routing import Reply

_CODE = re.compile(r"AADSTS(\d+)")


class EntraError(Exception):
    """A sign-in that is refused.

    Args:
        error: OAuth's word for it.
        text: begins with the code, ``AADSTS700016: …``.
    """

    def __init__(self, error: str, text: str) -> None:
        super().__init__(text)
        self.error = error
        self.text = text

    @property
    def status(self) -> int:
        """The answer's status: 401 if the credential is the reason."""
        return 401 if self.error == "invalid_client" else 400

    def body(self, now: float) -> dict[str, Any]:
        """Return the answer's body; *now* is in seconds since the epoch."""
        trace, correlation = str(uuid.uuid4()), str(uuid.uuid4())
        moment = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(now))
        codes = [int(code) for code in _CODE.findall(self.text)[:1]]
        text = f"{self.text} Trace ID: {trace} Correlation ID: {correlation} Timestamp: {moment}"
        return {
            "error": self.error,
            "error_description": text,
            "error_codes": codes,
            "timestamp": moment,
            "trace_id": trace,
            "correlation_id": correlation,
            **({"error_uri": f"https://login.microsoftonline.com/error?code={codes[0]}"} if codes else {}),
        }

    def reply(self, now: float) -> Reply:
        """Return the answer of the token endpoint."""
        return Reply(status=self.status, value=self.body(now))


def refusal(code: int, **values: str) -> EntraError:
    """Return the refusal of that code; *values* fill in its text."""
    error, text = _REFUSALS[code]
    return EntraError(error, f"AADSTS{code}: {text.format(**values)}")


_REFUSALS: Final[Mapping[int, tuple[str, str]]] = {
    50011: (
        "invalid_request",
        (
            "The redirect URI '{uri}' specified in the request does not match the redirect URIs configured for"
            " the application '{client_id}'. Make sure the redirect URI sent in the request matches one added to"
            " your application in the Azure portal."
        ),
    ),
    50027: ("invalid_request", "The client assertion's type is not supported."),
    53003: (
        "access_denied",
        (
            "Access has been blocked by Conditional Access policies. The access policy does not allow token"
            " issuance. In a job the local AzureML grants no sign-in of a person: use the job's own identity."
        ),
    ),
    70003: ("unsupported_grant_type", "The app requested an unsupported grant type '{grant}'."),
    70008: (
        "invalid_grant",
        (
            "The provided authorization code or refresh token has expired due to inactivity. Send a new"
            " interactive authorization request for this user and resource."
        ),
    ),
    90002: (
        "invalid_request",
        (
            "Tenant '{tenant}' not found. Check to make sure you have the correct tenant ID and are signing into"
            " the correct cloud. Check with your subscription administrator, this may happen if there are no"
            " active subscriptions for the tenant."
        ),
    ),
    700016: (
        "unauthorized_client",
        (
            "Application with identifier '{client_id}' was not found in the directory '{tenant}'. This can happen"
            " if the application has not been installed by the administrator of the tenant or consented to by any"
            " user in the tenant. You may have sent your authentication request to the wrong tenant."
        ),
    ),
    900144: ("invalid_request", "The request body must contain the following parameter: '{name}'."),
    1002012: (
        "invalid_scope",
        (
            "The provided value for scope {scope} is not valid. Client credential flows must have a scope value"
            " with /.default suffixed to the resource identifier (application ID URI)."
        ),
    ),
    7000215: (
        "invalid_client",
        (
            "Invalid client secret provided. Ensure the secret being sent in the request is the client secret"
            " value, not the client secret ID, for a secret added to app '{client_id}'."
        ),
    ),
    7000218: (
        "invalid_client",
        "The request body must contain the following parameter: 'client_assertion' or 'client_secret'.",
    ),
    9002313: ("invalid_grant", "Invalid request. Request is malformed or invalid."),
}
"""Code → OAuth's word for it, and the text."""
