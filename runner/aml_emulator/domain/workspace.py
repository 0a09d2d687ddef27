"""The workspace: its identity, what is stored in it, and where its files are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from aml_emulator.domain.curated_images import CuratedImages
from aml_emulator.domain.errors import InvalidError, NotFoundError
from aml_emulator.domain.locations import AssetId, BlobPath, DatastorePath, JobOutput, Location, parse_location
from aml_emulator.domain.vm_sizes import DEFAULT_QUOTAS, Quotas
from aml_emulator.executor.nodes import Fleet
from aml_emulator.executor.spec import Folder
from aml_emulator.identity.identity import Identity
from aml_emulator.identity.tokens import Tokens
from aml_emulator.store.assets import AssetVersion
from aml_emulator.store.blobs import Blobs
from aml_emulator.store.datastores import Datastore
from aml_emulator.store.runs import Run
from aml_emulator.store.store import Store

UPLOAD_REMEDY = "Upload a copy with aml-train data upload, and name its azureml:// address instead."
MOST_HOPS = 10
"""How many assets may refer to one another until files are reached. Clients make one such step."""

LATEST = "latest"
"""The label of the newest version of an asset."""

_DEFAULTS = (LATEST, "default", "azureml_default")
"""Words for the newest version of a component (azure-ai-ml 1.35, ``constants/_common.py``)."""

REGISTRIES = "registries"
"""The kind under which registries are stored."""


FILES_NOT_KEPT = "aml-emulator.files-not-kept"
"""The property of a job that completed: the files that it wrote outside its outputs, with sizes, for people. Azure has none."""

REUSED_RUN = "azureml.reusedrunid"
"""The property of a pipeline's node with the run that it reuses; azure-ai-ml downloads from that (``REUSED_JOB_ID``)."""


def shelf(kind: str, registry: str | None) -> str:
    """Return the kind under which a registry's or the workspace's assets are stored."""
    return kind if registry is None else f"{REGISTRIES}/{registry}/{kind}"


