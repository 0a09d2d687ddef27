"""Sign-ins of people that wait for their program: codes that are redeemed once.

A program gets a code from the page of Entra ID, or shows one for another device; with it, it asks for tokens. Here every
sign-in is granted as soon as it begins. Sources:
https://learn.microsoft.com/entra/identity-platform/v2-oauth2-auth-code-flow and
https://learn.microsoft.com/entra/identity-platform/v2-oauth2-device-code.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

CODE_SECONDS: Final = 600
DEVICE_SECONDS: Final = 900
MOST_GRANTS: Final = 1000
"""Codes that are remembered at once; the oldest goes for a new one."""

Kind = Literal["authorization_code", "device_code"]
Redemption = Literal["granted", "unknown", "used", "expired"]


@dataclass(frozen=True, kw_only=True)
class Grant:
    """The grant of a person to a program.

    Attributes:
        client_id: the program.
        scope: what it asked for, separated by spaces.
        redirect_uri: where the code was sent; empty for another device.
        nonce: repeated in the id token.
        challenge, method: of Proof Key for Code Exchange (RFC 7636); empty without.
        expires: seconds since the epoch.
    """

    kind: Kind
    client_id: str
    scope: str
    redirect_uri: str = ""
    nonce: str = ""
    challenge: str = ""
    method: str = ""
    expires: float

    def proved_by(self, verifier: str) -> bool:
        """Return whether *verifier* proves that its sender began the sign-in."""
        if not self.challenge:
            return True
        proof = verifier
        if self.method == "S256":
            digest = hashlib.sha256(verifier.encode("utf-8")).digest()
            proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
        return hmac.compare_digest(proof.encode("utf-8"), self.challenge.encode("utf-8"))


class Grants:
    """The granted sign-ins by their codes; none outlives the process.

    Args:
        clock: seconds since the epoch.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, Grant] = {}
        self._used: set[str] = set()

    def add(
        self,
        kind: Kind,
        *,
        client_id: str,
        scope: str,
        redirect_uri: str = "",
        nonce: str = "",
        challenge: str = "",
        method: str = "",
    ) -> str:
        """Remember a granted sign-in and return its code."""
        code = secrets.token_urlsafe(48)
        grant = Grant(
            kind=kind,
            client_id=client_id,
            scope=scope,
            redirect_uri=redirect_uri,
            nonce=nonce,
            challenge=challenge,
            method=method,
            expires=self._clock() + (CODE_SECONDS if kind == "authorization_code" else DEVICE_SECONDS),
        )
        with self._lock:
            while len(self._known) >= MOST_GRANTS:
                oldest = next(iter(self._known))
                del self._known[oldest]
                self._used.discard(oldest)
            self._known[code] = grant
        return code

    def redeem(self, kind: Kind, code: str, *, client_id: str) -> tuple[Redemption, Grant | None]:
        """Return the grant of a code, once; otherwise the reason why there is none.

        A code of another kind or of another program is unknown, and stays what it is.
        """
        with self._lock:
            grant = self._known.get(code)
            if grant is None or grant.kind != kind or grant.client_id != client_id:
                return "unknown", None
            if code in self._used:
                return "used", None
            if grant.expires <= self._clock():
                return "expired", None
            self._used.add(code)
            return "granted", grant
