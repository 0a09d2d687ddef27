"""The sign-in to the local AzureML: the client credentials grant of Entra ID.

azure-identity sends the same request, and importing it takes a quarter of a run in which nothing changed. The local AzureML
has one tenant with one service principal, so that no part of a choice, a discovery or an authority is missing here.
https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import requests

from aml_train.azure.credentials import KeptTokens
from aml_train.azure.http import read_answer
from aml_train.azure.sign_in import Fetched, SignIn
from aml_train.core import retry as retries
from aml_train.core.errors import ServiceError
from aml_train.core.http_client import exchange

_AUTHORITY: Final = "https://login.microsoftonline.com"
_WHAT: Final = "signing in to the local AzureML"
_HINT: Final = "Check that it runs: aml-train emulator status."
#: Seconds for connecting, and between two pieces of the answer.
_TIMEOUT: Final = (5.0, 30.0)


class Token(NamedTuple):
    """A token, as Azure's SDKs read it from a credential."""

    token: str
    expires_on: int


class ClientSecret:
    """A credential for Azure's SDKs: a tenant, a client and its secret.

    Args:
        variables: has the three, under the names that azure-identity reads.
        session: sends the requests.
        now: seconds since the epoch.
    """

    def __init__(
        self, variables: Mapping[str, str], session: requests.Session, *, now: Callable[[], float] = time.time
    ) -> None:
        self._url = f"{_AUTHORITY}/{variables['AZURE_TENANT_ID']}/oauth2/v2.0/token"
        self._form = {
            "grant_type": "client_credentials",
            "client_id": variables["AZURE_CLIENT_ID"],
            "client_secret": variables["AZURE_CLIENT_SECRET"],
        }
        self._session = session
        self._now = now

    def get_token(self, *scopes: str, **_options: Any) -> Token:
        """Return a new token for *scopes*.

        Raises:
            ServiceError: the sign-in was refused, or was not answered several times.
        """
        for attempt in retries.repeated():
            with attempt:
                asked = self._now()
                answer = read_answer(self._send(" ".join(scopes)), _WHAT)
                return Token(answer.text("access_token"), int(asked) + (answer.whole("expires_in") or 0))
        raise AssertionError("unreachable")  # pragma: no cover - the last attempt returns or raises

    def _send(self, scope: str) -> requests.Response:
        try:
            form = {**self._form, "scope": scope}
            return exchange(self._session, "POST", self._url, data=form, timeout=_TIMEOUT)
        except requests.RequestException as error:
            raise ServiceError(f"{_WHAT}: no answer: {type(error).__name__}", hint=_HINT, transient=True) from error


def sign_in_to_local(
    variables: Mapping[str, str], session: requests.Session, fetched: Fetched = lambda _token: None
) -> SignIn:
    """Return the sign-in to the local AzureML.

    Args:
        variables: those of :func:`aml_train.local.environment.client_environment`.
        session: sends the requests.
        fetched: receives each token, and the secrets of jobs that are read.
    """

    def make() -> Any:  # by structure a TokenCredential, which only the room of Azure imports
        credential: Any = ClientSecret(variables, session)
        return KeptTokens(credential)

    return SignIn(make(), way="secret", again=make, fetched=fetched, client=variables["AZURE_CLIENT_ID"])