class ShownStates:
    """States that jobs show instead of the real ones until they end. Thread-safe."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._lock = threading.Lock()

    def show(self, run_id: str, word: str | None) -> None:
        """Have a run show *word*; its own state again with None."""
        with self._lock:
            if word is None:
                self._words.pop(run_id, None)
            else:
                self._words[run_id] = word

    def status(self, run: Run) -> str:
        """Return what the service says of a run's state."""
        with self._lock:
            return run.status if run.terminal else self._words.get(run.id, run.status)


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """The state that the domain decides over.

    Attributes:
        clock: seconds since the epoch.
        started: when this value was made.
        quotas: how many vCPUs nodes may have.
        environments: the images that play curated environments.
        shown: states that jobs show instead of the real ones.
        unreachable: gives the reason why a file on the web can never be read, None if it may.
    """

    identity: Identity
    store: Store
    blobs: Blobs
    tokens: Tokens
    clock: Callable[[], float]
    fleet: Fleet = field(default_factory=Fleet)
    quotas: Quotas = DEFAULT_QUOTAS
    environments: CuratedImages = field(default_factory=CuratedImages)
    shown: ShownStates = field(default_factory=ShownStates)
    unreachable: Callable[[str], str | None] = lambda url: None
    started: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "started", self.clock())

    @property
    def own_containers(self) -> dict[str, str]:
        """The containers of the workspace's own datastores, the default one first.

        Every workspace has these four: azure-sdk-for-python, sdk/ml/azure-ai-ml/tests/recordings/datastore/e2etests,
        test_file_store. The last two are file shares there; here a container of the share's name has their files.
        """
        return {
            "workspaceblobstore": self.identity.blob_container,
            "workspaceartifactstore": self.identity.artifact_container,
            "workspacefilestore": self.identity.file_share,
            "workspaceworkingdirectory": self.identity.code_share,
        }

    def local_datastores(self) -> list[Datastore]:
        """Return the datastores whose files are in the workspace's storage account."""
        own = (None, self.identity.storage_account)
        return [one for one in self.all_datastores() if one.account in own]

    def all_datastores(self) -> list[Datastore]:
        """Return all datastores: the default one, the other own ones, the registered ones."""
        stored = {one.name: one for one in self.store.datastores.all()}
        own = [
            stored.pop(name) if name in stored else self._own_datastore(name, container)
            for name, container in self.own_containers.items()
        ]
        return [*own, *stored.values()]

    def find_datastore(self, name: str) -> Datastore | None:
        """Return a datastore by its name, in whatever case, or None."""
        return next((one for one in self.all_datastores() if one.name.lower() == name.lower()), None)

    def datastore(self, name: str) -> Datastore:
        """Return a datastore by its name, in whatever case.

        Raises:
            NotFoundError: there is none.
        """
        found = self.find_datastore(name)
        if found is None:
            raise NotFoundError(f"datastore '{name}'", message=f"Could not find datastore: {name}.")
        return found

    def _own_datastore(self, name: str, container: str) -> Datastore:
        shares = (self.identity.file_share, self.identity.code_share)
        return Datastore(
            name=name,
            container=container,
            properties={
                **({"datastoreType": "AzureFile"} if container in shares else {}),
                "description": None,
                "tags": None,
                "properties": None,
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

    def files_of(self, run: Run) -> Folder:
        """Return where a run's artifacts are read.

        Those of a reused node are the earlier run's.
        """
        return self.artifacts_of(run.id if run.job is None else run.properties.get(REUSED_RUN, run.id))

    def folder(self, uri: str, *, hops: int = 0) -> Folder:
        """Return where in Blob storage an address points.

        Args:
            uri: the address; an asset's leads to the address that the asset has.
            hops: how many assets led here.

        Raises:
            InvalidError: an unknown form, or an asset that leads to itself.
            NotFoundError: something that does not exist.
        """
        if hops > MOST_HOPS:
            raise InvalidError(f"'{uri.partition('?')[0]}' leads from asset to asset, and not to any files")
        return self._resolve(parse_location(uri), uri, hops)

    def _resolve(self, location: Location, uri: str, hops: int) -> Folder:
        match location:
            case DatastorePath(datastore=datastore, path=path):
                return self._in_datastore(self.datastore(datastore), path)
            case JobOutput(job=job, output=output, path=path):
                return self._job_output(job, output, path)
            case BlobPath(host=host, container=container, path=path):
                if host.replace(".dfs.", ".blob.") != self.identity.blob_host:
                    shown = uri.partition("?")[0]
                    raise InvalidError(
                        f"'{shown}' is outside of the workspace's storage account ({self.identity.blob_host}), the only"
                        f" one that the local AzureML has. {UPLOAD_REMEDY}"
                    )
                return Folder(container=container, prefix=path)
            case AssetId():
                return self._asset(location, hops)

    def _in_datastore(self, datastore: Datastore, path: str) -> Folder:
        if datastore.account not in (None, self.identity.storage_account):
            raise InvalidError(
                f"The datastore '{datastore.name}' is in the storage account '{datastore.account}', which the local"
                f" AzureML does not have. {UPLOAD_REMEDY}"
            )
        return Folder(container=datastore.container, prefix=path)

    def _job_output(self, job: str, output: str | None, path: str) -> Folder:
        run = self.store.runs.get(job)
        if run is None:
            raise NotFoundError(f"job '{job}'")
        folder = self.files_of(run)
        if output is not None and output in run.outputs:
            stored = run.outputs[output]
            folder = Folder(container=stored["container"], prefix=stored["prefix"])
        elif output is not None:
            raise NotFoundError(f"output '{output}' of job '{job}'")
        return Folder(container=folder.container, prefix=folder.name_of(path) if path else folder.prefix)

    def _asset(self, asset: AssetId, hops: int) -> Folder:
        for kind, key in (("data", "dataUri"), ("models", "modelUri"), ("codes", "codeUri")):
            if asset.kind not in ("", kind):
                continue
            version = self.asset_version(asset, kind)
            if version is not None and version.properties.get(key):
                return self.folder(str(version.properties[key]), hops=hops + 1)
        raise NotFoundError(f"{asset.kind or 'asset'} '{asset.name}', version '{asset.version}'")

    def asset_version(self, asset: AssetId, kind: str) -> AssetVersion | None:
        """Return a version of an asset of that kind, None if there is none."""
        place = kind
        if asset.registry is not None:
            registries = self.store.assets.containers(REGISTRIES)
            names = (one.name for one in registries if one.name.lower() == asset.registry.lower())
            place = shelf(kind, next(names, asset.registry))
        if asset.version.lower() == LATEST and asset.registry is not None:
            return self._newest(place, asset.name)
        found = self.store.assets.version(place, asset.name, asset.version)
        if found is None and kind == "components" and asset.version.lower() in _DEFAULTS:
            return self._newest(place, asset.name)
        return found

    def _newest(self, place: str, name: str) -> AssetVersion | None:
        versions = self.store.assets.versions(place, name)
        return next((one for one in versions if not one.properties.get("isArchived")), None)

    def address(self, folder: Folder) -> str:
        """Return the address of a place: in its datastore, if there is one, else its URL."""
        return self.datastore_uri(folder) or self.blobs.url(folder.container, folder.prefix)

    def long_uri(self, datastore: str, path: str) -> str:
        """Return the long address of a path in a datastore."""
        identity = self.identity
        return (
            f"azureml://subscriptions/{identity.subscription_id}/resourcegroups/{identity.resource_group}"
            f"/workspaces/{identity.workspace}/datastores/{datastore}/paths/{path}"
        )

    def datastore_uri(self, folder: Folder) -> str | None:
        """Return the long address of a place in a datastore, None for another container."""
        for datastore in self.local_datastores():
            if datastore.container == folder.container:
                return self.long_uri(datastore.name, folder.prefix)
        return None
