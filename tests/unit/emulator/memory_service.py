"""A workspace with one of everything in it, whose Blob storage is in memory: the application as a whole, without a socket."""

from __future__ import annotations

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

KNOWN: dict[str, list[Any]] = {
    "sub": [IDENTITY.subscription_id],
    "rg": [IDENTITY.resource_group],
    "ws": [IDENTITY.workspace],
    "tenant": [IDENTITY.tenant_id],
    "location": [IDENTITY.location],
    "experiment": ["exp"],
    "name": ["env", "data-1", "model-1", "code-1", "local-cluster", "job-1", "workspaceblobstore", "amllocal"],
    "version": ["1", "2"],
    "id": ["asset-1", "model-1:1"],
    "origin": ["ExperimentRun", "LocalUpload"],
    "container": ["dcid.run-1", "x"],
    "path": ["outputs/a.txt", ""],
    "snapshot": ["code-1"],
    **{key: ["run-1", "job-1"] for key in ("run", "run_id", "runId", "RunId")},
    "experiment_id": ["0"],
    "filter": ["metrics.loss > 0.1", "Status eq 'Running'", "(("],
    "order_by": ["metrics.loss DESC"],
}
"""Sensible values by name, for a path or a query."""

QUERIES = (
    *("$skip", "$top", "hash", "version", "listViewType", "continuationToken", "path", "max_results", "page_token"),
    *("metric_key", "run_id", "names", "pageSize", "count", "tags", "name", "$filter", "jobType", "dataStoreNames"),
)
"""Parameters that some route reads."""
