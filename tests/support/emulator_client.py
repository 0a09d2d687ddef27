"""Clients of the local AzureML's REST interface: through its proxy, signed in as its own application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests

MANAGEMENT = "https://management.azure.com"
VERSION = "api-version=2024-01-01-preview"
TERMINAL = ("Completed", "Failed", "Canceled")
EXPIRED = 401
"""The status for an access token that is an hour old."""
SECONDS = 120.0
"""For an answer. Only what hangs takes so long, even on a machine under load."""


def session_for(environment: Mapping[str, str]) -> requests.Session:
    """Return a session that goes where *environment* says, and trusts whom it trusts; the caller closes it."""
    session = requests.Session()
    session.trust_env = False
    session.proxies = {"https": environment["HTTPS_PROXY"], "http": environment["HTTPS_PROXY"]}
    session.verify = environment["REQUESTS_CA_BUNDLE"]
    return session


def token(
    session: requests.Session, environment: Mapping[str, str], *, audience: str = MANAGEMENT, seconds: float = SECONDS
) -> str:
    """Sign in with the secret that *environment* holds; return the access token."""
    form = {
        "grant_type": "client_credentials",
        "client_id": environment["AZURE_CLIENT_ID"],
        "client_secret": environment["AZURE_CLIENT_SECRET"],
        "scope": f"{audience}/.default",
    }
    address = f"https://login.microsoftonline.com/{environment['AZURE_TENANT_ID']}/oauth2/v2.0/token"
    answer = session.post(address, data=form, timeout=seconds)
    answer.raise_for_status()
    return str(answer.json()["access_token"])


def signed_in(environment: Mapping[str, str]) -> requests.Session:
    """Return a session of Azure Resource Manager, as :func:`session_for` and :func:`token` have it."""
    session = session_for(environment)
    session.headers["Authorization"] = f"Bearer {token(session, environment)}"
    return session


class LostError(Exception):
    """No answer: the connection broke, or could not be made."""


class Client:
    """One client with a connection of its own; it signs in as often as it must.

    Args:
        emulator: whose ports and identity stay as they are over restarts.
        environment: what a client is told.
        info: the emulator's names.
    """

    def __init__(self, environment: Mapping[str, str], info: Mapping[str, Any]) -> None:
        self._environment = environment
        self._session = session_for(environment)
        group = f"/subscriptions/{info['subscription_id']}/resourceGroups/{info['resource_group']}"
        self.scope = f"{group}/providers/Microsoft.MachineLearningServices/workspaces/{info['workspace']}"
        self.api = f"https://{info['api_host']}"

    def ask(self, method: str, url: str, **given: Any) -> requests.Response:
        """Return the answer; raises LostError where there is none."""
        try:
            if "Authorization" in self._session.headers:
                answer = self._session.request(method, url, timeout=SECONDS, **given)
                if answer.status_code != EXPIRED:
                    return answer
            signed = token(self._session, self._environment, seconds=SECONDS)
            self._session.headers["Authorization"] = f"Bearer {signed}"
            return self._session.request(method, url, timeout=SECONDS, **given)
        except (requests.exceptions.RequestException, OSError) as error:
            raise LostError(repr(error)) from error

    def blob(self, method: str, url: str, **given: Any) -> requests.Response:
        """Ask Blob storage, which takes the signed address and no token."""
        try:
            return self._session.request(
                method, url, timeout=SECONDS, headers={"Authorization": None, **given.pop("headers", {})}, **given
            )
        except (requests.exceptions.RequestException, OSError) as error:
            raise LostError(repr(error)) from error

    def arm(self, path: str) -> str:
        """Return the address of something in the workspace."""
        return f"{MANAGEMENT}{self.scope}/{path}?{VERSION}"

    def mlflow(self, path: str) -> str:
        """Return the address of an operation of MLflow's."""
        return f"{self.api}/mlflow/v2.0{self.scope}/api/2.0/mlflow/{path}"

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
