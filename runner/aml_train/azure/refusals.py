"""What a refused sign-in means, and what to do about it. Pure; nothing secret gets into a text from here.

The codes are those of https://learn.microsoft.com/entra/identity-platform/reference-error-codes.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, Final

_CODE: Final = re.compile(r"AADSTS(\d+)")
# Entra ID ends its words with the ids of the request; they say nothing to the reader.
_TAIL: Final = re.compile(r"\s*(?:Trace ID|Correlation ID|Timestamp):.*", re.DOTALL)
# azure-identity's own words around Entra ID's.
_AROUND: Final = re.compile(r"Microsoft Entra ID error '\(\w+\) (?P<said>.*?)'?\s*", re.DOTALL)
_JWT: Final = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*")
_LONGEST: Final = 600
_LONGEST_READ: Final = 8000

_REMEDIES: Final[Mapping[str, str]] = {
    "90002": "Check the tenant id (AZURE_TENANT_ID) and the cloud (AZURE_ENVIRONMENT).",
    "700016": "Check the client id (AZURE_CLIENT_ID) and the tenant id (AZURE_TENANT_ID).",
    "7000215": "The client secret is wrong: give its value, not its id. Better, sign in with GitHub's OIDC: no secret is needed.",
    "7000222": "The client secret has expired: make a new one (az ad app credential reset). Better, sign in with GitHub's OIDC.",
    "700024": "The assertion has expired, or the clock is wrong. Run again.",
    "700027": "The certificate is not one of the application's: upload it, or give another.",
    "53003": "A conditional access policy of the tenant forbids this sign-in; ask its administrators.",
}
_UNTRUSTED: Final = frozenset({"70021", "700211", "700212", "700213", "700223"})
"""No federated credential of the application fits the assertion's issuer, audience or subject."""


def reason(message: str) -> str:
    """Return what Azure said, in one line: without ids of the request, without anything like a token."""
    # In one line and cut first: the patterns below are quick for text of this form alone.
    said = " ".join(message[:_LONGEST_READ].split())
    said = _TAIL.sub("", said.removeprefix("Authentication failed: "))
    found = _AROUND.fullmatch(said)
    said = found["said"] if found else said
    return " ".join(_JWT.sub("(token)", said).split())[:_LONGEST] or "no reason was given"


def remedy(message: str, claims: Mapping[str, Any] | None = None) -> str:
    """Return what to do after Azure refused with *message*.

    Args:
        message: what Azure said.
        claims: of the assertion that was sent, if one was.
    """
    found = _CODE.search(message)
    code = found[1] if found else ""
    if claims is not None and code in _UNTRUSTED:
        return trust(claims)
    return _REMEDIES.get(code, "Check the client id, the tenant id, and that the credential has not expired.")


def trust(claims: Mapping[str, Any]) -> str:
    """Return what Azure must be told to trust an assertion with *claims*."""
    issuer, subject, audience = (_text(claims.get(name)) for name in ("iss", "sub", "aud"))
    lines = [
        "Azure must trust this workflow. Add a federated credential to the application, with exactly:",
        f"  issuer:   {issuer}",
        f"  subject:  {subject}",
        f"  audience: {audience}",
    ]
    where = [f"{name} {claims[name]}" for name in ("repository", "ref", "environment") if claims.get(name)]
    if where:
        lines.append(
            f"(the run is of {', '.join(where)}; the subject changes with branch, tag, pull request and environment)"
        )
    lines.append("docs/azure.md has the command.")
    return "\n".join(lines)


def claims_of(assertion: str) -> dict[str, Any]:
    """Return the claims of a JSON Web Token, unverified, for people to read; none where it is not one."""
    try:
        part = assertion.split(".")[1]
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError, binascii.Error, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return str(value) if value else "(the assertion names none)"
