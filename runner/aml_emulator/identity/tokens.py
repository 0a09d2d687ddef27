"""Access tokens: JSON Web Tokens that this emulator signs (HS256, RFC 7515, 7519).

Claims carry the names that Entra ID gives them
(https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aml_emulator.identity.identity import Identity

LIFETIME_SECONDS = 3599
JOB_LIFETIME_SECONDS = 30 * 24 * 3600
REGISTRY_REFRESH_SECONDS = 3 * 3600
REGISTRY_ACCESS_SECONDS = 75 * 60
CODE_SECONDS = 900
"""Of the code that a person's sign-in gives a program."""
REFRESH_SECONDS = 90 * 24 * 3600
"""Of a person's refresh token: https://learn.microsoft.com/entra/identity-platform/refresh-tokens."""
_GRANT = "urn:aml-emulator:grant"
"""The audience of codes and refresh tokens, which no service takes."""

REPOSITORY_ACTIONS = frozenset({"pull", "push", "delete", "metadata_read", "metadata_write", "*"})
"""Actions of a registry token: https://github.com/Azure/acr/blob/main/docs/Token-BasicAuth.md."""

AUDIENCES = frozenset(
    {
        "https://management.azure.com",
        "https://management.core.windows.net",
        "https://ml.azure.com",
        "https://azureml.api.azureml.ms",
    }
)
"""Audiences whose tokens the API takes, without a trailing slash."""

REGISTRY_AUDIENCES = AUDIENCES | {"https://containerregistry.azure.net"}
"""Audiences whose tokens the registry exchanges for its own."""


class TokenError(Exception):
    """A token that is not accepted.

    Args:
        code: ARM's word for the cause, for example ``ExpiredAuthenticationToken``.
        message: the reason, without any part of the token.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Who a request comes from.

    Attributes:
        run_id: the run whose own token this is; None for a signed-in client.
        workspace_id: that run's workspace; None for a signed-in client.
    """

    object_id: str
    run_id: str | None = None
    workspace_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class RegistryAccess:
    """The allowed actions in one repository of the registry, or on its catalogue.

    Attributes:
        kind: ``repository``, or ``registry`` for the catalogue.
        name: the repository's name, or ``catalog``.
        actions: some of :data:`REPOSITORY_ACTIONS`; ``*`` is all of them.
    """

    kind: str = "repository"
    name: str
    actions: frozenset[str]

    @property
    def text(self) -> str:
        """The scope as registries write it."""
        return f"{self.kind}:{self.name}:{','.join(sorted(self.actions))}"

    def within(self, other: RegistryAccess) -> bool:
        """Return whether *other* allows it."""
        same = (self.kind, self.name) == (other.kind, other.name)
        return same and (self.actions <= other.actions or "*" in other.actions)


