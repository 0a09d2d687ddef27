"""The shape of a JSON value: keys, types, words; nothing of users.

A text becomes ``time``, ``duration``, ``guid``, ``url``, ``azureml``, ``arm:TYPE``, ``number-text``, ``empty`` or ``text``, or
``=WORD`` where its key holds words of the service; a number ``number``, a flag ``flag``, null ``null``. Keys that users choose
become ``a``, ``b``, … in their order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from scripts.recordings.facts import Exchange
from scripts.recordings.read import Entry

WORDS: Final = frozenset(
    [
        "allocationState",
        "assetType",
        "attribution",
        "autoDeleteSetting",
        "blobReferenceType",
        "computeType",
        "consumptionType",
        "credentialType",
        "credentialsType",
        "dataType",
        "datastoreType",
        "dataStoreType",
        "distributionType",
        "environmentType",
        "errorType",
        "identityType",
        "inputDeliveryMode",
        "jobInputType",
        "jobLimitsType",
        "jobOutputType",
        "jobServiceType",
        "jobTier",
        "jobType",
        "lifecycle_stage",
        "listViewType",
        "mechanism",
        "metricType",
        "mode",
        "modelType",
        "nodeState",
        "orchestrator",
        "osType",
        "outputDeliveryMode",
        "pendingUploadType",
        "protocol",
        "provisioningState",
        "publicNetworkAccess",
        "referenceType",
        "remoteLoginPortPublicAccess",
        "runType",
        "secretsType",
        "serviceDataAccessAuthIdentity",
        "sku_tier",
        "stage",
        "status",
        "statusCode",
        "tier",
        "traits",
        "type",
        "unit",
        "unitOfMeasure",
        "vmPriority",
        "componentType",
        "sourceType",
        "job_input_type",
        "job_output_type",
        "action",
        "targetType",
    ]
)
"""Keys whose values are words of the service."""

WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./ -]{0,60}")
MAPS: Final = frozenset(
    [
        "tags",
        "environmentVariables",
        "inputs",
        "outputs",
        "parameters",
        "flavors",
        "jobs",
        "userAssignedIdentities",
        "userProperties",
        "metrics",
        "variantParameters",
        "environmentVariablesV2",
        "dataReferences",
        "inputSettings",
        "outputSettings",
        "variables",
        "columns",
        "data",
        "messageParameters",
        "EnvironmentVariables",
        "Tags",
        "Properties",
        "logFiles",
        "Parameters",
    ]
)
"""Keys of objects whose keys are chosen by users."""

OPAQUE: Final = frozenset(
    [
        "jobs",
        "componentSpec",
        "component_spec",
        "searchSpace",
        "trial",
        "runDefinition",
        "jobSpecification",
        "taskDetails",
        "managedNetwork",
        "outboundRules",
        "featureStoreSettings",
        "conf",
        "applications",
        "Overrides",
        "Data",
        "OutputData",
    ]
)
"""Keys of objects that are kept as ``object``: graphs of jobs, definitions of other kinds of jobs, networks."""

SERVICE_KEY: Final = re.compile(
    r"(_?azureml|_aml_system|mlflow|Process[A-Z]|default$).*|ContentSnapshotId|StepType|ComputeTargetType"
)
"""Keys that the service itself writes among those of users."""

TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})?")
GUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){2,3}-[0-9a-fA-F]{9,12}")
DURATION: Final = re.compile(r"P(?=.)(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?|\d+(\.\d+)?:\d{2}:\d{2}(\.\d+)?")
ARM: Final = re.compile(r"/subscriptions/[^/]+.*", re.IGNORECASE)
_WORKSPACE: Final = re.compile(
    r"/subscriptions/[^/]+/resource[gG]roups/[^/]+/providers/Microsoft\.MachineLearningServices/(workspaces|registries)/[^/]+"
)
_KEPT_QUERY: Final = frozenset(("listViewType", "$orderBy", "$top", "jobType", "skipValidation"))
_SERVICES: Final = (
    "history",
    "mlflow",
    "metric",
    "execution",
    "artifact",
    "data",
    "content",
    "environment",
    "modelmanagement",
)
"""AzureML's services whose exchanges are kept, by the first part of their paths."""

_OF_COMMANDS: Final = frozenset(
    ("inputs", "outputs", "settings", "jobs", "properties", "tags", "trial", "taskDetails")
)
_ACTIONS: Final = frozenset(
    [
        "batch",
        "create",
        "update",
        "get",
        "get-by-name",
        "search",
        "log-metric",
        "log-parameter",
        "log-batch",
        "set-tag",
        "delete-tag",
        "delete",
        "restore",
        "batchGetResolvedUris",
    ]
)
"""Parts of a path that are no names, though they follow such a part."""

_NAMED: Final[Mapping[str, str]] = {
    "runs": "run",
    "experiments": "experiment",
    "experimentids": "experiment",
    "versions": "version",
    "locations": "location",
    "operations": "id",
    "datastore": "name",
}
"""Parts of a path that are followed by a name, where paths do not alternate between the two."""


