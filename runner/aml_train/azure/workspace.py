"""An AzureML workspace over plain REST: jobs, logs, metrics, files and models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal
from urllib.parse import quote, urlsplit

import requests
from urllib3.exceptions import ReadTimeoutError

from aml_train.azure.composed import KINDS, ComposedJobs, child_view, labels_of, needs_of, objective_of
from aml_train.azure.http import JOBS_API, AzureHttp, error_for
from aml_train.azure.run_metrics import read_logged
from aml_train.core import retry as retries
from aml_train.core.answers import Answer, pages_of
from aml_train.core.errors import ServiceError
from aml_train.core.http_client import exchange, host_of
from aml_train.core.secrets import known_secrets
from aml_train.gate.history import MetricPoint
from aml_train.gate.logged import LoggedSet
from aml_train.jobs.composed import ChildView
from aml_train.jobs.placement import NodeKind, Placement
from aml_train.jobs.spec import SERVERLESS
from aml_train.jobs.states import JobStatus, parse_status
from aml_train.jobs.workspace import JobView, LogBeganAnewError, ModelView, StorageUnreachableError

_MOST_CODES: Final = 20


def codes_of(error: Answer) -> tuple[str, ...]:
    """Return the code of an error of run history, and the codes of its inner errors."""
    codes = []
    for _ in range(_MOST_CODES):
        codes.append(error.optional_text("code"))
        error = error.at("innerError")
    return tuple(filter(None, codes))


def job_view(name: str, properties: Answer) -> JobView:
    """Read a job as Azure Resource Manager shows it."""
    inputs = [(name, value) for name, value in properties.members("inputs") if isinstance(value.value, dict)]
    tier = properties.optional_text("queueSettings.jobTier") or ""
    return JobView(
        name=name,
        status=parse_status(properties.optional_text("status")),
        experiment=properties.optional_text("experimentName"),
        studio_url=properties.optional_text("services.Studio.endpoint"),
        tags=properties.texts("tags"),
        properties=properties.texts("properties"),
        inputs={name: uri for name, value in inputs if (uri := value.optional_text("uri"))},
        variables=properties.texts("environmentVariables"),
        parameters={name: text for name, value in inputs if (text := value.literal("value")) is not None},
        placement=Placement(
            compute=(properties.optional_text("computeId") or "").rpartition("/")[2] or None,
            nodes=properties.whole("resources.instanceCount") or 1,
            size=properties.optional_text("resources.instanceType"),
            spot=tier.lower() == "spot",
        ),
        kind=KINDS.get((properties.optional_text("jobType") or "").lower()),
        objective=objective_of(properties),
        reported_best=properties.optional_text("properties.best_child_run_id"),
        needs=needs_of(properties),
    )


def _secrets_of(value: object) -> Iterator[str]:
    """Yield the secrets in the environment variables of a job's document."""
    if not isinstance(value, dict):
        return
    for key, inner in value.items():
        if key in ("environmentVariables", "environment_variables") and isinstance(inner, dict):
            yield from known_secrets({name: str(text) for name, text in inner.items()}, identifiers=False)
        else:
            yield from _secrets_of(inner)


def model_view(name: str, item: Answer) -> ModelView:
    """Read one version of a model as Azure Resource Manager shows it."""
    properties = item.at("properties")
    return ModelView(
        name=name,
        version=item.text("name"),
        path=properties.optional_text("modelUri") or "",
        stage=properties.optional_text("stage"),
        tags=properties.texts("tags"),
        type=properties.optional_text("modelType") or "",
        description=properties.optional_text("description"),
        created=item.optional_text("systemData.createdAt") or "",
        properties=properties.texts("properties"),
        job=properties.optional_text("jobName"),
    )


