"""What every handler needs, gathered once."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aml_emulator.domain.compute.nodes import Fleet
from aml_emulator.domain.compute.vm_sizes import DEFAULT_QUOTAS, Quotas
from aml_emulator.domain.curated_images import CuratedImages
from aml_emulator.domain.jobs.provoke import Shown
from aml_emulator.domain.locations import AssetId, BlobPath, DatastorePath, JobOutput, Location, LocationError, parse
from aml_emulator.errors import bad_request, not_found
from aml_emulator.executor.spec import Folder, RunError, RunSpec
from aml_emulator.identity.federation import Federation
from aml_emulator.identity.identity import Identity
from aml_emulator.identity.tokens import Tokens
from aml_emulator.network.faults import Faults
from aml_emulator.network.requests_log import Recorder, RequestLog
from aml_emulator.store import Store
from aml_emulator.store.blobs import Blobs
from aml_emulator.store.datastores import Datastore

logger = logging.getLogger(__name__)

MOST_HOPS = 10
"""How many assets may refer to one another until files are reached. Clients make one such step."""


class Runner(Protocol):
    """The part of `aml_emulator.executor.queue.JobRunner` that the services use."""

    def start(self) -> None:
        """Make ready for runs."""

    def submit(self, spec: RunSpec) -> None:
        """Run this when there is room."""

    def cancel(self, run_id: str) -> bool:
        """Stop a run; False if it is not known here."""

    def adopt(self, specs: Iterable[RunSpec]) -> None:
        """Take up runs that were unfinished when the service stopped."""

    def active(self) -> tuple[str, ...]:
        """Return the ids of runs that wait or run."""

    def lose_node(self, run_id: str, message: str) -> bool:
        """Fail a run whose cluster is gone; False if it is not known here."""

    def fail(self, run_id: str, error: RunError) -> bool:
        """Fail a run on purpose; False if it is not known here."""

    def forget_images(self) -> None:
        """Remove the images that were built of environments."""

    def wake(self) -> None:
        """Look again for runs that can begin."""

    def engine_ready(self) -> bool:
        """Return whether the container engine answers."""

    def is_job(self, address: str) -> bool:
        """Return whether a connection from this address may come from a job."""

    def close(self) -> None:
        """Stop working; runs go on in their containers."""


class Unsupported:
    """Remembers which unsupported operations were asked for, and says so in the log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()

    def note(self, what: str) -> None:
        """Count one more, and log it."""
        with self._lock:
            self._seen[what] += 1
        logger.error("unsupported: %s", what)

    def seen(self) -> dict[str, int]:
        """Return how often each was asked for."""
        with self._lock:
            return dict(self._seen)


