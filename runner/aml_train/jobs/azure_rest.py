"""Reads of an AzureML workspace over plain REST: quick to import, bounded in time, with errors of our own.

The requests and the shapes of their answers are those of azure-ai-ml 1.34.1 and azureml-mlflow 1.62 (generated clients
``_restclient/*``, ``RunHistory``), as docs/emulator.md lists them.
"""

from __future__ import annotations

import datetime
import email.utils
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import quote, urlsplit

import requests

from aml_train import retries
from aml_train.clouds import AZURE_PUBLIC, Cloud
from aml_train.credentials.azure import SignIn
from aml_train.errors import ServiceError
from aml_train.gate.history import MetricPoint
from aml_train.jobs.logged import LoggedSet
from aml_train.jobs.service import JobView, LogBeganAnewError, ModelView, NodeKind, Placement
from aml_train.jobs.states import JobStatus, parse_status

_API: Final = {
    "workspace": "2024-10-01-preview",
    "computes": "2024-10-01-preview",
    "jobs": "2024-01-01-preview",
    "models": "2023-08-01-preview",
}
_TIMEOUT: Final = (10.0, 60.0)
#: A workflow that is cancelled has ten seconds, all in all: https://docs.github.com/actions/reference/workflows-and-actions/workflow-cancellation
_URGENT: Final = (3.0, 5.0)
_CHUNK: Final = 256 * 1024
_MOST_PAGES: Final = 10
_MOST_CODES: Final = 20


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


def _time(text: str | None) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text) if text else None


def _date(response: requests.Response) -> datetime.datetime | None:
    """Return when the service answered, by its own clock (RFC 9110, 6.6.1); None where it does not say."""
    try:
        return email.utils.parsedate_to_datetime(response.headers["Date"])
    except (KeyError, ValueError):
        return None


