"""Federated identity credentials: the issuers and subjects that are trusted.

Source: https://learn.microsoft.com/entra/workload-id/workload-identity-federation. An assertion must be signed by its issuer, and
its issuer, audience and subject must be those of one credential, to the letter. A subject of GitHub is one by names
(``repo:OWNER/REPO:…``) or, since July 2026 for new repositories, one with ids (``repo:OWNER@ID/REPO@ID:…``), and a credential
for the one does not take the other: https://learn.microsoft.com/entra/workload-id/workload-identities-github-immutable-subjects.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.hashes import SHA256

from aml_emulator.identity.tokens import TokenError, decode_token, unbase64
from aml_emulator.reading import write_private

AUDIENCE: Final = "api://AzureADTokenExchange"
"""The audience that Azure recommends, and that azure-identity's users ask for."""

_DOCUMENTATION: Final = "https://learn.microsoft.com/entra/workload-id/workload-identity-federation"
_ADVICE: Final = (
    "Check your federated identity credential Subject, Audience and Issuer against the presented assertion. "
)
#: As Entra ID words them: Azure/login#515 for another case, dotnet/maui#31978 for the others (2025).
_OTHER_CASE: Final = (
    f"The subject matches with case-insensitive comparison, but not with case-sensitive comparison. {_ADVICE}"
    f"See documentation at: {_DOCUMENTATION}. See breaking change notification and remediation at: "
    "https://learn.microsoft.com/en-us/entra/identity-platform/reference-breaking-changes#august-2024."
)


@dataclass(frozen=True, kw_only=True)
class FederatedCredential:
    """One trust.

    Attributes:
        issuer, subject, audience: what the assertion must say.
        keys: the issuer's keys as a JSON Web Key Set (RFC 7517), its RSA keys; None where signatures are not checked. Entra ID
            fetches them from the issuer, which the local AzureML may not be able to reach.
    """

    issuer: str
    subject: str
    audience: str = AUDIENCE
    keys: str | None = None


class Federation:
    """The trusts of the one application; without any, all issuers are trusted.

    Args:
        path: where they are kept; None keeps them in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._credentials: tuple[FederatedCredential, ...] = ()
        if path is not None and path.exists():
            written = json.loads(path.read_text(encoding="utf-8"))
            self._credentials = tuple(FederatedCredential(**one) for one in written)

    @property
    def credentials(self) -> tuple[FederatedCredential, ...]:
        """All trusts."""
        return self._credentials

    def add(self, credential: FederatedCredential) -> None:
        """Trust one more.

        Raises:
            ValueError: its keys are no JSON Web Key Set with an RSA key.
        """
        if credential.keys is not None and not _public_keys(credential.keys):
            raise ValueError("keys: not a JSON Web Key Set with an RSA key")
        with self._lock:
            self._keep((*self._credentials, credential))

    def clear(self) -> None:
        """Forget all trusts."""
        with self._lock:
            self._keep(())

    def _keep(self, credentials: tuple[FederatedCredential, ...]) -> None:
        self._credentials = credentials
        if self._path is not None:
            write_private(self._path, json.dumps([asdict(one) for one in credentials]).encode())

    def check(self, token: str, *, signed: bool = False) -> None:
        """Return if *token*, whose times have been checked, may be signed in with.

        Args:
            signed: trust no issuer but those whose keys are known.

        Raises:
            TokenError: with the code and the words of Entra ID.
        """
        header, claims = decode_token(token)
        issuer, subject, audiences = claims.get("iss"), claims.get("sub"), _audiences(claims)
        known = tuple(one for one in self._credentials if one.keys is not None or not signed)
        if not known and not signed:
            if AUDIENCE not in audiences:
                raise _no_match("700212", "audience", ", ".join(audiences))
            return
        of_issuer = [one for one in known if one.issuer == issuer]
        if not of_issuer:
            raise _no_match("700211", "issuer", issuer)
        of_audience = [one for one in of_issuer if one.audience in audiences]
        if not of_audience:
            raise _no_match("700212", "audience", ", ".join(audiences))
        fitting = [one for one in of_audience if one.subject == subject]
        if not fitting:
            if any(one.subject.casefold() == str(subject).casefold() for one in of_audience):
                raise _no_match("7002138", "subject", subject, _OTHER_CASE)
            raise _no_match("700213", "subject", subject)
        if not any(one.keys is None or _is_signed(token, header, one.keys) for one in fitting):
            raise TokenError("invalid_client", "AADSTS50013: Assertion failed signature validation.")


def _no_match(code: str, part: str, value: object, remark: str = f"{_ADVICE}{_DOCUMENTATION}") -> TokenError:
    return TokenError(
        "invalid_client",
        f"AADSTS{code}: No matching federated identity record found for presented assertion {part} '{value}'. {remark}",
    )


def _audiences(claims: Mapping[str, Any]) -> list[str]:
    audience = claims.get("aud")
    return [str(one) for one in audience] if isinstance(audience, list) else [str(audience or "")]


def _public_keys(keys: str) -> list[tuple[str | None, Any]]:
    """Return id and key of each RSA key of a JSON Web Key Set."""

    try:
        found = json.loads(keys)["keys"]
        numbers = [
            (one.get("kid"), *(int.from_bytes(unbase64(one[part]), "big") for part in ("e", "n")))
            for one in found
            if one.get("kty") == "RSA"
        ]
        return [(kid, RSAPublicNumbers(e, n).public_key()) for kid, e, n in numbers]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _is_signed(token: str, header: Mapping[str, Any], keys: str) -> bool:
    """Return whether one of *keys* made the token's RS256 signature."""

    content, _, signature = token.rpartition(".")
    if header.get("alg") != "RS256":
        return False
    for kid, key in _public_keys(keys):
        if kid is not None and header.get("kid") not in (None, kid):
            continue
        try:
            key.verify(unbase64(signature), content.encode(), PKCS1v15(), SHA256())
        except InvalidSignature:
            continue
        return True
    return False