class Tokens:
    """Issues and checks the emulator's tokens.

    Args:
        clock: seconds since the epoch.
    """

    def __init__(self, identity: Identity, *, clock: Callable[[], float] = time.time) -> None:
        self._identity = identity
        self._key = bytes.fromhex(identity.token_secret)
        self._clock = clock

    def issue(self, *, audience: str) -> str:
        """Return a token of the service principal for *audience*."""
        return self._sign(audience=audience, seconds=LIFETIME_SECONDS, extra={})

    def issue_for_person(self, *, audience: str, client_id: str) -> str:
        """Return a token of the one person, who signed in to a program, for *audience*."""
        person = self._identity.person
        extra = {
            "acr": "1",
            "appid": client_id,
            "appidacr": "0",
            "idtyp": "user",
            "name": person.name,
            "oid": person.object_id,
            "scp": "user_impersonation",
            "sub": person.object_id,
            "unique_name": person.username,
            "upn": person.username,
        }
        return self._sign(audience=audience, seconds=LIFETIME_SECONDS, extra=extra)

    def issue_id_token(self, *, client_id: str, nonce: str) -> str:
        """Return what a program learns of the person who signed in to it.

        See https://learn.microsoft.com/entra/identity-platform/id-token-claims-reference.
        """
        identity, person, now = self._identity, self._identity.person, int(self._clock())
        return self._signed(
            {
                "aud": client_id,
                "iss": f"https://login.microsoftonline.com/{identity.tenant_id}/v2.0",
                "iat": now,
                "nbf": now,
                "exp": now + LIFETIME_SECONDS,
                "name": person.name,
                **({"nonce": nonce} if nonce else {}),
                "oid": person.object_id,
                "preferred_username": person.username,
                "sub": person.object_id,
                "tid": identity.tenant_id,
                "ver": "2.0",
            }
        )

    def issue_grant(self, *, client_id: str, seconds: int, scope: str = "", nonce: str = "") -> str:
        """Return what a program redeems for a person's tokens: a code, or a refresh token for every scope."""
        extra = {"appid": client_id, "scope": scope, "nonce": nonce}
        return self._sign(audience=_GRANT, seconds=seconds, extra=extra)

    def verify_grant(self, token: str, *, client_id: str) -> tuple[str, str]:
        """Return scope and nonce of a code or a refresh token of that program.

        Raises:
            TokenError: it is another token, another program's, changed, or expired.
        """
        claims = self._claims(token)
        if claims.get("aud") != _GRANT or claims.get("appid") != client_id:
            raise TokenError("InvalidAuthenticationToken", "It is no grant of this application.")
        return str(claims["scope"]), str(claims["nonce"])

    def issue_for_run(self, run_id: str) -> str:
        """Return a job's token, which is valid until the run ends."""
        return self._sign(
            audience="https://ml.azure.com",
            seconds=JOB_LIFETIME_SECONDS,
            extra={"run_id": run_id, "workspace_id": self._identity.workspace_id},
        )

    def verify(self, token: str) -> Principal:
        """Return whose token it is.

        Raises:
            TokenError: not a token of ours, changed, expired, or meant for another audience.
        """
        return self._verify(token, AUDIENCES)

    def verify_for_registry(self, token: str) -> None:
        """Return if the registry exchanges this access token of Entra ID.

        Raises:
            TokenError: as for :meth:`verify`.
        """
        if self._verify(token, REGISTRY_AUDIENCES).run_id is not None:
            # AzureML signs it, and not Entra ID.
            raise TokenError("InvalidAuthenticationToken", "A job's own token is none of Entra ID.")

    def issue_registry_refresh(self) -> str:
        """Return a refresh token of the registry."""
        extra = {"grant_type": "refresh_token"}
        return self._sign(audience=self._identity.login_server, seconds=REGISTRY_REFRESH_SECONDS, extra=extra)

    def verify_registry_refresh(self, token: str) -> None:
        """Return if it is a refresh token of the registry.

        Raises:
            TokenError: it is another token, changed, or expired.
        """
        self._registry_claims(token, "refresh_token")

    def issue_registry_access(self, access: Iterable[RegistryAccess]) -> str:
        """Return an access token of the registry."""
        granted = [{"type": one.kind, "name": one.name, "actions": sorted(one.actions)} for one in access]
        extra = {"grant_type": "access_token", "access": granted}
        return self._sign(audience=self._identity.login_server, seconds=REGISTRY_ACCESS_SECONDS, extra=extra)

    def verify_registry_access(self, token: str) -> list[RegistryAccess]:
        """Return what an access token of the registry allows.

        Raises:
            TokenError: as for :meth:`verify_registry_refresh`.
        """
        claims = self._registry_claims(token, "access_token")
        return [
            RegistryAccess(kind=one["type"], name=one["name"], actions=frozenset(one["actions"]))
            for one in claims["access"]
        ]

    @property
    def registry_admin(self) -> tuple[str, str]:
        """The registry's admin user: its name, and a password derived from the secret."""
        password = _base64(hmac.new(self._key, b"registry admin", hashlib.sha256).digest())
        return self._identity.registry_name, password

    def is_registry_admin(self, user: str, password: str) -> bool:
        """Return whether these are the admin user's credentials."""
        known = self.registry_admin
        return user == known[0] and hmac.compare_digest(password.encode(), known[1].encode())

    def _registry_claims(self, token: str, kind: str) -> dict[str, Any]:
        claims = self._claims(token)
        if claims.get("aud") != self._identity.login_server or claims.get("grant_type") != kind:
            raise TokenError("InvalidAuthenticationToken", f"It is no {kind} of this registry.")
        return claims

    def _verify(self, token: str, audiences: frozenset[str]) -> Principal:
        claims = self._claims(token)
        audience = str(claims.get("aud", "")).rstrip("/")
        if audience not in audiences:
            raise TokenError(
                "InvalidAuthenticationTokenAudience",
                f"The access token has been obtained for wrong audience or resource '{audience}'.",
            )
        run_id = claims.get("run_id")
        place = claims.get("workspace_id")
        return Principal(
            object_id=str(claims.get("oid", "")),
            run_id=None if run_id is None else str(run_id),
            workspace_id=None if place is None else str(place),
        )

    def _claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token of ours that has not expired."""
        head, _, signature = token.rpartition(".")
        header, claims = decode_token(token)
        if header.get("alg") != "HS256" or not hmac.compare_digest(self._signature(head), signature):
            raise TokenError("InvalidAuthenticationToken", "The access token was not signed by this service.")
        if float(claims.get("exp", 0)) <= self._clock():
            raise TokenError("ExpiredAuthenticationToken", "The access token expiry is in the past.")
        if claims.get("tid") != self._identity.tenant_id:
            raise TokenError("InvalidAuthenticationTokenTenant", "The access token is from the wrong tenant.")
        return claims

    def check_assertion(self, token: str) -> None:
        """Return if a federated client assertion is well formed and not expired.

        Whether it is trusted is another question: :mod:`aml_emulator.identity.federation`.

        Raises:
            TokenError: malformed, expired, or not valid yet.
        """
        _, claims = decode_token(token)
        now, expiry, start = self._clock(), claims.get("exp"), claims.get("nbf", 0)
        valid = isinstance(expiry, (int, float)) and isinstance(start, (int, float)) and start <= now < expiry
        if not valid:
            raise TokenError("invalid_client", "AADSTS700024: Client assertion is not within its valid time range.")

    def _sign(self, *, audience: str, seconds: int, extra: Mapping[str, Any]) -> str:
        identity, now = self._identity, int(self._clock())
        claims = {
            "aud": audience.rstrip("/"),
            "iss": f"https://sts.windows.net/{identity.tenant_id}/",
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "appid": identity.client_id,
            "oid": identity.object_id,
            "sub": identity.object_id,
            "tid": identity.tenant_id,
            "idtyp": "app",
            "ver": "1.0",
            **extra,
        }
        return self._signed(claims)

    def _signed(self, claims: Mapping[str, Any]) -> str:
        head = f"{_encode({'alg': 'HS256', 'typ': 'JWT'})}.{_encode(claims)}"
        return f"{head}.{self._signature(head)}"

    def _signature(self, head: str) -> str:
        return _base64(hmac.new(self._key, head.encode("utf-8"), hashlib.sha256).digest())


def decode_token(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a JWT, unchecked.

    Raises:
        TokenError: not three parts of base64url, the first two JSON objects.
    """
    parts = token.split(".")
    try:
        header, claims = (json.loads(unbase64(part)) for part in parts[:2])
        unbase64(parts[2])
    except (ValueError, IndexError, RecursionError) as error:
        raise TokenError("InvalidAuthenticationToken", "The access token is not a JSON Web Token.") from error
    if len(parts) != 3 or not isinstance(header, dict) or not isinstance(claims, dict):
        raise TokenError("InvalidAuthenticationToken", "The access token is not a JSON Web Token.")
    return header, claims


def _encode(value: Mapping[str, Any]) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode("utf-8"))


def _base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def unbase64(value: str) -> bytes:
    """Return what base64url without padding stands for.

    Raises:
        ValueError: it is none.
    """
    return base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