def _reason(compute: str, inner: Answer) -> str:
    errors = [one.at("error") if one.has("error") else one for one in inner.each("errors")]
    said = " ".join(f"{one.optional_text('code')}: {one.optional_text('message')}" for one in errors)
    if said:
        return f"The compute {compute} cannot grow: {said}"
    most, present = inner.whole("scaleSettings.maxNodeCount"), inner.whole("currentNodeCount")
    if most is None or present is None:
        return ""
    counts = inner.at("nodeStateCounts")
    busy, starting = counts.whole("runningNodeCount") or 0, counts.whole("preparingNodeCount") or 0
    return f"The compute {compute} has {present} of at most {most} nodes; {busy} of them run jobs, {starting} are starting."


def _name_of(placement: Placement) -> str | None:
    """Return the name of the compute, None for a serverless job."""
    return None if placement.compute == SERVERLESS else placement.compute


_MODELS_API: Final = "2023-08-01-preview"
_CHUNK: Final = 256 * 1024
#: Seconds for connecting to storage, and between two pieces of its answer: the status or the gate waits meanwhile.
_STORAGE_TIMEOUT: Final = (5.0, 20.0)
#: Storage's words for "not from there", whatever the signature: https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes.
#: A signature that has run out is AuthenticationFailed.
_FORBIDDEN_HERE: Final = frozenset(
    {
        "AuthorizationFailure",
        "AuthorizationPermissionMismatch",
        "AuthorizationSourceIPMismatch",
        "InsufficientAccountPermissions",
        "KeyBasedAuthenticationNotPermitted",
        "PublicAccessNotPermitted",
    }
)
_STORAGE_HINT: Final = (
    "Check the storage account's firewall and private endpoint, and the proxy, from this machine: docs/output.md."
)
_MOST_PAGES: Final = 10
#: With 25,000 values each: ten times of what Azure keeps of a metric, a million
#: (https://learn.microsoft.com/azure/machine-learning/resource-limits-capacity).
_MOST_METRIC_PAGES: Final = 400


def _is_silence(error: requests.RequestException) -> bool:
    """Return whether it is a read time-out, which has another class inside a body."""
    inner = error.args[0] if error.args else None
    return isinstance(error, requests.Timeout) or isinstance(inner, ReadTimeoutError)


def _check_allowed(response: requests.Response, host: str) -> None:
    """Raise StorageUnreachableError if storage forbids this network."""
    word = response.headers.get("x-ms-error-code", "")
    if response.status_code == requests.codes.forbidden and word in _FORBIDDEN_HERE:
        raise StorageUnreachableError(f"{host} answered 403 ({word})", hint=_STORAGE_HINT)


