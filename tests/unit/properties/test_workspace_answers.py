"""Every operation of the job service and of what stands beside it, met by arbitrary answers: our own errors, and no other end."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import azure.identity  # noqa: F401 - its import looks for processes, which a test may not
import pytest
import requests

from aml_train.azure.blob.address import Asset, JobOutput
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.browse import JobFilter, describe_job, list_jobs
from aml_train.azure.code import _ask, _find
from aml_train.azure.compute import _check_size, _settled, to_be_changed
from aml_train.azure.data_identity import identify_data
from aml_train.azure.identity import read_identity, read_run_identity
from aml_train.azure.image_uses import read_image_uses
from aml_train.azure.models import AzureCatalogue
from aml_train.azure.names import WorkspaceId
from aml_train.azure.sign_in import SignIn
from aml_train.azure.target import check_compute, check_workspace, login_server
from aml_train.azure.workspace import AzureRest
from aml_train.config.sections.targets import ClusterConfig
from aml_train.core.clock import Clock
from aml_train.core.files import FileSet
from aml_train.gate.logged import columns_of
from aml_train.jobs.data import DataSource
from aml_train.jobs.metrics import tables_of_job
from aml_train.jobs.placement import Placement
from aml_train.jobs.snapshot import Snapshot
from aml_train.jobs.workspace import LogBeganAnewError, Workspace
from aml_train.models.catalogue import Catalogue
from tests.support.wrong_answers import CASES, Answering, Reply, as_json, tries

WORKSPACE = WorkspaceId(subscription_id="s", resource_group="g", name="w")
ARM = "https://management.azure.com"
REGISTRY = f"{WORKSPACE.path}/registries/acr"
CLUSTER = ClusterConfig(name="c", size="Standard_DS3_v2", where="aml-train.yml:1")
TIMES = itertools.count(step=10)
CLOCK = Clock(now=lambda: float(next(TIMES)), sleep=lambda _seconds: None)
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
LOG = "https://logs.invalid/log?sig=x"

JOB = {
    "name": "j",
    "properties": {
        "status": "Completed",
        "jobType": "Command",
        "experimentName": "e",
        "computeId": "/computes/c",
        "services": {"Studio": {"endpoint": "https://ml.azure.com/"}},
        "inputs": {"data": {"uri": "azureml://x"}, "rate": {"value": 0.5}},
        "outputs": {"default": {"uri": "azureml://datastores/d/paths/p"}},
        "resources": {"instanceCount": 2, "instanceType": "Standard_DS3_v2"},
        "queueSettings": {"jobTier": "Spot"},
        "tags": {"t": "1"},
        "environmentId": f"{WORKSPACE.path}/environments/e/versions/1",
        "command": "python train.py",
        "environmentVariables": {"A": "b"},
    },
    "systemData": {"createdAt": "2026-01-01T00:00:00Z"},
}
MODEL = {
    "name": "1",
    "properties": {
        "modelUri": "azureml://x",
        "modelType": "mlflow_model",
        "tags": {"a": "b"},
        "properties": {"c": "d"},
        "image": "i",
        "dataType": "uri_file",
        "dataUri": "azureml://datastores/d/paths/p",
        "latestVersion": "1",
        "nextVersion": "2",
    },
    "systemData": {"createdAt": "2026-01-01T00:00:00Z"},
}
COMPUTE = {
    "name": "c",
    "identity": {"type": "SystemAssigned", "principalId": "p", "userAssignedIdentities": {"u": {"principalId": "q"}}},
    "properties": {
        "computeType": "AmlCompute",
        "provisioningState": "Succeeded",
        "provisioningErrors": [{"error": {"code": "x", "message": "m"}}],
        "properties": {
            "vmSize": "Standard_DS3_v2",
            "vmPriority": "Dedicated",
            "currentNodeCount": 1,
            "scaleSettings": {"maxNodeCount": 2, "minNodeCount": 0, "nodeIdleTimeBeforeScaleDown": "PT2M"},
            "nodeStateCounts": {"runningNodeCount": 1},
            "subnet": {"id": "/subnets/x"},
            "userAccountCredentials": {"adminUserName": "a"},
        },
    },
}
DATASTORE = {
    "name": "d",
    "properties": {
        "datastoreType": "AzureBlob",
        "accountName": "account",
        "containerName": "c",
        "isDefault": True,
        "credentials": {"credentialsType": "AccountKey"},
    },
}
#: The end of a path → what a service answers; the first that fits counts.
VALID: tuple[tuple[str, Any], ...] = (
    ("/discovery", {"history": "https://region.invalid", "mlflow": "https://region.invalid", "api": "https://region.invalid"}),
    (WORKSPACE.path, {
        "location": "westeurope",
        "identity": {"principalId": "p"},
        "properties": {
            "discoveryUrl": "https://region.invalid/discovery",
            "containerRegistry": REGISTRY,
            "mlFlowTrackingUri": "azureml://region.invalid/mlflow",
        },
    }),
    ("/registries/acr", {"id": REGISTRY, "properties": {"loginServer": "acr.azurecr.io", "adminUserEnabled": False}}),
    ("/registries", {"value": [{"id": REGISTRY, "properties": {"loginServer": "acr.azurecr.io"}}]}),
    ("/roleAssignments", {"value": [{"properties": {"scope": REGISTRY, "roleDefinitionId": "/roles/pull"}}]}),
    ("/roles/pull", {"properties": {"permissions": [{"actions": ["*"], "notActions": []}]}}),
    ("/vmSizes", {"value": [{"name": "Standard_DS3_v2", "gpus": 0}]}),
    ("/computes", {"value": [COMPUTE], "nextLink": f"{ARM}/computes2"}),
    ("/computes/c", COMPUTE),
    ("/datastores", {"value": [DATASTORE]}),
    ("/datastores/d", DATASTORE),
    ("/listSecrets", {"key": "k", "sasToken": "?x"}),
    ("/jobs", {"value": [JOB], "nextLink": f"{ARM}/more"}),
    ("/more", {"value": [JOB]}),
    ("/jobs/j", JOB),
    ("/cancel", {}),
    ("/details", {
        "status": "Failed",
        "createdTimeUtc": "2026-01-01T00:00:00Z",
        "startTimeUtc": "2026-01-01T00:00:00+00:00",
        "endTimeUtc": "2026-01-01T00:00:00",
        "tags": {"t": "1"},
        "logFiles": {"user_logs/std_log.txt": LOG},
        "error": {"error": {"code": "UserError", "message": "m", "innerError": {"code": "c"}}},
    }),
    ("/runs/get", {"run": {"info": {"experiment_id": "1"}, "data": {
        "metrics": [{"key": "acc", "value": 0.5}], "params": [{"key": "lr", "value": "0.1"}]
    }}}),
    ("/get-history", {"metrics": [{"key": "acc", "value": 0.5, "step": 1, "timestamp": "17"}], "next_page_token": ""}),
    ("/list", {"value": [{
        "metricKey": {"name": "m"}, "columns": {"m": "Double"}, "properties": {"uxMetricType": "azureml.v1.table"}
    }], "continuationToken": "next"}),
    ("/full", {"value": [{"data": {"m": 1.5}, "createdUtc": "2026-01-01T00:00:00Z", "step": 1}], "columns": {"m": "Double"}}),
    ("/contentinfo", {"contentUri": "https://store.invalid/file"}),
    ("/artifacts", {"value": [{"path": "outputs/model"}], "continuationToken": "next"}),
    ("/startPendingUpload", {"blobReferenceForConsumption": {"blobUri": "https://b/c", "credential": {"sasUri": "https://b/c?s"}}}),
    ("/versions", {"value": [{**MODEL, "id": "/codes/n/versions/1"}]}),
    ("/models", {"value": [{"name": "m"}]}),
    ("/environments", {"value": [{"name": "e"}]}),
    ("/onlineEndpoints", {"value": [{"name": "n"}]}),
    ("/batchEndpoints", {"value": [{"name": "n"}]}),
    ("/deployments", {"value": [MODEL]}),
    ("/schedules", {"value": [MODEL]}),
)  # fmt: skip


def valid(request: requests.PreparedRequest) -> Reply:
    """Return what Azure answers."""
    parts = urlsplit(str(request.url))
    if parts.netloc in ("logs.invalid", "store.invalid") or "/content/ExperimentRun/" in parts.path:
        status = 206 if "Range" in request.headers else 200
        return Reply(
            status=status, headers={"Content-Type": "text/plain", "x-ms-creation-time": "a"}, body=b"line\n" * 20
        )
    if parts.path.endswith("/computes/gpu"):
        return as_json({}, status=404)
    if "continuationToken=" in parts.query or "continuationToken" in str(request.body):
        return as_json({"value": []})
    return as_json(next((answer for end, answer in VALID if parts.path.endswith(end)), MODEL))


class Signed:
    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        return type("Token", (), {"token": "t"})


ANSWERING = Answering(valid)
SESSION = ANSWERING.session()


def rest() -> AzureRest:
    return AzureRest(WORKSPACE, SignIn(Signed(), way="secret"), session=SESSION)


def catalogue() -> AzureCatalogue:
    return AzureCatalogue(rest(), CLOCK)


def data() -> DataWorkspace:
    return DataWorkspace(rest())


def nothing(*_: object) -> None:
    return


NO_CODE = Snapshot(files=FileSet(root=Path(), entries=()), content_hash="0", md5s={})
#: Operation → how it is used. Those of azure-ai-ml decode in the SDK.
OPERATIONS: Mapping[str, Callable[[], object]] = {
    "find": lambda: rest().find("j"),
    "identity": lambda: identity(),
    "identity of a run": lambda: read_run_identity(rest(), "j"),
    "details": lambda: rest().details("j"),
    "live_jobs": lambda: rest().live_jobs("t"),
    "tagged_jobs": lambda: list(rest().tagged_jobs("t")),
    "tag": lambda: rest().tag("j", {"a": "b"}),
    "latest_version": lambda: rest().latest_version("data", "d"),
    "identify_data": lambda: identify_data(
        rest(),
        [DataSource(path=path) for path in ("azureml:d:1", "azureml://datastores/d/paths/p", "https://a.invalid/x")],
    ),
    "cancel": lambda: rest().cancel("j"),
    "read_log": lambda: b"".join(rest().read_log(LOG, 3)),
    "read_log of a detail": lambda: [
        b"".join(rest().read_log(url, 0)) for url in rest().details("j").log_files.values()
    ],
    "read_log_by_service": lambda: b"".join(rest().read_log_by_service("j", "user_logs/std_log.txt", 3)),
    "node_kind": lambda: rest().node_kind(Placement(compute="c")),
    "waiting_reason": lambda: rest().waiting_reason(Placement(compute="c")),
    "last_metrics": lambda: rest().last_metrics("j"),
    "logged_parameters": lambda: rest().logged_parameters("j"),
    "metric_history": lambda: rest().metric_history("j", "acc"),
    "logged": lambda: columns_of(rest().logged("j", known=(), first=("m",))),
    "artifact_paths": lambda: list(rest().artifact_paths("j", "outputs")),
    "has_artifact": lambda: rest().has_artifact("j", "outputs/none"),
    "read_artifact": lambda: rest().read_artifact("j", "outputs/x", most=50),
    "children": lambda: rest().children("j"),
    "results_run": lambda: rest().results_run("j"),
    "root_of": lambda: rest().root_of("j"),
    "models": lambda: [(one.origin, one.staged) for one in rest().models("m")],
    "names": lambda: list(catalogue().names()),
    "version": lambda: catalogue().version("m", "1"),
    "change_tags": lambda: catalogue().change_tags("m", "1", {"a": None, "x": "y"}, guard=nothing),
    "environment_image": lambda: catalogue().environment_image("j"),
    "has_data": lambda: catalogue().has_data("d", "1"),
    "image uses": lambda: list(read_image_uses(rest(), "acr.azurecr.io", since=LONG_AGO)),
    "list_jobs": lambda: list(list_jobs(rest(), JobFilter(name="*"))),
    "describe_job": lambda: describe_job(rest(), "j"),
    "tables_of_job": lambda: tables_of_job(cast(Workspace, rest()), "j", {}),
    "datastores": lambda: list(data().datastores()),
    "default_datastore": lambda: data().default_datastore(),
    "locate an asset": lambda: data().locate(Asset(name="a", version=None)),
    "locate an output": lambda: data().locate(JobOutput(job="j", output="artifacts", path="x")),
    "access": lambda: data().access("d"),
    "next_version": lambda: data().next_version("a"),
    "find code": lambda: _find(rest(), "n", NO_CODE),
    "begin an upload": lambda: _ask(rest(), "POST", "/codes/n/versions/1/startPendingUpload", "Preparing", {}),
    "login_server": lambda: login_server(rest()),
    "check_workspace": lambda: check_workspace(rest()),
    "check_compute": lambda: check_compute(rest(), "gpu"),
    "settled cluster": lambda: settled(),
    "check_size": lambda: _check_size(rest(), CLUSTER),  # type: ignore[arg-type]
}
ELSEWHERE = {"prepare", "submit", "resubmit", "output_paths", "register"}


def identity() -> object:
    found = rest().find_job("j")
    return found and read_identity(rest(), "j", found.at("properties"), files=True)


def settled() -> object:
    found = _settled(rest(), CLUSTER, listener=nothing, clock=CLOCK)  # type: ignore[arg-type]
    if found is not None:
        to_be_changed(CLUSTER, found, nothing)
    return None


def operations_of(protocol: type) -> Iterator[str]:
    return (name for name, value in vars(protocol).items() if callable(value) and not name.startswith("_"))


def test_every_operation_is_tried() -> None:
    assert {*operations_of(Workspace), *operations_of(Catalogue)} <= {*OPERATIONS, *ELSEWHERE}


@pytest.mark.parametrize("name", OPERATIONS)
def test_arbitrary_answers_of_a_workspace(name: str) -> None:
    tries(
        ANSWERING, OPERATIONS[name], count=max(1, CASES * 11 // 20 // len(OPERATIONS)), allowed=(LogBeganAnewError,)
    )


@pytest.mark.parametrize("name", OPERATIONS)
def test_valid_answers_are_understood(name: str) -> None:
    """A property test whose valid answers were refused would try nothing."""
    ANSWERING.begin(b"")
    if name == "check_compute":
        with pytest.raises(Exception, match=r"no compute .gpu."):
            OPERATIONS[name]()
    else:
        OPERATIONS[name]()
    assert ANSWERING.sent