def _codes(error: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the code of an error of run history, and the codes of its inner errors."""
    codes: list[str] = []
    inner: Any = error
    while isinstance(inner, Mapping) and len(codes) < _MOST_CODES:
        if inner.get("code"):
            codes.append(str(inner["code"]))
        inner = inner.get("innerError")
    return tuple(codes)


def _job_view(name: str, properties: Mapping[str, Any]) -> JobView:
    """Read a job as Azure Resource Manager shows it."""
    studio = (properties.get("services") or {}).get("Studio") or {}
    inputs = {name: value for name, value in (properties.get("inputs") or {}).items() if isinstance(value, Mapping)}
    resources = properties.get("resources") or {}
    tier = str((properties.get("queueSettings") or {}).get("jobTier") or "")
    return JobView(
        name=name,
        status=parse_status(properties.get("status")),
        experiment=properties.get("experimentName"),
        studio_url=studio.get("endpoint"),
        tags=properties.get("tags") or {},
        inputs={name: str(value["uri"]) for name, value in inputs.items() if value.get("uri")},
        parameters={name: str(value["value"]) for name, value in inputs.items() if value.get("value") is not None},
        placement=Placement(
            compute=str(properties.get("computeId") or "").rpartition("/")[2] or None,
            nodes=int(resources.get("instanceCount") or 1),
            size=resources.get("instanceType"),
            spot=tier.lower() == "spot",
        ),
    )


def model_view(name: str, item: Mapping[str, Any]) -> ModelView:
    """Read one version of a model as Azure Resource Manager shows it."""
    properties = item["properties"]
    return ModelView(
        name=name,
        version=item["name"],
        path=properties.get("modelUri") or "",
        stage=properties.get("stage"),
        tags=properties.get("tags") or {},
        type=properties.get("modelType") or "",
        description=properties.get("description"),
        created=(item.get("systemData") or {}).get("createdAt") or "",
        properties=properties.get("properties") or {},
        job=properties.get("jobName"),
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


class AzureRest:
    """The reading half of a job service, and cancelling.

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
        self._session = session or requests.Session()
        self._resource: Mapping[str, Any] | None = None
        self._location = ""
        self._hosts: Mapping[str, str] | None = None
        self._created: dict[str, str] = {}

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
        timeout: tuple[float, float] = _TIMEOUT,
    ) -> requests.Response:
        headers = {"Authorization": f"Bearer {token}"}
        try:
            return self._session.request(method, url, params=params, json=body, headers=headers, timeout=timeout)
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
            found = self.read(self.arm(""), what, params={"api-version": _API["workspace"]})
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

    def _history(self, path: str) -> str:
        return f"{self._data_plane('history')}/history/v1.0{self.workspace.path}{path}"

    def _mlflow(self, path: str) -> str:
        return f"{self._data_plane('mlflow')}/mlflow/v2.0{self.workspace.path}/api/2.0/mlflow{path}"

    def metrics(self, path: str) -> str:
        """Return the address of *path* in run history's metrics, which azureml-core asks at the host of run history."""
        return f"{self._data_plane('history')}/metric/v2.0{self.workspace.path}{path}"

    def find(self, name: str) -> JobView | None:
        """See :meth:`aml_train.jobs.service.JobService.find`."""
        found = self.read(
            self.arm(f"/jobs/{quote(name)}"), f"Looking for the job {name}", params={"api-version": _API["jobs"]}
        )
        return None if found is None else _job_view(name, found["properties"])

    def live_jobs(self, tag: str) -> Sequence[JobView]:
        """See :meth:`aml_train.jobs.service.JobService.live_jobs`. The newest few hundred jobs with the tag are looked at."""
        return [view for view in self.tagged_jobs(tag, most_pages=_MOST_PAGES) if not view.status.terminal]

    def tagged_jobs(self, tag: str, *, most_pages: int | None = None) -> Iterator[JobView]:
        """See :meth:`aml_train.jobs.service.JobService.tagged_jobs`; of *most_pages* no more pages are read."""
        what = f"Listing the jobs with the tag {tag}"
        params = {"api-version": _API["jobs"], "jobType": "Command", "tag": tag}
        for item in self.items(self.arm("/jobs"), what, params=params, most_pages=most_pages):
            view = _job_view(item["name"], item["properties"])
            if tag in view.tags:
                yield view

    def tag(self, name: str, tags: Mapping[str, str]) -> None:
        """See :meth:`aml_train.jobs.service.JobService.tag`.

        The run's own record is changed, as azureml-core's ``Run.set_tags`` does it: what is not named stays. The address is that of
        azure-ai-ml 1.34.1's generated client (``_restclient/runhistory``).
        """
        what = f"Tagging the job {name}"
        response = self.call("PATCH", self._history(f"/runs/{quote(name)}"), what, body={"tags": dict(tags)})
        if not response.ok:
            raise error_for(response, what)

    def latest_version(self, kind: Literal["data", "models"], name: str) -> str | None:
        """See :meth:`aml_train.jobs.service.JobService.latest_version`.

        azure-ai-ml 1.34.1 takes the same for ``@latest`` (``_utils/_asset_utils.py``, ``_get_latest_version_from_container``).
        """
        what = f"Looking for the latest version of {name}"
        found = self.read(self.arm(f"/{kind}/{quote(name)}"), what, params={"api-version": _API["models"]})
        version = None if found is None else found["properties"].get("latestVersion")
        return None if version is None else str(version)

    def details(self, name: str) -> JobView:
        """See :meth:`aml_train.jobs.service.JobService.details`."""
        what = f"Watching the job {name}"
        # Who watches asks again anyway, and tells of an outage meanwhile.
        response = self.call("GET", self._history(f"/runs/{quote(name)}/details"), what, attempts=retries.FEW)
        if response.status_code == requests.codes.not_found:
            raise ServiceError(
                f"The job {name} is not in the workspace any more.", hint="Somebody may have deleted it."
            )
        if not response.ok:
            raise error_for(response, what)
        found = response.json()
        error = (found.get("error") or {}).get("error") or {}
        return JobView(
            name=name,
            status=parse_status(found.get("status")),
            tags=found.get("tags") or {},
            log_files=found.get("logFiles") or {},
            error=error.get("message"),
            codes=_codes(error),
            created=_time(found.get("createdTimeUtc")),
            started=_time(found.get("startTimeUtc")),
            ended=_time(found.get("endTimeUtc")),
            observed=_date(response),
        )

    def cancel(self, name: str) -> bool:
        """See :meth:`aml_train.jobs.service.JobService.cancel`."""
        what = f"Cancelling the job {name}"
        url = self.arm(f"/jobs/{quote(name)}/cancel")
        version = {"api-version": _API["jobs"]}
        response = self.once("POST", url, what, params=version)
        if response.ok:
            return True
        if response.status_code == requests.codes.not_found:
            return False
        if response.status_code in (requests.codes.bad_request, requests.codes.conflict):
            found = self.find(name)
            if found is not None and (found.status.terminal or found.status is JobStatus.CANCEL_REQUESTED):
                return True
        raise error_for(response, what)

    def read_log(self, url: str, offset: int) -> Iterator[bytes]:
        """See :meth:`aml_train.jobs.service.JobService.read_log`.

        Blob storage answers 416 where nothing is behind *offset*, with the log's length, and 404 where the log has not been created yet.
        A blob that took another's place has another time of creation
        (https://learn.microsoft.com/rest/api/storageservices/get-blob#response-headers).
        """
        try:
            with self._session.get(
                url, headers={"Range": f"bytes={offset}-"}, stream=True, timeout=_TIMEOUT
            ) as response:
                if response.status_code == requests.codes.requested_range_not_satisfiable:
                    length = response.headers.get("Content-Range", "").rpartition("/")[2]
                    if length.isdecimal() and int(length) < offset:
                        raise LogBeganAnewError(f"the log has {length} bytes, of which {offset} were read")
                    return
                if response.status_code == requests.codes.not_found:
                    return
                if response.status_code == requests.codes.ok and offset:
                    raise ServiceError("The log's storage does not answer to ranges.")
                if not response.ok:
                    # A signature that has run out is renewed by the next look at the run's details.
                    raise ServiceError(
                        f"The log could not be read: storage answered {response.status_code}", transient=True
                    )
                self._see_creation(url, response.headers.get("x-ms-creation-time", ""), offset)
                yield from response.iter_content(_CHUNK)
        except requests.RequestException as error:
            raise ServiceError(f"The log could not be read: {type(error).__name__}", transient=True) from error

    def _see_creation(self, url: str, created: str, offset: int) -> None:
        """Remember when a log's blob was created; raise where that is another time than before."""
        address = urlsplit(url)
        place = address.netloc + address.path
        before, self._created[place] = self._created.get(place, created), created
        if offset and created != before:
            raise LogBeganAnewError(f"the log was created anew at {created}")

    def vm_size(self, compute: str) -> str | None:
        """See :meth:`aml_train.jobs.service.JobService.vm_size`."""
        url, what = self.arm(f"/computes/{quote(compute)}"), f"Asking for the compute {compute}"
        found = self.read(url, what, params={"api-version": _API["computes"]}) or {}
        size = ((found.get("properties") or {}).get("properties") or {}).get("vmSize")
        return str(size) if size else None

    def node_kind(self, placement: Placement) -> NodeKind:
        """See :meth:`aml_train.jobs.service.JobService.node_kind`."""
        from aml_train.jobs.azure_nodes import node_kind

        return node_kind(self, placement)

    def waiting_reason(self, placement: Placement) -> str:
        """See :meth:`aml_train.jobs.service.JobService.waiting_reason`."""
        from aml_train.jobs.azure_nodes import waiting_reason

        return waiting_reason(self, placement)

    def last_metrics(self, name: str) -> Mapping[str, float]:
        """See :meth:`aml_train.jobs.service.JobService.last_metrics`."""
        metrics = self._run(name)["data"].get("metrics") or []
        return {metric["key"]: float(metric["value"]) for metric in metrics}

    def _run(self, name: str) -> Any:
        found = self.read(
            self._mlflow("/runs/get"), f"Reading the run {name}", params={"run_id": name, "run_uuid": name}
        )
        if found is None:
            raise ServiceError(f"The job {name} has no MLflow run.")
        return found["run"]

    def metric_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        """See :meth:`aml_train.jobs.service.JobService.metric_history`."""
        points: list[MetricPoint] = []
        params = {"run_id": name, "run_uuid": name, "metric_key": metric, "max_results": "25000"}
        while True:
            found = (
                self.read(self._mlflow("/metrics/get-history"), f"Reading the metric {metric}", params=params) or {}
            )
            points += [
                MetricPoint(
                    step=int(m.get("step") or 0), value=float(m["value"]), timestamp=int(m.get("timestamp") or 0)
                )
                for m in found.get("metrics") or ()
            ]
            if not found.get("next_page_token"):
                return points
            params["page_token"] = found["next_page_token"]

    def logged(self, name: str, *, known: Collection[str], first: Sequence[str] = ()) -> LoggedSet:
        """See :meth:`aml_train.jobs.service.JobService.logged`."""
        from aml_train.jobs.azure_logged import read_logged

        return read_logged(self, name, known=known, first=first)

    def artifact_paths(self, name: str, path: str) -> Iterator[str]:
        """See :meth:`aml_train.jobs.service.JobService.artifact_paths`."""
        experiment = self._run(name)["info"]["experiment_id"]
        url = self._history(f"/experiments/{quote(experiment)}/runs/{quote(name)}/artifacts")
        wanted = path.strip("/")
        params: dict[str, str] = {}
        while True:
            found = self.read(url, f"Listing what the job {name} wrote", params=params) or {}
            for item in found.get("value") or ():
                written = str(item["path"]).strip("/")
                if written == wanted or written.startswith(f"{wanted}/"):
                    yield written
            if not found.get("continuationToken"):
                return
            params = {"continuationToken": found["continuationToken"]}

    def has_artifact(self, name: str, path: str) -> bool:
        """See :meth:`aml_train.jobs.service.JobService.has_artifact`."""
        return any(True for _ in self.artifact_paths(name, path))

    def read_artifact(self, name: str, path: str, *, most: int) -> bytes | None:
        """See :meth:`aml_train.jobs.service.JobService.read_artifact`. A download that breaks off is begun again."""
        what = f"Reading {path}, which the job {name} wrote"
        experiment = self._run(name)["info"]["experiment_id"]
        url = self._history(f"/experiments/{quote(experiment)}/runs/{quote(name)}/artifacts/contentinfo")
        for attempt in retries.repeated():
            with attempt:
                found = self.read(url, what, params={"path": path.strip("/")})
                return None if found is None else self._download(found["contentUri"], what, most)
        raise AssertionError("the last attempt returns or raises")

    def _download(self, url: str, what: str, most: int) -> bytes | None:
        """Return what lies at an address that is signed: no token goes there."""
        content = bytearray()
        try:
            with self._session.get(url, stream=True, timeout=_TIMEOUT) as response:
                if response.status_code == requests.codes.not_found:
                    return None
                if not response.ok:
                    raise ServiceError(f"{what}: storage answered {response.status_code}", transient=True)
                for chunk in response.iter_content(_CHUNK):
                    content.extend(chunk)
                    if len(content) > most:
                        break
        except requests.RequestException as error:
            raise ServiceError(f"{what}: the download broke off: {type(error).__name__}", transient=True) from error
        return bytes(content[: most + 1])

    def models(self, name: str) -> Sequence[ModelView]:
        """See :meth:`aml_train.jobs.service.JobService.models`."""
        params = {"api-version": _API["models"], "$orderBy": "createdtime desc"}
        found = self.items(
            self.arm(f"/models/{quote(name)}/versions"), f"Looking for the model {name}", params=params
        )
        return [model_view(name, item) for item in found]