class AzureRest(AzureHttp):
    """The reading half of a job service, and cancelling."""

    @cached_property
    def _created(self) -> dict[str, str]:
        """When each log's blob was created, as it was last read."""
        return {}

    @cached_property
    def _definitions(self) -> dict[str, Answer]:
        """The properties of the jobs that were found: what a job is does not change."""
        return {}

    def find(self, name: str) -> JobView | None:
        found = self.find_job(name)
        if found is None:
            return None
        if not found.has("properties"):  # a node of a pipeline, or a trial
            return self.details(name)
        properties = self._definitions[name] = found.at("properties")
        view = self.view_of(name, properties)
        self.composed.seen(view, labels_of(properties) if view.kind == "pipeline" else {})
        return view

    def view_of(self, name: str, properties: Answer) -> JobView:
        """Read a job as Azure Resource Manager shows it, with the addresses of its pages."""
        self.hide_secrets(properties)
        return job_view(name, properties)

    def hide_secrets(self, properties: Answer) -> None:
        """Have what a job's variables hold masked, those of a pipeline's nodes too."""
        for secret in _secrets_of(properties.value):
            self.credential.fetched(secret)

    @cached_property
    def composed(self) -> ComposedJobs:
        """Facts about pipelines and sweeps."""
        return ComposedJobs(self)

    def children(self, name: str) -> Sequence[ChildView]:
        what = f"Listing the nodes of {name}"
        runs = self.items(self.history(f"/runs/{quote(name)}/children"), what, params={}, required=True)
        return self.composed.named(name, [child_view(run) for run in runs])

    def results_run(self, name: str) -> str:
        parts = self.composed.parts(name)
        return name if parts is None else parts.run

    def root_of(self, name: str) -> str | None:
        found = self.read(self.history(f"/runs/{quote(name)}"), f"Looking for the run {name}")
        return None if found is None else found.optional_text("rootRunId") or name

    def live_jobs(self, tag: str) -> Sequence[JobView]:
        """See :meth:`Workspace.live_jobs`; the newest few hundred with the tag are read."""
        return [view for view in self.tagged_jobs(tag, most_pages=_MOST_PAGES) if not view.status.terminal]

    def tagged_jobs(self, tag: str, *, most_pages: int | None = None) -> Iterator[JobView]:
        """See :meth:`Workspace.tagged_jobs`; at most *most_pages* pages are read."""
        what = f"Listing the jobs with the tag {tag}"
        params = {"api-version": JOBS_API, "tag": tag}
        for item in self.items(self.arm("/jobs"), what, params=params, most_pages=most_pages):
            view = self.view_of(item.text("name"), item.at("properties"))
            if tag in view.tags:
                yield view

    def tag(self, name: str, tags: Mapping[str, str], *, properties: Mapping[str, str] | None = None) -> None:
        """See :meth:`aml_train.jobs.workspace.Workspace.tag`.

        The run's own record is changed, as azureml-core's ``Run.set_tags`` does it: what is not named stays. The address is that of
        azure-ai-ml 1.34.1's generated client (``_restclient/runhistory``).
        """
        what = f"Tagging the job {name}"
        body = {"tags": dict(tags), **({"properties": dict(properties)} if properties else {})}
        self.need("PATCH", self.history(f"/runs/{quote(name)}"), what, body=body)

    def latest_version(self, kind: Literal["data", "models"], name: str) -> str | None:
        """See :meth:`aml_train.jobs.workspace.Workspace.latest_version`.

        azure-ai-ml 1.34.1 takes the same for ``@latest`` (``_utils/_asset_utils.py``, ``_get_latest_version_from_container``).
        """
        what = f"Looking for the latest version of {name}"
        found = self.read(self.arm(f"/{kind}/{quote(name)}"), what, params={"api-version": _MODELS_API})
        return None if found is None else found.literal("properties.latestVersion")

    def details(self, name: str) -> JobView:
        what = f"Watching the job {name}"
        # A watch polls again anyway, and reports an outage meanwhile.
        found = self.read(self.history(f"/runs/{quote(name)}/details"), what, attempts=retries.FEW)
        if found is None:
            raise ServiceError(f"The job {name} is not in the workspace any more.", hint="It may have been deleted.")
        error = found.at("error.error")
        status = parse_status(found.optional_text("status"))
        if status.final:
            self.composed.has_ended(name)
        return JobView(
            name=name,
            status=status,
            tags=found.texts("tags"),
            properties=found.texts("properties"),
            log_files=found.texts("logFiles"),
            error=error.optional_text("message"),
            codes=codes_of(error),
            created=found.time("createdTimeUtc"),
            started=found.time("startTimeUtc"),
            ended=found.time("endTimeUtc"),
            restarted=found.time("lastStartTimeUtc") if (found.whole("currentAttemptId") or 1) > 1 else None,
            observed=found.date,
        )

    def cancel(self, name: str) -> bool:
        what = f"Cancelling the job {name}"
        url = self.arm(f"/jobs/{quote(name)}/cancel")
        version = {"api-version": JOBS_API}
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
        """See :meth:`aml_train.jobs.workspace.Workspace.read_log`.

        Blob storage answers 416 where nothing is behind *offset*, with the log's length, and 404 where the log has not been created yet.
        A blob that took another's place has another time of creation
        (https://learn.microsoft.com/rest/api/storageservices/get-blob#response-headers).
        """
        host, answered = host_of(url), False
        try:
            with self._open_log(url, offset) as response:
                answered = True
                if response.status_code == requests.codes.requested_range_not_satisfiable:
                    length = response.headers.get("Content-Range", "").rpartition("/")[2]
                    if length.isdecimal() and len(length) < 20 and int(length) < offset:
                        raise LogBeganAnewError(f"the log has {length} bytes, of which {offset} were read")
                    return
                if response.status_code == requests.codes.not_found:
                    return
                if response.status_code == requests.codes.ok and offset:
                    raise ServiceError("The log's storage does not answer to ranges.")
                _check_allowed(response, host)
                if not response.ok:
                    # A signature that has run out is renewed by the next look at the run's details.
                    raise ServiceError(
                        f"The log could not be read: storage answered {response.status_code}", transient=True
                    )
                self._see_creation(url, response.headers.get("x-ms-creation-time", ""), offset)
                yield from response.iter_content(_CHUNK)
        except requests.RequestException as error:
            # Storage that began to answer is within reach, unless it fell silent: the next look reads the rest there.
            cut = isinstance(error, requests.exceptions.ChunkedEncodingError)
            if cut or (answered and not _is_silence(error)):
                raise ServiceError(f"The log could not be read: {type(error).__name__}", transient=True) from error
            problem = f"{host} does not answer ({type(error).__name__})"
            raise StorageUnreachableError(problem, hint=_STORAGE_HINT) from error

    def _open_log(self, url: str, offset: int) -> requests.Response:
        def send() -> requests.Response:
            headers = {"Range": f"bytes={offset}-"}
            return exchange(self.session, "GET", url, headers=headers, stream=True, timeout=_STORAGE_TIMEOUT)

        try:
            return send()
        except requests.Timeout:
            raise
        except requests.ConnectionError:
            return send()  # Storage may have closed a connection that was kept since the last reading.

    def read_log_by_service(self, name: str, path: str, offset: int) -> Iterator[bytes]:
        """See :meth:`aml_train.jobs.workspace.Workspace.read_log_by_service`.

        The request is azureml-core's ``ArtifactsOperations.download`` (1.61, ``_restclient/operations``), whose declaration knows no ranges:
        an answer without one is the whole file. A service that answers by ranges may give less at once than there is.
        """
        what = f"reading {path} by way of AzureML"
        url = self.artifacts(f"/content/ExperimentRun/dcid.{quote(name)}/{quote(path)}")
        while True:
            headers = {"Authorization": f"Bearer {self._token()}", "Range": f"bytes={offset}-"}
            try:
                with exchange(
                    self.session, "GET", url, headers=headers, stream=True, timeout=_STORAGE_TIMEOUT
                ) as response:
                    if response.status_code in (
                        requests.codes.not_found,
                        requests.codes.requested_range_not_satisfiable,
                    ):
                        return
                    if not response.ok:
                        raise error_for(response, what)
                    ranged = response.status_code == requests.codes.partial_content
                    before, skip = offset, 0 if ranged else offset
                    for data in response.iter_content(_CHUNK):
                        rest = data[skip:]
                        skip = max(0, skip - len(data))
                        offset += len(rest)
                        yield rest
                    total = response.headers.get("Content-Range", "").rpartition("/")[2]
            except requests.RequestException as error:
                raise ServiceError(
                    f"{what}: {host_of(url)} does not answer: {type(error).__name__}", transient=True
                ) from error
            if not ranged or offset == before or not (total.isdecimal() and len(total) < 20) or offset >= int(total):
                return

    def _see_creation(self, url: str, created: str, offset: int) -> None:
        """Remember when a log's blob was created; raise if that has changed."""
        address = urlsplit(url)
        place = address.netloc + address.path
        before, self._created[place] = self._created.get(place, created), created
        if offset and created != before:
            raise LogBeganAnewError(f"the log was created again at {created}")

    def node_kind(self, placement: Placement) -> NodeKind:
        """Return the kind of nodes of *placement*; None for unknown parts, and why.

        The VM size of a cluster is ``properties.properties.vmSize`` of the compute, its tier ``vmPriority``; the GPUs are ``gpus`` in the
        list of a region's sizes (AzureML REST API, 2024-10-01-preview, ``AmlCompute`` and ``VirtualMachineSizes_List``).

        Raises:
            ServiceError: the service stays away.
        """
        size, spot = placement.size, placement.spot
        try:
            if (compute := _name_of(placement)) is not None:
                inner = self._cluster(compute)
                if inner is None:
                    return NodeKind(problem=f"There is no compute {compute}.")
                size = inner.optional_text("vmSize")
                spot = (inner.optional_text("vmPriority") or "").lower() == "lowpriority"
            if not size:
                return NodeKind(spot=spot, problem="AzureML does not say what VM size the nodes have.")
            gpus = self._gpus(size)
        except ServiceError as error:
            if error.transient:
                raise
            return NodeKind(size=size, spot=spot, problem=f"The kind of the nodes is not known: {error.message}")
        problem = "" if gpus is not None else f"AzureML does not say how many GPUs {size} has."
        return NodeKind(size=size, spot=spot, gpus=gpus, problem=problem)

    def waiting_reason(self, placement: Placement) -> str:
        """Return why a job waits for nodes: its compute's last errors, else its nodes.

        Errors are ``properties.properties.errors`` of the compute, nodes ``nodeStateCounts`` and ``scaleSettings`` (AzureML REST API,
        2024-10-01-preview, ``AmlComputeProperties``). Empty if nothing is known.
        """
        compute = _name_of(placement)
        if compute is None:
            return ""
        try:
            inner = self._cluster(compute)
            return f"There is no compute {compute} any more." if inner is None else _reason(compute, inner)
        except ServiceError:
            return ""

    def _cluster(self, compute: str) -> Answer | None:
        """Return what AzureML says of a cluster, None where there is none."""
        found = self.find_compute(compute)
        return None if found is None else found.at("properties.properties")

    def _gpus(self, size: str) -> int | None:
        named = (one for one in self.vm_sizes() if (one.optional_text("name") or "").lower() == size.lower())
        return next((gpus for one in named if (gpus := one.whole("gpus")) is not None), None)

    def last_metrics(self, name: str) -> Mapping[str, float]:
        parts = self.composed.parts(name)
        return self.own_metrics(name) if parts is None else parts.last_metrics()

    def own_metrics(self, name: str) -> Mapping[str, float]:
        """Return the last values of what was logged to one run."""
        return {metric.text("key"): metric.number("value") for metric in self._run(name).at("data").each("metrics")}

    def logged_parameters(self, name: str) -> Mapping[str, str]:
        parts = self.composed.parts(name)
        return self.own_parameters(name) if parts is None else parts.logged_parameters()

    def own_parameters(self, name: str) -> Mapping[str, str]:
        """Return the parameters that were logged to one run."""
        return {
            one.text("key"): one.optional_text("value") or "" for one in self._run(name).at("data").each("params")
        }

    def _run(self, name: str) -> Answer:
        found = self.read(
            self.mlflow("/runs/get"), f"Reading the run {name}", params={"run_id": name, "run_uuid": name}
        )
        if found is None:
            raise ServiceError(f"The job {name} has no MLflow run.")
        return found.at("run")

    def metric_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        parts = self.composed.parts(name)
        return self.own_history(name, metric) if parts is None else parts.metric_history(metric)

    def own_history(self, name: str, metric: str) -> Sequence[MetricPoint]:
        """Return every value of a metric of one run."""
        params = {"run_id": name, "run_uuid": name, "metric_key": metric, "max_results": "25000"}

        def ask(token: str | None) -> Answer | None:
            more = {} if token is None else {"page_token": token}
            return self.read(
                self.mlflow("/metrics/get-history"), f"Reading the metric {metric}", params=params | more
            )

        return [
            MetricPoint(step=m.whole("step") or 0, value=m.number("value"), timestamp=m.whole("timestamp") or 0)
            for page in pages_of(ask, "next_page_token", _MOST_METRIC_PAGES)
            for m in page.each("metrics")
        ]

    def logged(self, name: str, *, known: Collection[str], first: Sequence[str] = ()) -> LoggedSet:

        parts = self.composed.parts(name)
        return read_logged(self, name if parts is None else parts.run, known=known, first=first)

    def artifact_paths(self, name: str, path: str) -> Iterator[str]:
        prefix, name, path = self.composed.place(name, path)
        url = self._artifacts(name)
        wanted = path.strip("/")

        def ask(token: str | None) -> Answer | None:
            params = {} if token is None else {"continuationToken": token}
            return self.read(url, f"Listing what the job {name} wrote", params=params)

        for page in pages_of(ask, "continuationToken"):
            for item in page.each("value"):
                written = item.text("path").strip("/")
                if not wanted or written == wanted or written.startswith(f"{wanted}/"):
                    yield prefix + written

    def _artifacts(self, name: str) -> str:
        experiment = self._run(name).text("info.experiment_id")
        return self.history(f"/experiments/{quote(experiment, safe='')}/runs/{quote(name)}/artifacts")

    def has_artifact(self, name: str, path: str) -> bool:
        return any(True for _ in self.artifact_paths(name, path))

    def read_artifact(self, name: str, path: str, *, most: int) -> bytes | None:
        """See :meth:`Workspace.read_artifact`; an interrupted download begins again.

        If storage cannot be reached from here, the artifact service passes the file on.
        """
        what = f"Reading {path}, which the job {name} wrote"
        _, name, path = self.composed.place(name, path)
        url = f"{self._artifacts(name)}/contentinfo"
        for attempt in retries.repeated():
            with attempt:
                found = self.read(url, what, params={"path": path.strip("/")})
                if found is None:
                    return None
                try:
                    return self._download(found.text("contentUri"), what, most)
                except StorageUnreachableError:
                    return self._passed_on(name, path.strip("/"), most)
        raise AssertionError("the last attempt returns or raises")

    def _passed_on(self, name: str, path: str, most: int) -> bytes:
        content = bytearray()
        for data in self.read_log_by_service(name, path, 0):
            content.extend(data)
            if len(content) > most:
                break
        return bytes(content[: most + 1])

    def _download(self, url: str, what: str, most: int) -> bytes | None:
        """Return the content of a signed address, to which no token is sent."""
        content = bytearray()
        try:
            with exchange(self.session, "GET", url, stream=True, timeout=_STORAGE_TIMEOUT) as response:
                if response.status_code == requests.codes.not_found:
                    return None
                _check_allowed(response, host_of(url))
                if not response.ok:
                    raise ServiceError(f"{what}: storage answered {response.status_code}", transient=True)
                for chunk in response.iter_content(_CHUNK):
                    content.extend(chunk)
                    if len(content) > most:
                        break
        except (requests.ConnectionError, requests.Timeout) as error:
            if content:
                raise ServiceError(
                    f"{what}: the download was cut off: {type(error).__name__}", transient=True
                ) from error
            problem = f"{what}: {host_of(url)} does not answer ({type(error).__name__})"
            raise StorageUnreachableError(problem, hint=_STORAGE_HINT) from error
        except requests.RequestException as error:
            raise ServiceError(f"{what}: the download was cut off: {type(error).__name__}", transient=True) from error
        return bytes(content[: most + 1])

    def models(self, name: str) -> Sequence[ModelView]:
        params = {"api-version": _MODELS_API, "$orderBy": "createdtime desc"}
        found = self.items(
            self.arm(f"/models/{quote(name)}/versions"), f"Looking for the model {name}", params=params
        )
        return [model_view(name, item) for item in found]
