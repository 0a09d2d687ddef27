"""GitHub's OIDC tokens, with which a workflow signs in to Azure without a secret.

Source: https://docs.github.com/actions/reference/security/oidc (``ACTIONS_ID_TOKEN_REQUEST_URL`` and ``…_TOKEN``, which the
runner sets for jobs with ``permissions: id-token: write``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import requests

from aml_train.core import retry as retries
from aml_train.core.errors import ServiceError
from aml_train.core.http_client import Session, answer_of, exchange

_URL: Final = "ACTIONS_ID_TOKEN_REQUEST_URL"
_TOKEN: Final = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"  # noqa: S105 - a variable's name
_ATTEMPTS: Final = 3
_TIMEOUT: Final = (10.0, 30.0)
_PERMISSIONS: Final = """\
Add to the job, or to the whole workflow:
permissions:
  id-token: write
  contents: read
Pull requests from forks never get such a token. docs/azure.md has the set-up in Azure."""
_OUTAGE: Final = (
    "Run again; https://www.githubstatus.com reports outages. The job needs `permissions: id-token: write`."
)


def github_assertion(
    environ: Mapping[str, str],
    *,
    session: requests.Session | None = None,
    fetched: Callable[[str], object] = lambda _token: None,
) -> Callable[[str], str] | None:
    """Return a function that fetches a token for an audience; None outside GitHub.

    Args:
        environ: the step's environment.
        session: makes the requests; one that takes proxies and certificates from the process's environment by default.
        fetched: receives each token, so that it can be masked.
    """
    if not environ.get(_URL):
        if environ.get("GITHUB_ACTIONS") != "true" or environ.get("AZURE_FEDERATED_TOKEN_FILE"):
            return None
        return _not_allowed

    def fetch(audience: str) -> str:
        token = _fetch(environ, audience, session or Session())
        fetched(token)
        return token

    return fetch


def _not_allowed(_audience: str) -> str:
    raise ServiceError(
        "Cannot sign in to Azure with the OIDC token of the workflow: GitHub does not let this job have one.",
        hint=_PERMISSIONS,
    )


def _fetch(environ: Mapping[str, str], audience: str, session: requests.Session) -> str:
    """Request a token; neither it nor the request's token gets into an error."""
    what = "Cannot sign in to Azure: GitHub's OIDC service"
    headers = {"Authorization": f"Bearer {environ.get(_TOKEN, '')}", "Accept": "application/json"}
    address, query = environ[_URL], {"audience": audience}
    for attempt in retries.repeated(_ATTEMPTS):
        with attempt:
            try:
                response = exchange(session, "GET", address, params=query, headers=headers, timeout=_TIMEOUT)
            except requests.RequestException as error:
                why = f"{what} does not answer ({type(error).__name__})."
                raise ServiceError(why, hint=_OUTAGE, transient=True) from error
            if response.status_code != requests.codes.ok:
                transient = response.status_code in retries.TRANSIENT_STATUS
                hint = _OUTAGE if transient else _PERMISSIONS
                raise ServiceError(f"{what} answered {response.status_code}.", hint=hint, transient=transient)
    return _token_in(response, what)


def _token_in(response: requests.Response, what: str) -> str:
    def fail(problem: str) -> ServiceError:
        return ServiceError(f"{what} gave no token: its answer {problem}.", hint=_OUTAGE, transient=True)

    return answer_of(response, fail, fail).text("value")