def reduce_exchange(entry: Entry, *, source: str) -> Exchange | None:
    """Return the facts of an exchange; None for another service than AzureML's."""
    url = urlsplit(entry.url)
    path = _template(url.hostname or "", url.path)
    if path is None:
        return None
    sent, answer = _pruned(entry.sent), _pruned(entry.answer)
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    version = query.pop("api-version", "")
    headers = tuple(sorted(_header(key, value) for key, value in entry.headers.items()))
    return Exchange(
        source=source,
        method=entry.method,
        path=path,
        status=entry.status,
        version=version,
        query={key: value if key in _KEPT_QUERY else "" for key, value in sorted(query.items())},
        headers=headers,
        sent=None if sent is None else shape(sent, path),
        answer=None if answer is None else shape(answer, path),
    )


def shape(value: Any, path: str, at: Sequence[str] = ()) -> Any:
    """Return the shape of a value.

    Args:
        path: the template of its request's path.
        at: the keys that lead to it.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return _text(value, at)
    if isinstance(value, list):
        shapes: list[Any] = []
        for item in value:
            one = shape(item, path, (*at, "[]"))
            if one not in shapes:
                shapes.append(one)
        return shapes
    if at and at[-1] in OPAQUE:
        return "object"
    free = _is_map(path, at)
    names = iter(_names())
    return {
        (key if not free or SERVICE_KEY.fullmatch(key) else next(names)): shape(
            item, path, (*at, "*" if free else key)
        )
        for key, item in value.items()
    }


def _pruned(body: Any) -> Any:
    """Return a body; of jobs other than commands, without inputs and outputs."""
    properties = body.get("properties") if isinstance(body, Mapping) else None
    if not isinstance(properties, Mapping) or str(properties.get("jobType") or "Command") == "Command":
        return body
    left = {key: value for key, value in properties.items() if key not in _OF_COMMANDS}
    return {**body, "properties": left}


def _text(value: str, at: Sequence[str]) -> str:
    key = next((part for part in reversed(at) if part not in ("*", "[]")), "")
    if key in WORDS or (key == "code" and "error" in [part.lower() for part in at[:-1]] + ["error"] * ("info" in at)):
        return f"={value}" if WORD.fullmatch(value) else "text"
    for name, form in (("time", TIME), ("guid", GUID), ("duration", DURATION)):
        if form.fullmatch(value):
            return name
    if ARM.fullmatch(value):
        return f"arm:{_arm_type(value)}"
    if value.startswith(("http://", "https://", "wasbs://", "abfss://")):
        return "url"
    if value.startswith(("azureml:", "aml://")):
        return "azureml"
    if re.fullmatch(r"-?\d+(\.\d+)?", value):
        return "number-text"
    return "text" if value else "empty"


def _arm_type(value: str) -> str:
    below = _WORKSPACE.sub("", value)
    return "/".join(below.strip("/").split("/")[::2]) if below != value and below else "other"


def _is_map(path: str, at: Sequence[str]) -> bool:
    if not at:
        return False
    last = at[-1]
    if last in MAPS:
        return True
    if last != "properties":
        return False
    # Below a resource's own properties, or among a run's fields, users name keys.
    return "/computes" not in path and (at[-2:-1] == ("properties",) or "/runs" in path or "/rundata" in path)


def _names() -> list[str]:
    return [chr(97 + first) + chr(97 + second) for first in range(26) for second in range(26)]


def _header(key: str, value: str) -> str:
    name = key.lower()
    return (
        f"{name}={value}" if name in ("x-ms-response-type", "x-ms-async-operation-timeout", "retry-after") else name
    )


def _template(host: str, path: str) -> str | None:
    if host.startswith("management."):
        return _management(path)
    below = path.lstrip("/").partition("/")[0]
    if ".api.azureml" not in host or below not in _SERVICES:
        return None
    short = _WORKSPACE.sub("{WS}", path)
    parts = short.replace("{WS}", "/{WS}").replace("//", "/").split("/")
    made = [
        f"{{{_NAMED[before.lower()]}}}" if before.lower() in _NAMED and part not in _ACTIONS else part
        for before, part in zip(["", *parts[:-1]], parts, strict=True)
    ]
    return re.sub(GUID, "{guid}", "/".join(made)).replace("/{WS}", "{WS}")


def _management(path: str) -> str | None:
    if match := _WORKSPACE.match(path):
        if match[1] == "registries":
            return None
        parts = path[match.end() :].strip("/").split("/")
        if "=" in parts[0]:
            return None  # a query that its recorder took for a path
        names = {"versions": "{version}", "deployments": "{deployment}"}
        made = [
            part if number % 2 == 0 else names.get(parts[number - 1], "{name}") for number, part in enumerate(parts)
        ]
        return "/".join(("{WS}", *filter(None, made)))
    location = re.fullmatch(
        r"/subscriptions/[^/]+/providers/Microsoft\.MachineLearningServices/locations/[^/]+/([A-Za-z]+)(/[^/]+)?",
        path,
    )
    if location is None:
        return None
    base = "/subscriptions/{sub}/providers/Microsoft.MachineLearningServices/locations/{location}"
    return f"{base}/{location[1]}" + ("/{id}" if location[2] else "")