@dataclass(frozen=True, kw_only=True)
class Services:
    """The state and the helpers that handlers share.

    Attributes:
        clock: seconds since the epoch.
        requests: what was asked lately.
        faults: what goes wrong on purpose.
        recorder: where answers are written down; None for nowhere.
        started: when the service was put together.
        fleet: the clusters' nodes and queues.
        quotas: how many vCPUs nodes may have.
        page_address: where a browser finds the page, without a slash at its end.
        environments: the images that play curated environments.
        shown: the states that jobs show instead of their own.
        data: the folder of all state; None where it is in memory.
    """

    identity: Identity
    store: Store
    blobs: Blobs
    tokens: Tokens
    clock: Callable[[], float]
    federation: Federation = field(default_factory=Federation)
    unsupported: Unsupported = field(default_factory=Unsupported)
    requests: RequestLog = field(default_factory=lambda: RequestLog(clock=time.time))
    faults: Faults = field(default_factory=lambda: Faults(clock=time.time))
    recorder: Recorder | None = None
    fleet: Fleet = field(default_factory=Fleet)
    quotas: Quotas = DEFAULT_QUOTAS
    page_address: str = "http://127.0.0.1:7380"
    environments: CuratedImages = field(default_factory=CuratedImages)
    shown: Shown = field(default_factory=Shown)
    data: Path | None = None
    started: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "started", self.clock())

    @property
    def own_containers(self) -> dict[str, str]:
        """Container of each datastore that every workspace has, by its name; the default one comes first."""
        return {
            "workspaceblobstore": self.identity.blob_container,
            "workspaceartifactstore": self.identity.artifact_container,
        }

    def all_datastores(self) -> list[Datastore]:
        """Return all datastores: the workspace's own first, of them the default one, then the registered ones."""
        stored = {one.name: one for one in self.store.datastores.all()}
        own = [
            stored.pop(name) if name in stored else self._own_datastore(name, container)
            for name, container in self.own_containers.items()
        ]
        return [*own, *stored.values()]

    def datastore(self, name: str) -> Datastore:
        """Return a datastore by its name, in whatever case.

        Raises:
            ServiceError: there is none.
        """
        for one in self.all_datastores():
            if one.name.lower() == name.lower():
                return one
        raise not_found(f"datastore '{name}'")

    def _own_datastore(self, name: str, container: str) -> Datastore:
        return Datastore(
            name=name,
            container=container,
            properties={
                "description": None,
                "tags": {},
                "properties": {},
                "serviceDataAccessAuthIdentity": "None",
                "credentials": {"credentialsType": "AccountKey"},
            },
            secret={"key": self.identity.storage_key},
            created=self.started,
            modified=self.started,
        )

    def artifacts_of(self, run_id: str) -> Folder:
        """Return where a run's artifacts are kept."""
        return Folder(container=self.identity.artifact_container, prefix=f"ExperimentRun/dcid.{run_id}")

    def folder(self, uri: str, *, hops: int = 0) -> Folder:
        """Return where in Blob storage an address points.

        Args:
            uri: the address; an asset's leads to the address that the asset has.
            hops: how many assets led here.

        Raises:
            ServiceError: a form that is not known, something that is not there, or an asset that leads to itself.
        """
        if hops > MOST_HOPS:
            raise bad_request(f"'{uri.partition('?')[0]}' leads from asset to asset, and not to any files")
        try:
            location = parse(uri)
        except LocationError as error:
            raise bad_request(str(error)) from error
        return self._resolve(location, uri, hops)

    def _resolve(self, location: Location, uri: str, hops: int) -> Folder:
        match location:
            case DatastorePath(datastore=datastore, path=path):
                return Folder(container=self.datastore(datastore).container, prefix=path)
            case JobOutput(job=job, output=output, path=path):
                return self._job_output(job, output, path)
            case BlobPath(host=host, container=container, path=path):
                if host != self.identity.blob_host:
                    raise bad_request(
                        f"'{uri.partition('?')[0]}' lies outside of the workspace's storage account"
                        f" ({self.identity.blob_host}), the only one that the local AzureML has"
                    )
                return Folder(container=container, prefix=path)
            case AssetId():
                return self._asset(location, hops)

    def _job_output(self, job: str, output: str | None, path: str) -> Folder:
        run = self.store.runs.get(job)
        if run is None:
            raise not_found(f"job '{job}'")
        folder = self.artifacts_of(job)
        if output is not None and output in run.outputs:
            stored = run.outputs[output]
            folder = Folder(container=stored["container"], prefix=stored["prefix"])
        elif output is not None:
            raise not_found(f"output '{output}' of job '{job}'")
        return Folder(container=folder.container, prefix=folder.name_of(path) if path else folder.prefix)

    def _asset(self, asset: AssetId, hops: int) -> Folder:
        for kind, key in (("data", "dataUri"), ("models", "modelUri"), ("codes", "codeUri")):
            if asset.kind not in ("", kind):
                continue
            version = self.store.assets.version(kind, asset.name, asset.version)
            if version is not None and version.properties.get(key):
                return self.folder(str(version.properties[key]), hops=hops + 1)
        raise not_found(f"{asset.kind or 'asset'} '{asset.name}', version '{asset.version}'")

    def datastore_uri(self, folder: Folder) -> str | None:
        """Return the long address of a place in one of the datastores, None for another container."""
        for datastore in self.all_datastores():
            if datastore.container == folder.container:
                identity = self.identity
                return (
                    f"azureml://subscriptions/{identity.subscription_id}/resourcegroups/{identity.resource_group}"
                    f"/workspaces/{identity.workspace}/datastores/{datastore.name}/paths/{folder.prefix}"
                )
        return None
