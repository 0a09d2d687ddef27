"""Sends a request like a recorded one to a running local AzureML, after making what it needs.

Values are made of shapes: a place in the workspace for an address, the recorded word for a word, and a plain value for a text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.contracts.recorded import Differences, deviations
from tests.contracts.recorded.facts import Exchange

READ_ONLY = frozenset(
    [
        "status",
        "services",
        "provisioningState",
        "createdOn",
        "modifiedOn",
        "computeLocation",
        "isAttachedCompute",
        "provisioningErrors",
        "parameters",
        "environmentType",
        "osType",
        "isDefault",
        "latestVersion",
        "nextVersion",
        "systemData",
        "componentId",
        "sourceJobId",
        "notificationSetting",
        "autologgerSettings",
        "subscriptionId",
        "resourceGroup",
        "disableLocalAuth",
        "flavors",
    ]
)
"""Fields of a resource that only the service fills in."""

VERSION = "2023-04-01"
"""Of a request whose recording has none."""

COMMAND = "wait go"
"""Of every job: `tests.support.instant_emulator` runs it until it is cancelled."""

ELSEWHERE = "elsewhere"
"""The storage account of lakes and file shares."""

KINDS = frozenset(["codes", "computes", "data", "datastores", "environments", "jobs", "models"])
"""Kinds of resources that a replay can make."""

OF_CLUSTERS = frozenset(["vmSize", "vmPriority", "scaleSettings", "osType", "remoteLoginPortPublicAccess"])
OF_JOBS = frozenset(
    [
        "description",
        "tags",
        "properties",
        "displayName",
        "experimentName",
        "computeId",
        "isArchived",
        "identity",
        "jobType",
        "resources",
        "codeId",
        "command",
        "environmentId",
        "inputs",
        "outputs",
        "distribution",
        "limits",
        "environmentVariables",
        "queueSettings",
    ]
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer of the service."""

    status: int
    headers: Mapping[str, str]
    body: Any


TRANSPORT = frozenset(
    [
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "transfer-encoding",
        "vary",
    ]
)
"""Headers that depend on the connection, and on the body's size."""

Send = Callable[[str, str, str, Any], Answer]
"""Sends one request: method, host, path with query, and a body for JSON."""


