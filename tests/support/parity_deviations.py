"""Fifty deviations of a local AzureML: each changes one thing in the answer to one step of a recording.

`DeviatingSession` applies them to a running conversation; `deviate` to an answer that was kept.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import requests

from aml_train.azure.parity.conversation import Raw

Answer = tuple[int, dict[str, str], Any]
"""Status, headers by small names, and the body as JSON; text of a body that is none."""

Change = Callable[[Answer], Answer]


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """One changed thing.

    Attributes:
        step: of the script whose answer is changed.
        request: the method, and a pattern of the end of the address.
        kind, place: of the difference that has to be found.
        change: makes the answer.
        nth: which of the requests that fit; None for each.
        seconds: by which the answer is late.
    """

    step: str
    request: str
    kind: str
    place: str
    change: Change = lambda answer: answer
    nth: int | None = 0
    seconds: float = 0.0

    def fits(self, method: str, url: str) -> bool:
        """Return whether a request is the step's."""
        wanted, _, pattern = self.request.partition(" ")
        address, _, query = url.partition("?")
        known = f"{address}?{query}" if "?" in pattern or r"\?" in pattern else address
        return method == wanted and re.search(f"{pattern}$", known) is not None


def _at(path: str, change: Callable[[Any, str], None]) -> Change:
    """Return a change of what a path leads to; ``[]`` is each item of a list."""

    def apply(value: Any, parts: list[str]) -> None:
        head, *rest = parts
        if head == "[]":
            assert value, "there is nothing to change"
            for item in value:
                apply(item, rest)
        elif rest:
            apply(value[head], rest)
        else:
            assert head in value, f"{head} is not there"
            change(value, head)

    def changed(answer: Answer) -> Answer:
        status, headers, body = answer
        copy = json.loads(json.dumps(body))
        apply(copy, path.split("/"))
        return status, headers, copy

    return changed


def status(code: int) -> Change:
    return lambda answer: (code, answer[1], answer[2])


def drop(path: str) -> Change:
    return _at(path, lambda value, key: value.pop(key))


def rename(path: str, name: str) -> Change:
    return _at(path, lambda value, key: value.update({name: value.pop(key)}))


def put(path: str, new: Any) -> Change:
    return _at(path, lambda value, key: value.update({key: new}))


def as_text(path: str) -> Change:
    return _at(path, lambda value, key: value.update({key: str(value[key])}))


def without(header: str) -> Change:
    return lambda answer: (answer[0], {k: v for k, v in answer[1].items() if k != header}, answer[2])


def header(name: str, value: str) -> Change:
    return lambda answer: (answer[0], {**answer[1], name: value}, answer[2])


def page(answer: Answer) -> Answer:
    """Return a page of a proxy in place of JSON."""
    return answer[0], answer[1], "<html>welcome</html>"


def _unordered(number: int) -> Change:
    word = ("Running", "Queued")[number]
    return put("properties/status", word)


def _of(step: str, request: str, kind: str, place: str, change: Change, **more: Any) -> Deviation:
    return Deviation(step=step, request=request, kind=kind, place=place, change=change, **more)


