"""Requests to an AzureML workspace over plain REST: quick to import, bounded in time, with errors of our own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

import requests

from aml_train import retries
from aml_train.clouds import AZURE_PUBLIC, Cloud
from aml_train.credentials.azure import SignIn
from aml_train.errors import ServiceError

_API: Final = "2024-10-01-preview"
TIMEOUT: Final = (10.0, 60.0)
"""Seconds for connecting, and between two pieces of an answer."""
#: A workflow that is cancelled has ten seconds, all in all: https://docs.github.com/actions/reference/workflows-and-actions/workflow-cancellation
_URGENT: Final = (3.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A workspace's name in Azure Resource Manager."""

    subscription_id: str
    resource_group: str
    name: str

    @property
    def path(self) -> str:
        """The workspace's resource id."""
        return (
            f"/subscriptions/{quote(self.subscription_id)}/resourceGroups/{quote(self.resource_group)}"
            f"/providers/Microsoft.MachineLearningServices/workspaces/{quote(self.name)}"
        )


def _message(response: requests.Response) -> str:
    """Return the service's explanation; AzureML puts it under ``error.message``, MLflow under ``message``."""
    try:
        body = response.json()
    except ValueError:
        return response.text[:300].strip() or response.reason
    if isinstance(body, dict):
        error = body.get("error")
        if isinstance(error, dict) and error.get("message"):
            return str(error["message"])
        if body.get("message"):
            return str(body["message"])
    return json.dumps(body)[:300]


#: Status of a refusal → the remedy, whoever sent the request.
HINTS: Final[Mapping[int, str]] = {
    401: "Sign-in was refused: check the client and tenant ids, and that the credential has not expired.",
    403: "The identity needs the role 'AzureML Data Scientist' on the workspace.",
    404: "Check the subscription, the resource group and the workspace's name.",
    501: "The local AzureML does not do this: see docs/emulator.md.",
}


def error_for(response: requests.Response, what: str) -> ServiceError:
    """Return the error for an answer that is not a success. Its query, which may carry a signature, is not shown."""
    address = urlsplit(response.url)
    place = f"{response.request.method} {address.netloc}{address.path}"
    message = f"{what}: AzureML answered {response.status_code} to {place}: {_message(response)}"
    return ServiceError(
        message,
        hint=HINTS.get(response.status_code),
        transient=response.status_code in retries.TRANSIENT_STATUS,
        retry_after=retries.retry_after(response.headers),
    )


def _check_whole(response: requests.Response, what: str) -> None:
    """Raise a transient ServiceError for JSON that was cut off.

    A body whose length is told is checked by urllib3; this is for one that ends with its connection, and for a proxy's own page.
    """
    length_told = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
    if length_told or not response.ok or "json" not in response.headers.get("Content-Type", ""):
        return
    try:
        response.json()
    except ValueError as error:
        host = urlsplit(response.url).netloc
        raise ServiceError(f"{what}: the answer of {host} broke off.", transient=True) from error


