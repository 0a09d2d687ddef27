"""Signing in to an Azure Container Registry: a token of Entra ID for a refresh token of the registry.

Source: https://github.com/Azure/acr/blob/main/docs/AAD-OAuth.md. Everything stays in memory: nothing is written to Docker's
configuration or given to a command line.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import requests

from aml_train.core.errors import ServiceError
from aml_train.core.http_client import answer_of, exchange
from aml_train.image import RegistryAuth

TOKEN_USER: Final = "00000000-0000-0000-0000-000000000000"  # noqa: S105 - a user's name
"""Who signs in to a registry with a refresh token as the password."""

_RENEW_AFTER: Final = 300.0
_TIMEOUT: Final = (10.0, 30.0)
_ATTEMPTS: Final = 4


class AcrLogin:
    """Gives credentials of one registry that are at most five minutes old. Registries keep them valid for three hours.

    Args:
        host: the login server, such as ``myregistry.azurecr.io``.
        token: gives a token of Entra ID for registries.
        session: makes the requests.
        now, sleep: time in seconds; passed in so that tests need not wait.
        fetched: is told each token that the registry gives, also those that are fetched with these credentials.
    """

    def __init__(
        self,
        host: str,
        token: Callable[[], str],
        *,
        session: requests.Session,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        fetched: Callable[[str], object] = lambda _token: None,
    ) -> None:
        self._host = host
        self._token = token
        self._session = session
        self._now = now
        self._sleep = sleep
        self._fetched = fetched
        self._lock = threading.Lock()
        self._kept: tuple[float, RegistryAuth] | None = None

    def __call__(self) -> RegistryAuth:
        """Return credentials for registry client and engine.

        Raises:
            ServiceError: sign-in failed, the registry refuses the identity, or does not answer.
        """
        with self._lock:
            if self._kept is None or self._now() - self._kept[0] > _RENEW_AFTER:
                refresh = self._exchange(self._token())
                self._fetched(refresh)
                self._kept = (
                    self._now(),
                    RegistryAuth(
                        username=TOKEN_USER, password=refresh, identity_token=refresh, fetched=self._fetched
                    ),
                )
            return self._kept[1]

    def renew(self) -> None:
        """Forget the credentials: the registry refused them before their time."""
        with self._lock:
            self._kept = None

    def _exchange(self, token: str) -> str:
        form = {"grant_type": "access_token", "service": self._host, "access_token": token}
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._sleep(2.0**attempt)
            try:
                # A redirection would take the token elsewhere.
                address = f"https://{self._host}/oauth2/exchange"
                response = exchange(
                    self._session, "POST", address, data=form, timeout=_TIMEOUT, allow_redirects=False
                )
            except requests.RequestException as error:
                problem = f"does not answer: {type(error).__name__}"
                continue
            if response.status_code != 429 and response.status_code < 500:
                return self._refresh_token(response)
            problem = f"answered {response.status_code} to the sign-in"
        raise ServiceError(
            f"The registry {self._host} {problem}.",
            hint="Check the registry's name, the network, and HTTPS_PROXY and NO_PROXY.",
            transient=True,
        )

    def _refresh_token(self, response: requests.Response) -> str:
        if response.status_code != requests.codes.ok:
            raise ServiceError(
                f"The registry {self._host} refused the sign-in: it answered {response.status_code}.",
                hint=f"Check the registry's name; the identity needs the role AcrPush on {self._host}.",
            )

        def fail(problem: str) -> ServiceError:
            return ServiceError(
                f"What answers as {self._host} is no Azure Container Registry: it gave no token, and its answer {problem}."
            )

        return answer_of(response, fail, fail).text("refresh_token")