ARM = "api-version=2024-10-01"
DEVIATIONS: tuple[Deviation, ...] = (
    # Statuses
    _of("workspace-unknown", "GET /workspaces/parity-[0-9a-f]+-none", "status", "", status(403), nth=0),
    _of("datastore-create", "PUT /datastores/parity_[0-9a-f]+store", "status", "", status(200)),
    _of("compute-unknown", "GET /computes/parity-[0-9a-f]+-none", "status", "", status(400)),
    _of("cancel", "POST /jobs/parity-[0-9a-f]+-cancelled/cancel", "status", "", status(200)),
    _of("run-unknown", "GET /runs/parity-[0-9a-f]+-none/details", "status", "", status(400)),
    _of("mlflow-run-unknown", r"GET /runs/get\?run_id=parity-[0-9a-f]+-none.*", "status", "", status(500)),
    # Keys that are missing
    _of(
        "workspace",
        "GET /workspaces/[a-z-]+",
        "missing",
        ".properties.storageAccount",
        drop("properties/storageAccount"),
    ),
    _of("environment", "GET -env/versions/1", "missing", ".properties.image", drop("properties/image")),
    _of("code", "GET -code/versions/1", "missing", ".systemData", drop("systemData")),
    _of(
        "data",
        "GET /data/parity-[0-9a-f]+-data/versions/1",
        "missing",
        ".properties.dataUri",
        drop("properties/dataUri"),
    ),
    _of("model", "GET -model/versions/1", "missing", ".properties.tags", drop("properties/tags")),
    _of("run-tag", "PATCH /runs/parity-[0-9a-f]+-job", "missing", ".createdUtc", drop("createdUtc")),
    _of(
        "mlflow-run",
        r"GET /runs/get\?run_id=[0-9a-f]{8}-.*",
        "missing",
        ".run.info.lifecycle_stage",
        drop("run/info/lifecycle_stage"),
    ),
    # Keys under another name
    _of(
        "datastore",
        "GET /datastores/workspaceblobstore",
        "missing",
        ".properties.accountName",
        rename("properties/accountName", "account"),
    ),
    _of(
        "compute",
        "GET /computes/local-cluster",
        "missing",
        ".properties.computeLocation",
        rename("properties/computeLocation", "place"),
    ),
    _of(
        "component",
        "GET -component/versions/1",
        "missing",
        ".properties.componentSpec",
        rename("properties/componentSpec", "spec"),
    ),
    _of("run", "GET /history/.*/runs/parity-[0-9a-f]+-job", "missing", ".runNumber", rename("runNumber", "number")),
    _of(
        "mlflow-history",
        r"GET /metrics/get-history\?.*",
        "missing",
        ".metrics[].step",
        rename("metrics/[]/step", "at"),
    ),
    _of(
        "artifact-list",
        "GET /ExperimentRun/dcid.parity-[0-9a-f]+-job",
        "missing",
        ".value[].artifactId",
        rename("value/[]/artifactId", "file"),
    ),
    # Types
    _of("vm-sizes", "GET /vmSizes", "type", ".value[].vCPUs", as_text("value/[]/vCPUs")),
    _of("usages", "GET /usages", "type", ".value[].limit", as_text("value/[]/limit")),
    _of(
        "datastores",
        r"GET /datastores\?api-version=2024-10-01",
        "type",
        ".value[].properties.isDefault",
        as_text("value/[]/properties/isDefault"),
    ),
    _of("environment-versions", "GET -env/versions", "type", ".value", put("value", {})),
    _of(
        "model-versions",
        r"GET -model/versions\?.*",
        "type",
        ".value[].properties.isArchived",
        put("value/[]/properties/isArchived", None),
    ),
    _of(
        "job-changed",
        "GET /jobs/parity-[0-9a-f]+-job",
        "type",
        ".properties.tags",
        put("properties/tags", []),
        nth=-1,
    ),
    _of("run-data", "POST /rundata", "type", ".runMetadata.runNumber", as_text("runMetadata/runNumber")),
    # Words
    _of(
        "datastore-created",
        "GET /datastores/parity_[0-9a-f]+store",
        "word",
        ".properties.datastoreType",
        put("properties/datastoreType", "Azure_Blob"),
    ),
    _of(
        "environment-again",
        "PUT -env/versions/1",
        "word",
        ".properties.osType",
        put("properties/osType", "LINUX"),
        nth=1,
    ),
    _of(
        "data-versions",
        "GET -data/versions",
        "word",
        ".value[].properties.dataType",
        put("value/[]/properties/dataType", "UriFolder"),
    ),
    _of(
        "job-list",
        r"GET /jobs\?.*",
        "word",
        ".value[].properties.jobType",
        put("value/[]/properties/jobType", "command"),
    ),
    _of(
        "cancelled-details",
        "GET /runs/parity-[0-9a-f]+-cancelled/details",
        "word",
        ".status",
        put("status", "Cancelled"),
    ),
    _of(
        "mlflow-job",
        r"GET /runs/get\?run_id=parity-[0-9a-f]+-job.*",
        "word",
        ".run.info.status",
        put("run/info/status", "COMPLETED"),
    ),
    # Codes of errors
    _of("job-unknown", "GET /jobs/parity-[0-9a-f]+-none", "code", ".error.code", put("error/code", "NoSuchJob")),
    _of("version-missing", "GET /workspaces/[a-z-]+", "code", ".error.code", put("error/code", "BadRequest"), nth=1),
    _of(
        "environment-unknown",
        "GET /environments/parity-[0-9a-f]+-none",
        "code",
        ".error.code",
        put("error/code", "Missing"),
    ),
    _of(
        "mlflow-model-unknown",
        r"GET /registered-models/get\?name=parity-[0-9a-f]+-none",
        "code",
        ".error_code",
        put("error_code", "NOT_FOUND"),
    ),
    # Texts of errors
    _of(
        "data-unknown",
        "GET /data/parity-[0-9a-f]+-none",
        "text",
        ".error.message",
        put("error/message", "Gone with the wind."),
    ),
    _of(
        "job-incomplete",
        "PUT /jobs/parity-[0-9a-f]+-bad",
        "text",
        ".error.message",
        put("error/message", "No."),
        nth=1,
    ),
    _of(
        "registry-exchange-refused",
        "POST /oauth2/exchange",
        "text",
        ".errors[].message",
        put("errors/[]/message", "go away"),
        nth=1,
    ),
    # Headers
    _of("blob-get", "GET /file.txt", "header", "header etag", without("etag")),
    _of(
        "token-absent",
        "GET /workspaces/[a-z-]+",
        "header",
        "header www-authenticate",
        without("www-authenticate"),
        nth=4,
    ),
    _of(
        "component-versions",
        "GET -component/versions",
        "header",
        "header content-type",
        header("content-type", "text/html"),
    ),
    _of(
        "registry-challenge",
        "GET /v2/",
        "header",
        "header docker-distribution-api-version",
        without("docker-distribution-api-version"),
    ),
    # Times
    Deviation(step="model-create", request="PUT -model/versions/1", kind="time", place="time", seconds=10.0),
    Deviation(step="log", request="GET /std_log.txt", kind="time", place="time", seconds=40.0),
    # Equality, forms, lists and bodies
    _of(
        "mlflow-end",
        "POST /runs/update",
        "same",
        ".run_info.experiment_id",
        put("run_info/experiment_id", str(uuid.UUID(int=7))),
    ),
    _of("experiment", "GET /experiments/parity-[0-9a-f]+", "form", ".createdUtc", put("createdUtc", "yesterday")),
    _of("artifacts", "GET /runs/parity-[0-9a-f]+-job/artifacts", "empty", ".value", put("value", [])),
    _of("v1-model", "GET /models/parity-[0-9a-f]+-model:1", "body", "", page),
    # The order of states, in two looks
    _of("job-states", "GET /jobs/parity-[0-9a-f]+-job", "states", ".states", _unordered(0), nth=1),
)
SECOND_LOOK = _of("job-states", "GET /jobs/parity-[0-9a-f]+-job", "states", ".states", _unordered(1), nth=2)
"""The other half of the last deviation: the job is queued after it ran."""