@dataclass(kw_only=True)
class Replayer:
    """Replays exchanges on one workspace.

    Args:
        workspace: its ARM id.
        location: its region.
        api_host: the host of its services.
        blobs: the address of the container of its default datastore.
        account: the name of its storage account.
        container: the container of its default datastore.
        compute: a cluster in it.
    """

    send: Send
    workspace: str
    location: str
    api_host: str
    blobs: str
    account: str
    container: str
    compute: str
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def prepare(self) -> None:
        """Make what jobs refer to."""
        made = {
            "environments": {"image": "python:3.11"},
            "codes": {"codeUri": f"{self.blobs}/code"},
            "data": {"dataUri": self._path("data/"), "dataType": "uri_folder"},
            "models": {"modelUri": self._path("model/"), "modelType": "custom_model"},
        }
        for kind, properties in made.items():
            self._must("PUT", f"{self.workspace}/{kind}/known/versions/1", {"properties": properties})
        self._must("PUT", f"{self.workspace}/jobs/known", {"properties": self._job({})})

    def replay(self, exchange: Exchange) -> Answer | None:
        """Return the answer to a request like the recorded one; None where there is none."""
        name = f"rec-{next(self._numbers)}"
        path = exchange.path
        if path.startswith("{WS}"):
            if exchange.method == "GET" and path == "{WS}/datastores":
                self._forget_datastores()
            self._arrange(exchange, name)
            sent = None if exchange.sent is None else self._body(exchange)
            target = path.replace("{WS}", self.workspace).replace("{name}", name).replace("{version}", "1")
            if path == "{WS}" and exchange.status == 404:
                target = f"{self.workspace.rpartition('/')[0]}/none"
            query = "&".join((f"api-version={exchange.version or VERSION}", *self._query(exchange)))
            return self.send(exchange.method, "management.azure.com", f"{target}?{query}", sent)
        if path.startswith("/subscriptions/"):
            return self._operation(exchange, name)
        return self._service(exchange, name)

    # Requests

    def _query(self, exchange: Exchange) -> Iterator[str]:
        for key, value in exchange.query.items():
            if key in ("listViewType", "$orderBy", "$top", "skipValidation") and value:
                yield f"{key}={value.replace(' ', '%20')}"
            elif key in ("hash", "hashVersion"):
                yield f"{key}=ab"
            elif key == "isDefault":
                # azure-ai-ml sends it to get the default datastore, and the recorded list has that one alone.
                yield f"{key}=true"

    def _body(self, exchange: Exchange) -> Any:
        made = self._value(exchange.sent)
        if "/jobs" in exchange.path and isinstance(made, dict):
            made["properties"] = self._job(made.get("properties") or {})
        if "/computes" in exchange.path and isinstance(made, dict):
            made["location"] = self.location
        if "/datastores" in exchange.path and made["properties"]["datastoreType"] != "AzureBlob":
            made["properties"]["accountName"] = ELSEWHERE
        shown = exchange.answer.get("properties") if isinstance(exchange.answer, dict) else None
        if isinstance(made, dict) and isinstance(shown, dict) and shown.get("stage") == "=Logged":
            # The stage of environments without a name, of which shapes say nothing.
            made["properties"]["isAnonymous"] = True
        return made

    def _operation(self, exchange: Exchange, name: str) -> Answer | None:
        """Ask for the state of an operation that a cancellation, or a new cluster, began."""
        if "computeOperationsStatus" in exchange.path:
            body = {
                "location": self.location,
                "properties": {"computeType": "AmlCompute", "properties": {"vmSize": "Standard_DS3_v2"}},
            }
            answer = self._must("PUT", f"{self.workspace}/computes/{name}", body)
            address = answer.headers["azure-asyncoperation"]
        elif "mfeOperationResults" in exchange.path:
            self._must("PUT", f"{self.workspace}/jobs/{name}", {"properties": self._job({})})
            answer = self._must("POST", f"{self.workspace}/jobs/{name}/cancel", None)
            address = answer.headers["location"]
            if exchange.status == 200:
                self.finish(name)
        else:
            return None
        host, _, path = address.removeprefix("https://").partition("/")
        return self.send("GET", host, f"/{path}", None)

    def finish(self, name: str) -> None:
        """End a cancelled job; each user of the suite has a way to."""

    def _service(self, exchange: Exchange, name: str) -> Answer | None:
        """Ask one of AzureML's own services, about a job or a run."""
        run, body = name, self._value(exchange.sent)
        if exchange.status != 404:
            self._must("PUT", f"{self.workspace}/jobs/{name}", {"properties": self._job({})})
        if "/mlflow/" in exchange.path and not exchange.path.endswith("/create"):
            created = self._must(
                "POST",
                f"/mlflow/v2.0{self.workspace}/api/2.0/mlflow/runs/create",
                {"experiment_id": "0", "start_time": 1},
                host=self.api_host,
            )
            run = created.body["run"]["info"]["run_id"]
        if isinstance(body, dict):
            body |= {key: run for key in ("runId", "run_id", "run_uuid") if key in body}
            if "experiment_id" in body:
                body["experiment_id"] = "0"
        path = exchange.path.replace("{WS}", self.workspace).replace("{run}", run)
        if "{experiment}" in path:
            details = self._must("GET", f"/history/v1.0{self.workspace}/runs/{name}", None, host=self.api_host)
            path = path.replace("{experiment}", details.body["experimentId"])
        return self.send(exchange.method, self.api_host, path, body)

    # Resources that have to exist

    def _arrange(self, exchange: Exchange, name: str) -> None:
        """Make the resource that a request is about."""
        if exchange.path == "{WS}" or exchange.status in (201, 404) or exchange.method == "LIST":
            return
        base = exchange.path.replace("{WS}", self.workspace).replace("{name}", name)
        own = (
            base.replace("{version}", "1").removesuffix("/cancel").removesuffix("/listSecrets").removesuffix("/stop")
        )
        kind = exchange.path.split("/")[1]
        if kind not in KINDS:
            return  # there are none of this kind
        if kind in ("codes", "data", "environments", "models"):
            if exchange.path.endswith("/startPendingUpload"):
                return
            own = f"{self.workspace}/{kind}/{name}/versions/1"
        elif own.endswith(f"/{kind}"):
            own = f"{own}/{name}"
        self._must("PUT", own, self._resource(kind, exchange))
        if exchange.path.endswith("/cancel") and exchange.status in (400, 200):
            self.finish(name)

    def _resource(self, kind: str, exchange: Exchange) -> dict[str, Any]:
        """Return the body of a resource that is shown as recorded."""
        shown = exchange.answer if isinstance(exchange.answer, dict) else {}
        if isinstance(shown.get("value"), list):
            shown = shown["value"][0] if shown["value"] else {}
        given = self._value(shown.get("properties") or {})
        properties = {key: value for key, value in given.items() if key not in READ_ONLY and value is not None}
        if exchange.method == "PUT":
            properties = (self._body(exchange) or {}).get("properties") or properties
        if kind == "jobs":
            return {"properties": self._job({key: value for key, value in properties.items() if key in OF_JOBS})}
        if kind == "computes":
            inner = {key: value for key, value in (properties.get("properties") or {}).items() if key in OF_CLUSTERS}
            body = {
                "computeType": properties.get("computeType") or "AmlCompute",
                "description": properties.get("description"),
                "properties": {"vmSize": "Standard_DS3_v2", **inner},
            }
            return {"location": self.location, "properties": body}
        if kind == "datastores":
            secret = str(shown.get("secretsType", "")).removeprefix("=")
            return {"properties": self._datastore(properties, secret)}
        content = {
            "codes": {"codeUri": f"{self.blobs}/code"},
            "data": {"dataUri": self._path("data/"), "dataType": "uri_folder"},
            "models": {"modelUri": self._path("model/"), "modelType": "custom_model"},
            "environments": {"image": "python:3.11"},
        }[kind]
        known = {"build"} & properties.keys()
        return {
            "properties": ({} if known else content) | {k: v for k, v in properties.items() if k != "dataReference"}
        }

    def _forget_datastores(self) -> None:
        """Delete the datastores of earlier exchanges, so that a list has what was recorded."""
        listed = self._must("GET", f"{self.workspace}/datastores", None).body["value"]
        for one in listed:
            if one["name"].startswith("rec-"):
                self._must("DELETE", one["id"], None)

    def _datastore(self, given: Mapping[str, Any], secrets: str) -> dict[str, Any]:
        kind = secrets or (given.get("credentials") or {}).get("credentialsType", "None")
        secret = {"AccountKey": {"key": "a2V5"}, "Sas": {"sasToken": "sv=1&sig=a"}}.get(kind, {})
        type_ = given.get("datastoreType", "AzureBlob")
        place = {"AzureFile": "fileShareName", "AzureDataLakeGen2": "filesystem"}.get(type_)
        where = {"accountName": self.account, "containerName": self.container}
        return {
            "datastoreType": type_,
            **(where if place is None else {"accountName": ELSEWHERE, place: given[place]}),
            **{key: given[key] for key in ("description", "tags", "serviceDataAccessAuthIdentity") if key in given},
            "credentials": {
                "credentialsType": kind,
                **({"secrets": {"secretsType": kind, **secret}} if secret else {}),
            },
        }

    def _job(self, given: Mapping[str, Any]) -> dict[str, Any]:
        required = {
            "jobType": "Command",
            "command": COMMAND,
            "environmentId": f"{self.workspace}/environments/known/versions/1",
            "experimentName": "recorded",
        }
        if not given.get("queueSettings"):
            # The one recorded job with them is serverless: it names no compute.
            required["computeId"] = f"{self.workspace}/computes/{self.compute}"
        outputs = {key: value for key, value in (given.get("outputs") or {}).items() if key != "default"}
        return {
            **required,
            **{k: v for k, v in given.items() if v is not None},
            **({"outputs": outputs} if outputs else {}),
        }

    # Values

    def _value(self, shape: Any, key: str = "") -> Any:
        """Return a value of a shape."""
        if isinstance(shape, dict):
            return {name: self._value(item, name) for name, item in shape.items()}
        if isinstance(shape, list):
            return [self._value(item, key) for item in shape]
        if not isinstance(shape, str) or shape in ("null", "object"):
            return None
        simple = {
            "flag": False,
            "empty": "",
            "time": "2026-01-01T00:00:00Z",
            "guid": "11111111-2222-3333-4444-555555555555",
            "number-text": "1",
        }
        if shape in simple and key not in ("codeUri", "dataUri", "modelUri"):
            return simple[shape]
        if shape == "number":
            return {"minNodeCount": 0, "maxNodeCount": 2}.get(key, 1)
        if shape == "duration":
            return "PT1H"
        if shape.startswith("="):
            return shape[1:]
        return self._text(shape, key)

    def _text(self, shape: str, key: str) -> str:
        by_key = {
            "environmentId": f"{self.workspace}/environments/known/versions/1",
            "codeId": f"{self.workspace}/codes/known/versions/1",
            "computeId": f"{self.workspace}/computes/{self.compute}",
            "codeUri": f"{self.blobs}/code",
            "dataUri": self._path("data/"),
            "modelUri": self._path("model/"),
            "contextUri": f"{self.blobs}/context/",
            "command": COMMAND,
            "condaFile": "dependencies:\n- python=3.11\n",
            "image": "python:3.11",
            "vmSize": "Standard_DS3_v2",
            "accountName": self.account,
            "containerName": self.container,
            "endpoint": "core.windows.net",
            "shmSize": "2g",
            "key": "a2V5",
            "sasToken": "sv=1&sig=a",
            "uri": self._path("data/"),
            "experimentName": "recorded",
            "dockerfilePath": "Dockerfile",
            "instanceType": "Standard_DS3_v2",
        }
        if shape == "url" and key in ("uri", "dataUri"):
            return f"{self.blobs}/data/"
        if shape == "azureml" and key == "environmentId":
            return "azureml:known:1"
        if shape == "azureml" and key == "value":
            return "azureml://datastores/workspaceblobstore/paths/data/"
        if key == "uri" and shape.startswith("arm:"):
            kind = "models" if shape.startswith("arm:models") else "data"
            return f"{self.workspace}/{kind}/known/versions/1"
        return by_key.get(key, "text")

    def _path(self, path: str) -> str:
        return f"azureml://datastores/workspaceblobstore/paths/{path}"

    def _must(self, method: str, path: str, body: Any, *, host: str = "management.azure.com") -> Answer:
        """Send a request that has to succeed."""
        query = "" if host != "management.azure.com" else f"?api-version={VERSION}"
        answer = self.send(method, host, f"{path}{query}", body)
        if answer.status >= 400:
            raise Refused(answer)
        return answer


def differing(replayer: Replayer, exchange: Exchange, reasons: Differences) -> dict[str, str]:
    """Return where an answer differs from the recorded one without a reason, by place."""
    try:
        answer = replayer.replay(exchange)
    except Refused as refused:
        answer = refused.answer
    if answer is None or answer.status != exchange.status:
        return {"status": f"{answer}, recorded {exchange.status}"[:500]}
    shape = exchange.answer
    found = {} if shape is None or shape == "null" else dict(deviations(shape, answer.body))
    sent = {f"{name}={value}" for name, value in answer.headers.items()} | answer.headers.keys()
    absent = [name for name in exchange.headers if name not in sent and name.partition("=")[0] not in TRANSPORT]
    found |= {f"header {name}": "absent" for name in absent}
    return {at: what for at, what in found.items() if not reasons.allow(exchange.operation, at)}


class Refused(Exception):  # noqa: N818 - no error of the suite
    """The local AzureML refused what a recorded request needs."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(str(answer.body))
        self.answer = answer
