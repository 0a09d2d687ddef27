"""What is made through azure-ai-ml, met by arbitrary answers: our own errors, or the right result, within a bounded time.

The SDK runs as it is; what takes the place of the network is requests' adapter, below azure-core's transport. What is read by plain REST,
without the SDK, is in tests/unit/properties.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from requests.adapters import HTTPAdapter

from aml_train.azure.compute import ensure_cluster
from aml_train.azure.http import WorkspaceId
from aml_train.azure.sdk_v2 import AzureV2
from aml_train.azure.sign_in import SignIn
from aml_train.config.sections.targets import ClusterConfig
from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.core.tags import TAG_FINGERPRINT, TAG_JOB, TAG_RESUBMITTED
from aml_train.core.threads import CancelToken
from aml_train.image.spec import Given
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.workspace import JobView, ModelView, NewModel
from tests.support.wrong_answers import CASES, Answering, Reply, as_json, tries

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of azure-ai-ml's own import
#: A case takes some 20 ms, much longer than those of tests/unit/properties.
COUNT = max(1, CASES // 50)
#: Seconds that one case may wait: three attempts of some requests, each of which is repeated three times after a minute.
MOST_SECONDS = 2400.0
POLLERS = "LROPoller"

WORKSPACE = WorkspaceId(subscription_id="00000000-0000-0000-0000-000000000001", resource_group="g", name="w")
CLUSTER = ClusterConfig(name="c", size="Standard_DS3_v2", where="aml-train.yml:1")
CODE = f"{WORKSPACE.path}/codes/n/versions/1"
SYSTEM = {"createdAt": "2026-01-01T00:00:00Z", "createdBy": "me", "createdByType": "User"}
JOB_DOCUMENT = {
    "type": "command",
    "name": "j",
    "command": "python train.py",
    "environment": {"image": "acr.azurecr.io/i@sha256:" + "a" * 64},
    "code": "azureml:n:1",
    "compute": "azureml:c",
    "experiment_name": "e",
    "tags": {TAG_FINGERPRINT: "f"},
    "inputs": {"data": {"type": "uri_file", "path": "azureml://datastores/d/paths/p"}, "rate": 0.5},
    "outputs": {"model": {"type": "uri_folder"}},
    "resources": {"instance_count": 2},
}
JOB: dict[str, Any] = {
    "properties": {
        "jobType": "Command",
        "status": "Completed",
        "displayName": "shown",
        "experimentName": "e",
        "command": "python train.py",
        "codeId": CODE,
        "environmentId": f"{WORKSPACE.path}/environments/e/versions/1",
        "computeId": f"{WORKSPACE.path}/computes/c",
        "environmentVariables": {"A": "b"},
        "services": {"Studio": {"jobServiceType": "Studio", "endpoint": "https://ml.azure.com/", "port": None}},
        "inputs": {
            "data": {"jobInputType": "uri_file", "mode": "ReadOnlyMount", "uri": "azureml://datastores/d/paths/p"},
            "rate": {"jobInputType": "literal", "value": "0.5"},
        },
        "outputs": {
            "default": {"jobOutputType": "uri_folder", "uri": "azureml://datastores/d/paths/x", "mode": "ReadWriteMount"},
            "model": {
                "jobOutputType": "uri_folder",
                "mode": "ReadWriteMount",
                "uri": "azureml://datastores/d/paths/azureml/j/model/",
                "assetName": "n",
                "assetVersion": "1",
            },
        },
        "resources": {"instanceCount": 2, "shmSize": "2g", "properties": {}},
        "limits": {"jobLimitsType": "Command", "timeout": "PT1H"},
        "distribution": {"distributionType": "PyTorch", "processCountPerInstance": 1},
        "queueSettings": {"jobTier": "Spot"},
        "identity": {"identityType": "AMLToken"},
        "properties": {"p": "q", "_azureml.x": "y"},
    },
    "systemData": SYSTEM,
}  # fmt: skip
MODEL = {
    "id": f"{WORKSPACE.path}/models/m/versions/1",
    "name": "1",
    "type": "Microsoft.MachineLearningServices/workspaces/models/versions",
    "properties": {
        "modelUri": "azureml://jobs/j/outputs/artifacts/paths/model",
        "modelType": "custom_model",
        "description": "d",
        "tags": {TAG_JOB: "j"},
        "properties": {"c": "d"},
        "flavors": {"python_function": {"data": {"a": "b"}}},
        "isArchived": False,
        "isAnonymous": False,
        "stage": None,
    },
    "systemData": SYSTEM,
}
CONTAINER = {
    "id": f"{WORKSPACE.path}/models/m",
    "name": "m",
    "properties": {"latestVersion": "1", "nextVersion": "2", "tags": {}, "properties": {}, "isArchived": False},
    "systemData": SYSTEM,
}
COMPUTE = {
    "id": f"{WORKSPACE.path}/computes/c",
    "name": "c",
    "location": "westeurope",
    "identity": {"type": "SystemAssigned", "principalId": "p", "tenantId": "t"},
    "properties": {
        "computeType": "AmlCompute",
        "provisioningState": "Succeeded",
        "provisioningErrors": None,
        "createdOn": "2026-01-01T00:00:00Z",
        "properties": {
            "vmSize": "Standard_DS3_v2",
            "vmPriority": "Dedicated",
            "currentNodeCount": 0,
            "targetNodeCount": 0,
            "scaleSettings": {"maxNodeCount": 1, "minNodeCount": 0, "nodeIdleTimeBeforeScaleDown": "PT2M"},
            "nodeStateCounts": {"runningNodeCount": 0},
            "allocationState": "Steady",
            "enableNodePublicIp": True,
        },
    },
}
SPACE = {
    "id": WORKSPACE.path,
    "name": "w",
    "location": "westeurope",
    "identity": {"type": "SystemAssigned", "principalId": "p", "tenantId": "t"},
    "properties": {"discoveryUrl": "https://region.invalid/discovery", "workspaceId": "i", "friendlyName": "w"},
}


class Azure(Answering):
    """Answers as a workspace does: what was sent to it is there afterwards. Long-running operations are polled in threads of their own."""

    def __init__(self) -> None:
        super().__init__(self.valid_answer)
        self.made: set[str] = set()
        self.data = b""
        self.pollers = threading.local()

    def begin(self, data: bytes) -> None:
        super().begin(data)
        self.made, self.data, self.pollers = set(), data, threading.local()

    def send(self, request: requests.PreparedRequest, *rest: Any, **options: Any) -> requests.Response:
        if not threading.current_thread().name.startswith(POLLERS):
            return super().send(request, *rest, **options)
        # What it decides may not depend on how two threads take turns.
        own = getattr(self.pollers, "own", None)
        if own is None:
            own = self.pollers.own = Answering(self.valid_answer)
            own.begin(self.data[::-1])
        return own.send(request, *rest, **options)

    def valid_answer(self, request: requests.PreparedRequest) -> Reply:
        """Return what Azure answers."""
        path = urlsplit(str(request.url)).path
        kind, _, name = path.removeprefix(f"{WORKSPACE.path}/").partition("/")
        if path == WORKSPACE.path:
            return as_json(SPACE)
        if request.method == "PUT":
            self.made.add(path)
        there = path in self.made or name in ("old", "m", "m/versions")
        if kind == "vmSizes" or path.endswith("/vmSizes"):
            return as_json({"value": [{"name": "Standard_DS3_v2"}]})
        if not there:
            return as_json({"error": {"code": "NotFound", "message": "not found"}}, status=404)
        match kind:
            case "jobs":
                tags = {TAG_FINGERPRINT: "f", TAG_RESUBMITTED: "old"}
                marks = {**JOB["properties"]["properties"], TAG_FINGERPRINT: "f"}
                properties = {**JOB["properties"], "tags": tags, "properties": marks}
                return as_json({**JOB, "id": path, "name": name, "properties": properties})
            case "computes":
                return as_json(COMPUTE)
            case _ if name.endswith("/versions"):
                return as_json({"value": [MODEL] if f"{path}/1" in self.made else []})
            case _:
                return as_json(CONTAINER if name == "m" else MODEL, status=201 if request.method == "PUT" else 200)


class Sleeps:
    """Time that passes at once. What is waited for in this thread is added up."""

    def __init__(self) -> None:
        self.slept = 0.0
        self.owner = threading.get_ident()

    def sleep(self, seconds: float) -> None:
        """See time.sleep."""
        if math.isnan(seconds) or seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if seconds > 2**63 / 1e9:
            raise OverflowError("timestamp too large to convert to C PyTime_t")
        if threading.get_ident() == self.owner:
            self.slept += seconds


AZURE = Azure()
SLEEPS = Sleeps()


class Signed:
    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        return type("Token", (), {"token": "t", "expires_on": 2**33})


@pytest.fixture(scope="module")
def service() -> AzureV2:
    return AzureV2(WORKSPACE, SignIn(Signed(), way="secret"))


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(HTTPAdapter, "send", lambda _adapter, *rest, **options: AZURE.send(*rest, **options))
    monkeypatch.setattr(time, "sleep", SLEEPS.sleep)
    # azure-ai-ml starts git for each job (azure/ai/ml/operations/_job_ops_helper.py, get_git_properties), if it finds it.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def nothing(*_: object) -> None:
    return


def submitted(service: AzureV2) -> JobView:
    job = JobSpec(
        name="j",
        document=JOB_DOCUMENT,
        directory=Path.cwd(),
        code=None,
        images={"": Given(environment=None)},
        fingerprint="f",
    )
    found = service.submit(job, CancelToken())
    assert (found.name, found.tags[TAG_FINGERPRINT]) == ("j", "f")
    return found


def submitted_again(service: AzureV2) -> JobView:
    found = service.resubmit("old", "new", tags={TAG_FINGERPRINT: "f"}, submission=CancelToken())
    assert (found.name, found.tags[TAG_RESUBMITTED]) == ("new", "old")
    return found


def resubmitted(service: AzureV2) -> JobView:
    found = service.copy_job("old", "new", compute="azureml:c")
    assert found.name == "new"
    return found


def registered(service: AzureV2) -> ModelView:
    new = NewModel(
        name="m",
        version="1",
        path="azureml://jobs/j/outputs/artifacts/paths/model",
        type="custom_model",
        description="d",
        tags={TAG_JOB: "j"},
        properties={"c": "d"},
    )
    found = service.register(new)
    assert (found.version, found.tags[TAG_JOB]) == ("1", "j")
    return found


def clustered(service: AzureV2) -> None:
    times = itertools.count(step=10)
    clock = Clock(now=lambda: float(next(times)), sleep=nothing)
    ensure_cluster(service, CLUSTER, listener=nothing, clock=clock)


OPERATIONS: Mapping[str, Callable[[AzureV2], object]] = {
    "submit": submitted,
    "resubmit": submitted_again,
    "copy_job": resubmitted,
    "register": registered,
    "ensure_cluster": clustered,
}


def bounded(operation: Callable[[], object]) -> None:
    """Have an operation end, and the threads that it started, before long."""
    SLEEPS.slept = 0.0
    try:
        operation()
    finally:
        for thread in pollers():
            thread.join(20)
            assert not thread.is_alive(), "it polls for ever"
        assert SLEEPS.slept <= MOST_SECONDS, f"it waits for {SLEEPS.slept:.0f} s"


def pollers() -> Iterator[threading.Thread]:
    return (one for one in threading.enumerate() if one.name.startswith(POLLERS))


@pytest.mark.parametrize("name", OPERATIONS)
def test_arbitrary_answers_of_a_workspace(name: str, service: AzureV2) -> None:
    tries(AZURE, lambda: bounded(lambda: OPERATIONS[name](service)), count=max(1, COUNT // len(OPERATIONS)))


@pytest.mark.parametrize("name", OPERATIONS)
def test_valid_answers_are_understood(name: str, service: AzureV2) -> None:
    AZURE.begin(b"")
    bounded(lambda: OPERATIONS[name](service))
    assert any(asked.startswith("PUT ") for asked, _ in AZURE.seen), "the SDK has sent nothing"
    assert SLEEPS.slept == 0


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_wait_of_a_day_is_reported_and_not_kept(
    name: str, service: AzureV2, monkeypatch: pytest.MonkeyPatch
) -> None:
    """azure-core alone sleeps for as long as an answer says."""

    def throttled(request: requests.PreparedRequest) -> Reply:
        if request.method == "PUT":
            return as_json({"error": {"code": "TooManyRequests", "message": "m"}}, 429, {"Retry-After": "86400"})
        return AZURE.valid_answer(request)

    monkeypatch.setattr(AZURE, "valid", throttled)
    AZURE.begin(b"")
    with pytest.raises(ServiceError, match=r"answered 429: .*it asks to wait 86400 seconds"):
        bounded(lambda: OPERATIONS[name](service))
    assert SLEEPS.slept == 0