class DeviatingSession(requests.Session):
    """A session whose answers deviate.

    Attributes:
        late: seconds by which answers were late; a test adds them to its clock.
        applied: steps whose answer was changed.
    """

    def __init__(self, deviations: Iterable[Deviation]) -> None:
        super().__init__()
        self._deviations = list(deviations)
        self._met: dict[int, int] = {}
        self._polls: dict[str, int] = {}
        self.late = 0.0
        self.applied: list[str] = []

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        response = super().send(request, **options)
        for number, one in enumerate(self._deviations):
            if not one.fits(str(request.method), str(request.url)):
                continue
            met = self._met.get(number, 0)
            self._met[number] = met + 1
            if one.nth == met or (one.nth == -1 and self._is_changed(response)):
                self.late += one.seconds
                _apply(response, one.change)
                self.applied.append(one.step)
        return response

    @staticmethod
    def _is_changed(response: requests.Response) -> bool:
        """Return whether a view of the job is the one after its change."""
        tags = response.json().get("properties", {}).get("tags")
        return isinstance(tags, Mapping) and tags.get("colour") == "green"


def _apply(response: requests.Response, change: Change) -> None:
    known = (response.status_code, {k.lower(): v for k, v in response.headers.items()}, _body(response.content))
    code, headers, body = change(known)
    response.status_code = code
    response.headers = requests.structures.CaseInsensitiveDict(headers)
    if body != known[2]:
        response._content = body.encode() if isinstance(body, str) else json.dumps(body).encode()


def deviate(raw: Raw, deviation: Deviation) -> Raw:
    """Return a kept answer as a deviating service gives it."""
    known = (raw.status, {k.lower(): v for k, v in raw.headers.items()}, _body(raw.content))
    if deviation.kind == "states":
        return replace(raw, states=("Running", "Queued", "Completed"))
    code, headers, body = deviation.change(known)
    content = raw.content if body == known[2] else (body if isinstance(body, str) else json.dumps(body)).encode()
    return replace(raw, status=code, headers=headers, content=content, seconds=raw.seconds + deviation.seconds)


def _body(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")
