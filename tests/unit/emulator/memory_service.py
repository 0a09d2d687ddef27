"""A workspace with one of everything in it, whose Blob storage is in memory: the application as a whole, without a socket."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import IO, Any

from azure.core.exceptions import ResourceNotFoundError

from aml_emulator.store.blobs import BlobEntry, Blobs
from tests.support.fake_executor import MemoryBlobs, MemoryEntry
from tests.unit.emulator.parts import IDENTITY, WS, Service

HISTORY = f"/history/v1.0{WS}"
TRACKING = f"/mlflow/v2.0{WS}/api/2.0/mlflow"


class StoredBlobs(Blobs):
    """Blob storage whose contents are kept here; addresses are signed as ever."""

    def __init__(self) -> None:
        super().__init__(
            account=IDENTITY.storage_account,
            key=IDENTITY.storage_key,
            endpoint="https://127.0.0.1:1/amllocalstore",
            public_endpoint=f"https://{IDENTITY.blob_host}",
            ca_file="unused",
        )
        self._memory = MemoryBlobs()
        self._names = {IDENTITY.blob_container, IDENTITY.artifact_container}

    def ping(self) -> None:
        return

    def create_container(self, container: str) -> None:
        self._names.add(container)

    def containers(self) -> tuple[str, ...]:
        return tuple(sorted(self._names))

    def delete_container(self, container: str) -> None:
        self._names.discard(container)

    def walk(self, container: str, prefix: str) -> Iterator[BlobEntry]:
        yield from map(_stored, self._memory.walk(container, prefix))

    def size(self, container: str, name: str) -> int | None:
        data = self._memory.content.get((container, name))
        return None if data is None else len(data)

    def read(self, container: str, name: str) -> Iterator[bytes]:
        if (container, name) not in self._memory.content:
            raise ResourceNotFoundError(name)
        yield from self._memory.read(container, name)

    def read_range(self, container: str, name: str, offset: int, length: int) -> bytes:
        return b"".join(self.read(container, name))[offset : offset + length]

    def write(self, container: str, name: str, data: IO[bytes], length: int | None = None) -> None:
        self._memory.write(container, name, data, length)

    def append(self, container: str, name: str, data: bytes) -> None:
        self._memory.append(container, name, data)

    def set_metadata(self, container: str, name: str, metadata: Mapping[str, str]) -> None:
        assert (container, name) in self._memory.content

    def delete_prefix(self, container: str, prefix: str) -> list[BlobEntry]:
        return list(map(_stored, self._memory.delete_prefix(container, prefix)))


def _stored(entry: MemoryEntry) -> BlobEntry:
    return BlobEntry(name=entry.name, size=entry.size)


def furnished() -> Service:
    """Return a service with one of everything, each under the name that :data:`KNOWN` gives it."""
    service = Service(blobs=StoredBlobs())
    store = service.store
    assert service.submit("job-1", tags={"a": "b"}).status == 201
    store.runs.create(
        run_id="run-1", experiment_id=store.runs.require("job-1").experiment_id, display_name="mine", status="Running"
    )
    store.runs.add_artifact("run-1", "outputs/a.txt", size=3)
    store.assets.put(
        "data",
        "data-1",
        "1",
        {"dataUri": "azureml://datastores/workspaceblobstore/paths/x", "dataType": "uri_folder"},
    )
    store.assets.put(
        "models",
        "model-1",
        "1",
        {"modelUri": "azureml://jobs/job-1/outputs/artifacts/paths/m", "modelType": "custom_model"},
    )
    store.assets.put(
        "codes", "code-1", "1", {"codeUri": f"https://{IDENTITY.blob_host}/{IDENTITY.blob_container}/snapshots/one"}
    )
    store.assets.put_container(
        "v1-assets", "asset-1", {"id": "asset-1", "artifacts": [{"prefix": "ExperimentRun/dcid.run-1/m"}]}
    )
    assert (
        service.call(
            "POST", f"{TRACKING}/runs/log-metric", {"run_id": "run-1", "key": "loss", "value": 0.5}, host=API
        ).status
        == 200
    )
    return service


API = IDENTITY.api_host

DEEP = base64.urlsafe_b64encode(b"[" * 60_000).decode()
LATER = (
    "e30."
    + base64.urlsafe_b64encode(b'{"exp": 9e9, "iss": [], "aud": {"a": 1}, "sub": 5}').decode().rstrip("=")
    + ".AA"
)

KNOWN: dict[str, list[Any]] = {
    "sub": [IDENTITY.subscription_id],
    "rg": [IDENTITY.resource_group],
    "ws": [IDENTITY.workspace],
    "tenant": [IDENTITY.tenant_id],
    "location": [IDENTITY.location],
    "run": ["run-1", "job-1"],
    "experiment": ["exp"],
    "name": [
        "env",
        "data-1",
        "model-1",
        "code-1",
        "local-cluster",
        "job-1",
        "workspaceblobstore",
        "amllocal",
        "new",
        "a.Start",
        "a.Completed",
    ],
    "version": ["1", "2"],
    "id": ["asset-1", "model-1:1"],
    "origin": ["ExperimentRun", "LocalUpload", "workspaceblobstore"],
    "container": ["dcid.run-1", "dcid.job-1", "x"],
    "path": ["outputs/a.txt", "outputs", ""],
    "snapshot": ["code-1", "code-2"],
    "query": ["name=data-1", "savedDatasetId=x"],
    # Of bodies and queries
    "run_id": ["run-1", "job-1"],
    "runId": ["run-1", "job-1", "run-2"],
    "RunId": ["run-1"],
    "experiment_id": ["0"],
    "experiment_ids": ["0"],
    "key": ["loss", "a"],
    "value": [0.5, "NaN", "text"],
    "metric_key": ["loss"],
    "metricName": ["loss"],
    "experiment_name": ["exp"],
    "environment": [
        {
            "name": "env",
            "docker": {"baseImage": "python:3.11"},
            "python": {"condaDependencies": {"dependencies": ["a"]}},
        },
        {"Name": "other", "Docker": {"BaseDockerfile": "FROM x"}, "environmentVariables": {"a": 1}},
        {"docker": 5},
        {"name": [], "docker": {"baseImage": {}}},
        {"name": "AzureML-x", "version": 5, "python": []},
        {"docker": {"baseImage": "x", "baseImageRegistry": 5}},
    ],
    "queueSettings": [{}],
    "jobTier": ["Standard"],
    "priority": [2],
    "vmPriority": ["Dedicated"],
    "osType": ["Linux"],
    "new_name": ["exp", "other"],
    "tags": ["a", "a=b"],
    "$filter": ["resourceType eq 'Microsoft.MachineLearningServices/workspaces'"],
    "maxNodeCount": [1, 4],
    "minNodeCount": [0, 1],
    "credential": ["a2V5"],
    "secrets": [{"key": "a2V5", "secretsType": "AccountKey"}],
    "extra": ["x"],
    "endpoint": ["core.windows.net"],
    "protocol": ["https"],
    "serviceDataAccessAuthIdentity": ["None"],
    "source": ["runs:/run-1/m", "azureml:model-1:1"],
    "filter": ["metrics.loss > 0.1", "tags.a = 'b'", "Status eq 'Running'", "((", "tags/a eq 'b'"],
    "order_by": ["metrics.loss DESC", "attributes.start_time", "params.x ASC"],
    "orderby": ["createdUtc desc", "tags/a"],
    "view_type": ["ALL"],
    "status": ["FINISHED", "Running"],
    "jobType": ["Command"],
    "command": ["python train.py", "echo ${{inputs.x}}", ["python", "x"]],
    "environmentId": [f"{WS}/environments/env/versions/1", "azureml:env:1", "AzureML-x:1"],
    "computeId": [f"{WS}/computes/local-cluster"],
    "codeId": [f"{WS}/codes/code-1/versions/1"],
    "experimentName": ["exp"],
    "parentJobName": ["job-1", None],
    "jobInputType": ["uri_folder", "literal", "uri_file"],
    "jobOutputType": ["uri_folder", "mlflow_model"],
    "uri": [
        "azureml://datastores/workspaceblobstore/paths/x",
        "https://example.org/file",
        "https://[",
        "azureml:data-1:1",
        "azureml:me:1",
    ],
    "mode": ["ReadOnlyMount", "Direct", "Download"],
    "timeout": ["PT1H", "P99999999999999999999D"],
    "shmSize": ["2g", "99999999999999999999999999g"],
    "dockerArgs": ["--cpus 1 --env A=B", "--memory 1g --ulimit nofile=1:2", "'"],
    "distributionType": ["PyTorch", "Mpi", "TensorFlow"],
    "identityType": ["Managed"],
    "datastoreType": ["AzureBlob"],
    "dataStoreType": ["AzureBlob"],
    "accountName": [IDENTITY.storage_account],
    "containerName": [IDENTITY.blob_container],
    "credentialsType": ["AccountKey", "None"],
    "credentialType": ["AccountKey", "Sas"],
    "computeType": ["AmlCompute"],
    "vmSize": ["Standard_DS3_v2"],
    "nodeIdleTimeBeforeScaleDown": ["PT120S"],
    "image": ["python:3.11"],
    "condaFile": ["dependencies: [python, {pip: [a]}]", "a: [", "when: 2024-01-01", "? [a]\n: b"],
    "contextUri": ["azureml://datastores/workspaceblobstore/paths/context"],
    "dataUri": ["azureml:me:1", "azureml://datastores/workspaceblobstore/paths/x", "x"],
    "dataType": ["uri_folder", "mltable"],
    "modelUri": ["azureml:me:1", "runs:/run-1/m", "azureml://jobs/job-1/outputs/default/paths/m"],
    "url": ["aml://asset/asset-1"],
    "prefix": ["ExperimentRun/dcid.run-1/m", "workspaceblobstore/x", ""],
    "op": ["add", "remove", "replace"],
    "values": [f"{WS}/data/data-1/versions/1"],
    "target": ["local-cluster"],
    "script": ["train.py"],
    "framework": ["Python", "PyTorch", "TensorFlow"],
    "communicator": ["None", "Nccl", "Mpi", "ParameterServer"],
    "baseImage": ["python:3.11"],
    "SnapshotId": ["code-1"],
    "datastoreName": ["workspaceblobstore"],
    "dataStoreName": ["workspaceblobstore"],
    "datasetType": ["file"],
    "dataflow": [
        "paths:\n- file: azureml://datastores/workspaceblobstore/paths/x\n",
        "paths: [",
        "{",
        "5",
        "paths: 5",
    ],
    "dataflowJson": [
        '{"meta": {"RsDataflow": "paths: [{folder: \'azureml://datastores/workspaceblobstore/paths/x\'}]"}}',
        "{}",
    ],
    "createdUtc": ["2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"],
    "startTime": ["2026-01-01", "9999-12-31T23:59:59-14:00"],
    "columns": [{"loss": "Double"}],
    "data": [{"loss": 1}, {"loss": "x"}],
    "uxMetricType": ["azureml.v1.scalar", "azureml.v1.table"],
    "FileNames": ["a.txt", "../x"],
    "FullName": ["a.txt"],
    "BlobUri": [f"https://{IDENTITY.blob_host}/{IDENTITY.blob_container}/snapshots/one/a.txt"],
    "grant_type": ["client_credentials"],
    "client_id": [IDENTITY.client_id],
    "client_assertion": ["a.b.c", "e30.e30.AA", "e30.WzFd.AA", f"{DEEP}.e30.AA", "\u00e4.e30.AA", LATER],
    "client_assertion_type": ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"],
    "$skip": ["1", "nan/x", "inf/x"],
    "continuationToken": ["1", "x"],
    "page_token": ["1"],
    "hash": ["abc"],
    "listViewType": ["All"],
    "skipValidation": ["true"],
    "createIfNotExists": ["true"],
    "ifExistsOk": ["true"],
}
"""Sensible values by name, for a path, a query or a body."""

QUERIES = (
    *(
        "$skip",
        "$top",
        "hash",
        "stage",
        "version",
        "listViewType",
        "continuationToken",
        "path",
        "max_results",
        "page_token",
    ),
    *("metric_key", "run_id", "run_uuid", "names", "searchText", "isDefault", "skipValidation", "createIfNotExists"),
    *(
        "ifExistsOk",
        "pageSize",
        "count",
        "$skipToken",
        "tags",
        "properties",
        "name",
        "runId",
        "versionId",
        "$filter",
        "jobType",
    ),
    *("experiment_id", "experiment_name", "tag", "latestVersionOnly", "dataStoreNames", "datasetId", "framework"),
)
"""Parameters that some route reads."""
