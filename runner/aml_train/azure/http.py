"""Bounded REST requests to an AzureML workspace, quick to import, with our errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import quote

import requests

from aml_train.azure.clouds import AZURE_PUBLIC, KEYS, Cloud, Service, address_of
from aml_train.azure.names import WorkspaceId
from aml_train.azure.sign_in import SignIn
from aml_train.core import retry as retries
from aml_train.core.answers import (
    MOST_PAGES,
    REACH,
    Answer,
    Pages,
    UndecodableError,
    clean,
    decode,
    is_within,
    trace_of,
)
from aml_train.core.errors import ServiceError
from aml_train.core.http_client import Session, TooLargeError, answer_of, exchange, host_of

_API: Final = "2024-10-01-preview"
JOBS_API: Final = "2024-01-01-preview"
TIMEOUT: Final = (10.0, 60.0)
"""Seconds for connecting, and between two pieces of an answer."""
#: A workflow that is cancelled has ten seconds, all in all: https://docs.github.com/actions/reference/workflows-and-actions/workflow-cancellation
_URGENT: Final = (3.0, 5.0)
_LONGEST_MESSAGE: Final = 2000
_Found = TypeVar("_Found")


def refusal_of(response: requests.Response) -> tuple[str, str]:
    """Return the service's code and explanation: those of ``error``, or MLflow's own.

    The code is empty without one.
    """
    try:
        body = decode(response.content)
    except UndecodableError:
        return "", response.text[:300].strip() or str(response.reason or "no reason given")
    body = body if isinstance(body, dict) else {}
    error = body.get("error")
    for one in (error if isinstance(error, dict) else {}, body):
        if isinstance(one.get("message"), str) and one["message"]:
            code = one.get("code")
            return code if isinstance(code, str) else "", clean(one["message"])[:_LONGEST_MESSAGE]
    return "", response.text[:300]


#: Status of a refusal → the remedy, for every sender.
HINTS: Final[Mapping[int, str]] = {
    401: "Sign-in was refused: check AZURE_CLIENT_ID and AZURE_TENANT_ID (az login --tenant), and that the credential has not expired.",
    403: "The identity needs the role 'AzureML Data Scientist' on the workspace.",
    404: "Check the subscription, the resource group and the workspace's name.",
    501: "The local AzureML does not do this: see docs/emulator.md.",
}


def error_for(response: requests.Response, what: str) -> ServiceError:
    """Return the error for a refusal, without the query, which may be signed."""
    asked = retries.retry_after(response.headers)
    wait = "" if asked is None else f"; it asks to wait {asked:.0f} seconds"
    message = (
        f"{what}: AzureML answered {response.status_code} to {_place(response)}: {refusal_of(response)[1]}{wait}"
    )
    return ServiceError(
        f"{message} ({trace_of(response.headers)})",
        hint=HINTS.get(response.status_code),
        transient=response.status_code in retries.TRANSIENT_STATUS,
        retry_after=asked,
    )


def _place(response: requests.Response) -> str:
    path = str(response.url).partition("?")[0].partition("://")[2].partition("/")[2]
    return f"{response.request.method} {host_of(response.url)}/{path}"


def wrong_answer(response: requests.Response, what: str, *, transient: bool = False) -> Callable[[str], ServiceError]:
    """Return what makes the error of an answer that succeeded, and cannot be used.

    Args:
        response: the answer.
        what: for messages.
        transient: whether another answer may come to the same request: a proxy's page may, another type of a value does not.
    """

    def fail(problem: str) -> ServiceError:
        return ServiceError(
            f"{what}: the answer {response.status_code} to {_place(response)} {problem} ({trace_of(response.headers)})",
            hint="If a proxy answers instead of Azure, correct HTTPS_PROXY and NO_PROXY; else report it to Azure's support.",
            transient=transient,
        )

    return fail


def read_answer(response: requests.Response, what: str) -> Answer:
    """Return the JSON of an answer.

    Raises:
        ServiceError: it is no success, or no JSON.
    """
    if not response.ok:
        raise error_for(response, what)
    fail = wrong_answer(response, what)
    return answer_of(response, fail, wrong_answer(response, what, transient=True))


class AzureHttp:
    """Sends requests to Azure Resource Manager and the services of a region.

    Args:
        workspace: where.
        credential: signs in; its tokens are kept and renewed by azure-identity.
        cloud: the cloud that the workspace is in.
        session: sends the requests; one that does as the environment says by default.
        attempts: how often a request is sent at most.
    """

    def __init__(
        self,
        workspace: WorkspaceId,
        credential: SignIn,
        cloud: Cloud = AZURE_PUBLIC,
        *,
        session: requests.Session | None = None,
        attempts: int = retries.ATTEMPTS,
    ) -> None:
        self.workspace = workspace
        self.cloud = cloud
        self.credential = credential
        self.session = session or Session()
        self._attempts = attempts
        self._resource: Answer | None = None
        self._location = ""
        self._hosts: Mapping[str, object] | None = None

    def call(
        self,
        method: str,
        url: str,
        what: str,
        use: Callable[[requests.Response], _Found],
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        attempts: int | None = None,
    ) -> _Found:
        """Send one request, again after a transient failure; return what *use* makes of any other answer.

        A refused token is replaced once: this machine's clock may have taken it for valid for too long. Signing in is not
        repeated here, for it has separate retries.

        Args:
            use: may raise a transient error, after which the request is sent again.
            attempts: how often it is sent at most; see :mod:`aml_train.core.retry`.

        Raises:
            ServiceError: if there is no answer, or the answers stay transient failures.
        """
        for last in (False, True):
            token = self._token()
            for attempt in retries.repeated(attempts or self._attempts):
                with attempt:
                    response = self._send(method, url, what, params, body, token)
                    if response.status_code in retries.TRANSIENT_STATUS:
                        raise error_for(response, what)
                    if response.status_code != requests.codes.unauthorized or last:
                        return use(response)
            self.credential.forget()
        raise AssertionError("the last attempt returns or raises")

    def ask(
        self,
        method: str,
        url: str,
        what: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        attempts: int | None = None,
    ) -> Answer | None:
        """Send one request as :meth:`call` does, and return its JSON; None for 404.

        A body that is no JSON is requested again: proxies answer with separate pages while they fail.

        Raises:
            ServiceError: for any other answer that is not a success.
        """

        def use(response: requests.Response) -> Answer | None:
            return None if response.status_code == requests.codes.not_found else read_answer(response, what)

        return self.call(method, url, what, use, params=params, body=body, attempts=attempts)

    def need(
        self, method: str, url: str, what: str, *, params: Mapping[str, str] | None = None, body: object = None
    ) -> Answer:
        """Send one request as :meth:`ask` does; 404 is an error as well."""
        return self.call(method, url, what, lambda response: read_answer(response, what), params=params, body=body)

    def _token(self) -> str:
        return self.credential.token(self.cloud.scope)

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
            return exchange(self.session, method, url, params=params, json=body, headers=headers, timeout=timeout)
        except TooLargeError as error:
            raise ServiceError(f"{what}: {host_of(url)} sends {error}.") from error
        except requests.RequestException as error:
            why = f"{what}: {host_of(url)} does not answer: {type(error).__name__}"
            raise ServiceError(why, hint=REACH, transient=True) from error

    def once(
        self, method: str, url: str, what: str, *, params: Mapping[str, str] | None = None, body: object = None
    ) -> requests.Response:
        """Send one request with short time-outs, again after a refused token; any answer.

        Raises:
            ServiceError: if there is no answer.
        """
        response = self._send(method, url, what, params, body, self._token(), timeout=_URGENT)
        if response.status_code == requests.codes.unauthorized:
            self.credential.forget()
            response = self._send(method, url, what, params, body, self._token(), timeout=_URGENT)
        return response

    def read(
        self, url: str, what: str, *, params: Mapping[str, str] | None = None, attempts: int | None = None
    ) -> Answer | None:
        """GET *url* and return its JSON; None for 404.

        Raises:
            ServiceError: for any other answer that is not a success.
        """
        return self.ask("GET", url, what, params=params, attempts=attempts)

    def items(
        self,
        url: str,
        what: str,
        *,
        params: Mapping[str, str],
        most_pages: int | None = None,
        required: bool = False,
    ) -> Iterator[Answer]:
        """Yield the items of a list, page by page; none if the list does not exist.

        The next page is looked for at the same host alone: our token goes there.

        Args:
            most_pages: no more pages are read than these; None for all, of which there are at most :data:`MOST_PAGES`.
            required: a list that does not exist, or a page of it, is an error.

        Raises:
            ServiceError: for an answer that is neither a page nor 404, and for pages that do not end.
        """
        found = self.read(url, what, params=params)
        pages = Pages(found.fail, MOST_PAGES) if found is not None else None
        read = 1
        while found is not None and pages is not None:
            yield from found.each("value")
            link = found.optional_text("nextLink")
            if not link or (most_pages is not None and read >= most_pages):
                return
            if not is_within(link, url):
                raise found.fail("names a next page that is not at the same host")
            # The link holds the query.
            found = self.read(pages.follow(link), what)
            read += 1
        if found is None and required:
            raise ServiceError(f"{what}: the service answered 404.", hint="Is it the right workspace?")

    def arm(self, path: str) -> str:
        """Return the address of *path* below the workspace in Azure Resource Manager."""
        return f"{self.cloud.arm}{self.workspace.path}{path}"

    def find_job(self, name: str) -> Answer | None:
        """Return the resource of the job *name*, or None."""
        what = f"Looking for the job {name}"
        return self.read(self.arm(f"/jobs/{quote(name)}"), what, params={"api-version": JOBS_API})

    def find_compute(self, name: str) -> Answer | None:
        """Return the resource of the compute *name*, or None."""
        what = f"Looking for the compute {name}"
        return self.read(self.arm(f"/computes/{quote(name)}"), what, params={"api-version": _API})

    def vm_sizes(self) -> Sequence[Answer]:
        """Return the VM sizes of the workspace's region; none if they are not listed."""
        address = (
            f"{self.cloud.arm}/subscriptions/{self.workspace.subscription_id}/providers/Microsoft.MachineLearningServices"
            f"/locations/{self.location()}/vmSizes"
        )
        known = self.read(address, "Listing the sizes", params={"api-version": _API})
        return list(known.each("value")) if known is not None else []

    def describe(self) -> Answer:
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
            self._resource = found.at("properties")
            self._location = found.optional_text("location") or ""
        return self._resource

    def location(self) -> str:
        """Return the workspace's region, or an empty text; raises as :meth:`describe`."""
        self.describe()
        return self._location

    def _data_plane(self, service: Service) -> str:
        """Return the address of a service of the workspace's region."""
        properties = self.describe()
        address = address_of(service, self._services(), properties.at("mlFlowTrackingUri").value)
        if address is None:
            raise ServiceError(
                f"The workspace {self.workspace.name} names no host for {service}.",
                hint="Its discoveryUrl and mlFlowTrackingUri say nothing of it: az ml workspace show.",
            )
        return address

    def _services(self) -> Mapping[str, object]:
        """Return the hosts of the region's services; asked once."""
        if self._hosts is None:
            url = self.describe().optional_text("discoveryUrl")
            found = self.read(url, "Asking for the region's services") if url else None
            self._hosts = {} if found is None else {key: found.at(key).value for key in KEYS}
        return self._hosts

    def history(self, path: str) -> str:
        """Return the address of *path* below the workspace in run history."""
        return f"{self._data_plane('history')}/history/v1.0{self.workspace.path}{path}"

    def content(self, path: str) -> str:
        """Return the address of *path* below the workspace in the service of snapshots."""
        return f"{self._data_plane('history')}/content/v2.0{self.workspace.path}{path}"

    def data_assets(self, path: str) -> str:
        """Return the address of *path* in the service of data assets."""
        return f"{self._data_plane('history')}/data/v1.0{self.workspace.path}{path}"

    def environments(self, path: str, version: str = "v1.0") -> str:
        """Return the address of *path* below the workspace in the environment service."""
        return f"{self._data_plane('history')}/environment/{version}{self.workspace.path}{path}"

    def mlflow(self, path: str) -> str:
        """Return the address of *path* in the interface of MLflow."""
        return f"{self._data_plane('mlflow')}/mlflow/v2.0{self.workspace.path}/api/2.0/mlflow{path}"

    def metrics(self, path: str) -> str:
        """Return the address of *path* in the metrics of run history."""
        return f"{self._data_plane('history')}/metric/v2.0{self.workspace.path}{path}"

    def artifacts(self, path: str) -> str:
        """Return the address of *path* in the artifact service, at run history's host."""
        return f"{self._data_plane('history')}/artifact/v2.0{self.workspace.path}/artifacts{path}"
