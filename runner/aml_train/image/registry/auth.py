"""Signing in to a registry: the answer to its ``WWW-Authenticate`` challenge.

Bearer tokens as in the distribution project's token authentication; credentials may be a user's, or Azure Container Registry's
refresh token as the password of the user ``00000000-0000-0000-0000-000000000000``.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

import requests

from aml_train.core.answers import split
from aml_train.core.errors import ImageError
from aml_train.core.http_client import answer_of, exchange

_TOKEN_SECONDS: Final = 60.0
"""The shortest validity of a token, and its validity if its answer does not name one
(https://distribution.github.io/distribution/spec/auth/token/)."""

#: Possessive, and begun at the edge of a word alone: the time grows with the length of the header, not with its square.
_PARAMETER: Final = re.compile(r'\b(\w++)="([^"]*+)"')
_TOKEN: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, kw_only=True)
class RegistryAuth:
    """Credentials of a registry.

    *identity_token* is what ``docker login`` keeps of an OAuth 2 sign-in, instead of a password.

    *fetched* receives each token that is fetched for them, so that it can be hidden.
    """

    username: str
    password: str = field(default="", repr=False)
    identity_token: str | None = field(default=None, repr=False)
    fetched: Callable[[str], object] = field(default=lambda _token: None, repr=False, compare=False)

    @property
    def basic(self) -> str:
        """The header of basic authentication."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


Login = Callable[[], RegistryAuth | None]
"""Gives the credentials of the moment: what a cloud issues lasts for hours, and a build may take longer."""


@runtime_checkable
class RenewableLogin(Protocol):
    """A :data:`Login` that accepts the refusal of its credentials."""

    def __call__(self) -> RegistryAuth | None:
        """Return the credentials of the moment."""

    def renew(self) -> None:
        """Forget the credentials: the next call fetches them again."""


def renew(auth: RegistryAuth | Login | None) -> bool:
    """Have *auth* fetch refused credentials again; False if it has no others."""
    if isinstance(auth, RenewableLogin):
        auth.renew()
        return True
    return False


class BusyError(Exception):
    """An answer worth asking for again: 429, 5xx."""

    def __init__(self, response: requests.Response) -> None:
        super().__init__(f"HTTP {response.status_code}")
        self.response = response


def sign_in_hint(host: str) -> str:
    """Return what to do where the registry *host* refuses."""
    if is_acr(host):
        return f"The identity needs the role AcrPush on {host} (AcrPull to read only)."
    return f"Sign in (docker login {host}), or ask for the right to pull from and push to it."


def is_acr(host: str) -> bool:
    """Return whether *host* is an Azure Container Registry, by its domain."""
    return host.lower().endswith((".azurecr.io", ".azurecr.us", ".azurecr.cn"))


def is_loopback(host: str) -> bool:
    """Return whether *host* can only be this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_challenge(text: str) -> tuple[str, dict[str, str]]:
    """Split ``Bearer realm="…",service="…"`` into its scheme and parameters."""
    scheme, _, rest = text.strip().partition(" ")
    return scheme.lower(), dict(_PARAMETER.findall(rest))


class Authenticator:
    """Answers challenges of one registry and caches the tokens by their scopes.

    Args:
        session: makes the requests.
        host: the registry's name, for errors.
        auth: credentials, or what gives those of the moment.
        now: time in seconds; passed in so that tests need not wait.
    """

    def __init__(
        self,
        session: requests.Session,
        host: str,
        auth: RegistryAuth | Login | None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._host = host
        self._auth = auth
        self._login: Login = auth if callable(auth) else lambda: auth
        self._now = now
        self._tokens: dict[tuple[str, ...], tuple[str, float]] = {}
        self._basic = False

    def header(self, scopes: Sequence[str]) -> str | None:
        """Return the Authorization header to begin with, or None."""
        auth = self._login() if self._basic else None
        if auth is not None:
            return auth.basic
        token, until = self._tokens.get(tuple(scopes), ("", 0.0))
        return f"Bearer {token}" if self._now() < until else None

    def answer(self, challenge: str, scopes: Sequence[str], tried: str | None) -> str | None:
        """Return the header for the answer to *challenge*, or None after the last attempt.

        Raises:
            BusyError: the token service has too much to do.
            ImageError: if the token service refuses the credentials or cannot be trusted.
        """
        scheme, parameters = parse_challenge(challenge)
        if scheme == "basic":
            auth = self._login()
            if auth is not None and tried == auth.basic and renew(self._auth):
                auth = self._login()
            if auth is None or tried == auth.basic:
                return None
            self._basic = True
            return auth.basic
        if scheme != "bearer":
            return None
        token, seconds = self._token(parameters, scopes)
        header = f"Bearer {token}"
        if header == tried:
            return None
        self._tokens[tuple(scopes)] = token, self._now() + seconds
        return header

    def _token(self, parameters: dict[str, str], scopes: Sequence[str]) -> tuple[str, float]:
        """Return a token and the seconds that it is good for."""
        realm = parameters.get("realm", "")
        parts = split(realm)
        if parts is None or (
            parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or ""))
        ):
            raise ImageError(
                f"the registry {self._host} sends its visitors to {realm!r} to sign in, which is not https"
            )
        auth = self._login()
        response = self._ask(realm, parameters.get("service", ""), scopes, auth)
        if response.status_code in (401, 403) and renew(self._auth):
            auth = self._login()
            response = self._ask(realm, parameters.get("service", ""), scopes, auth)
        if response.status_code == 429 or response.status_code >= 500:
            raise BusyError(response)
        if response.status_code != 200:
            who = f"as {auth.username}" if auth is not None else "anonymously"
            raise ImageError(
                f"the registry {self._host} refused to sign in {who}: HTTP {response.status_code}",
                hint=sign_in_hint(self._host),
            )
        token, seconds = self._read(response)
        if auth is not None:
            auth.fetched(token)
        # No registry's token lasts longer than a day, whatever its answer says; five seconds are for the way.
        return token, min(max(seconds, _TOKEN_SECONDS), 24 * 3600.0) - 5.0

    def _read(self, response: requests.Response) -> tuple[str, float]:
        def fail(problem: str) -> ImageError:
            return ImageError(f"the registry {self._host} gave no token when signing in: the answer {problem}")

        document = answer_of(response, fail, fail)
        token = document.optional_text("token") or document.text("access_token")
        if not _TOKEN.fullmatch(token):
            raise fail("has one with characters that no token has")
        return token, document.number("expires_in") if document.has("expires_in") else _TOKEN_SECONDS

    def _ask(self, realm: str, service: str, scopes: Sequence[str], auth: RegistryAuth | None) -> requests.Response:
        if auth is not None and auth.identity_token:
            form = {
                "grant_type": "refresh_token",
                "service": service,
                "client_id": "aml-train",
                "scope": " ".join(scopes),
                "refresh_token": auth.identity_token,
            }
            # A redirection would take the credentials elsewhere.
            return exchange(self._session, "POST", realm, data=form, timeout=30, allow_redirects=False)
        query = [("service", service), *(("scope", scope) for scope in scopes)]
        headers = {"Authorization": auth.basic} if auth is not None else {}
        return exchange(self._session, "GET", realm, params=query, headers=headers, timeout=30)
