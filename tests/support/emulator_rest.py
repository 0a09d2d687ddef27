"""Asking the local AzureML over REST, as tests of the service itself do: through its proxy, signed in as its own application."""

from __future__ import annotations

from collections.abc import Mapping

import requests

MANAGEMENT = "https://management.azure.com"
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