class AzureHttp:
    """Sends requests to a workspace: to Azure Resource Manager and to the services of its region.

    Args:
        workspace: where.
        credential: signs in; its tokens are kept and renewed by azure-identity.
        cloud: the cloud that the workspace is in.
        session: sends the requests; one that does as the environment says by default.
    """

    def __init__(
        self,
        workspace: Workspace,
        credential: SignIn,
        cloud: Cloud = AZURE_PUBLIC,
        *,
        session: requests.Session | None = None,
    ) -> None:
        self.workspace = workspace
        self.cloud = cloud
        self._credential = credential
        self.session = session or requests.Session()
        self._resource: Mapping[str, Any] | None = None
        self._location = ""
        self._hosts: Mapping[str, str] | None = None

    @property
    def credential(self) -> SignIn:
        """Who signs in."""
        return self._credential

    def call(
        self,
        method: str,
        url: str,
        what: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        attempts: int = retries.ATTEMPTS,
    ) -> requests.Response:
        """Send one request, again after a transient failure; any answer but a transient one is returned.

        A refused token is replaced once: this machine's clock may have taken it for valid for too long. Signing in is not
        repeated here, for it has retries of its own.

        Args:
            attempts: how often it is sent at most; see :mod:`aml_train.retries`.

        Raises:
            ServiceError: if nobody answers, or the answers stay transient failures.
        """
        response = self._answer(method, url, what, params, body, attempts)
        if response.status_code == requests.codes.unauthorized:
            self._credential.forget()
            response = self._answer(method, url, what, params, body, attempts)
        return response

    def _answer(
        self, method: str, url: str, what: str, params: Mapping[str, str] | None, body: object, attempts: int
    ) -> requests.Response:
        token = self._token()
        for attempt in retries.repeated(attempts):
            with attempt:
                response = self._send(method, url, what, params, body, token)
                if response.status_code in retries.TRANSIENT_STATUS:
                    raise error_for(response, what)
                _check_whole(response, what)
        return response

    def _token(self) -> str:
        return self._credential.token(self.cloud.scope)

    def _send(
        self,
        method: str,
        url: str,
        what: str,
        params: Mapping[str, str] | None,
        body: object,
        token: str,
        timeout: tuple[float, float] = TIMEOUT,
    ) -> requests.Response:
        headers = {"Authorization": f"Bearer {token}"}
        try:
            return self.session.request(method, url, params=params, json=body, headers=headers, timeout=timeout)
        except requests.RequestException as error:
            host = urlsplit(url).netloc
            raise ServiceError(f"{what}: {host} does not answer: {type(error).__name__}", transient=True) from error

    def once(
        self, method: str, url: str, what: str, *, params: Mapping[str, str] | None = None, body: object = None
    ) -> requests.Response:
        """Send one request with short time-outs, and once more only where the token was refused; return any answer.

        Raises:
            ServiceError: if nobody answers.
        """
        response = self._send(method, url, what, params, body, self._token(), timeout=_URGENT)
        if response.status_code == requests.codes.unauthorized:
            self._credential.forget()
            response = self._send(method, url, what, params, body, self._token(), timeout=_URGENT)
        return response

    def read(
        self, url: str, what: str, *, params: Mapping[str, str] | None = None, attempts: int = retries.ATTEMPTS
    ) -> Any:
        """GET *url* and return its JSON; None for 404.

        Args:
            attempts: see :meth:`call`.

        Raises:
            ServiceError: for any other answer that is not a success.
        """
        response = self.call("GET", url, what, params=params, attempts=attempts)
        if response.status_code == requests.codes.not_found:
            return None
        if not response.ok:
            raise error_for(response, what)
        return response.json()

    def items(
        self, url: str, what: str, *, params: Mapping[str, str], most_pages: int | None = None
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the items of a list of Azure Resource Manager, page by page; nothing where the list is not there.

        Args:
            most_pages: no more pages are read than these; None for all.

        Raises:
            ServiceError: for an answer that is neither a page nor 404.
        """
        address: str | None = url
        asked: Mapping[str, str] | None = params
        pages = 0
        while address and (most_pages is None or pages < most_pages):
            found = self.read(address, what, params=asked) or {}
            yield from found.get("value") or ()
            # The link to the next page holds the query.
            address, asked = found.get("nextLink"), None
            pages += 1

    def arm(self, path: str) -> str:
        """Return the address of *path* below the workspace in Azure Resource Manager."""
        return f"{self.cloud.arm}{self.workspace.path}{path}"

    def describe(self) -> Mapping[str, Any]:
        """Return the properties of the workspace's resource; asked once.

        Raises:
            ServiceError: there is no such workspace, or the identity may not see it.
        """
        if self._resource is None:
            what = f"Looking for the workspace {self.workspace.name}"
            found = self.read(self.arm(""), what, params={"api-version": _API})
            if found is None:
                raise ServiceError(
                    f"There is no workspace {self.workspace.name!r} in the resource group"
                    f" {self.workspace.resource_group!r} of the subscription {self.workspace.subscription_id},"
                    " or this identity may not see it.",
                    hint="Check subscription-id, resource-group and workspace of the target.",
                )
            self._resource = found["properties"]
            self._location = str(found.get("location") or "")
        return self._resource

    def location(self) -> str:
        """Return the workspace's region; empty where Azure does not say it. Raises what :meth:`describe` raises."""
        self.describe()
        return self._location

    def _data_plane(self, service: str) -> str:
        """Return the address of one of the region's services, by way of the workspace's discovery."""
        if self._hosts is None:
            hosts = self.read(self.describe()["discoveryUrl"], "Asking for the region's services")
            if not hosts:
                raise ServiceError(f"The workspace {self.workspace.name} names no services in its discovery.")
            self._hosts = hosts
        return self._hosts[service]

    def history(self, path: str) -> str:
        """Return the address of *path* below the workspace in run history."""
        return f"{self._data_plane('history')}/history/v1.0{self.workspace.path}{path}"

    def mlflow(self, path: str) -> str:
        """Return the address of *path* in the interface of MLflow."""
        return f"{self._data_plane('mlflow')}/mlflow/v2.0{self.workspace.path}/api/2.0/mlflow{path}"

    def metrics(self, path: str) -> str:
        """Return the address of *path* in run history's metrics, which azureml-core asks at the host of run history."""
        return f"{self._data_plane('history')}/metric/v2.0{self.workspace.path}{path}"
