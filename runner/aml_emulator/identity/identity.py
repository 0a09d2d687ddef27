"""The identity of this emulator: names, GUIDs and secrets, stored at first start."""

from __future__ import annotations

import base64
import json
import re
import secrets
import threading
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from aml_emulator.reading import write_private

NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{2,32}")
"""Azure's rule: https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules."""


class WorkspaceNames:
    """The identities of all workspaces by name, in whatever case. Thread-safe.

    Args:
        first: the workspace that every emulator has.
        path: the file of the others; None keeps them in memory.
    """

    def __init__(self, first: Identity, path: Path | None = None) -> None:
        self._first = first
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, Identity] = {first.workspace.lower(): first}
        if path is not None and path.exists():
            kept: list[dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
            self._known |= {one["name"].lower(): self._named(**one) for one in kept}

    def all(self) -> tuple[Identity, ...]:
        """Return all identities, the first one first, then the oldest."""
        return tuple(self._known.values())

    def get(self, name: str) -> Identity | None:
        """Return a workspace's identity, or None."""
        return self._known.get(name.lower())

    def create(self, name: str) -> Identity:
        """Create a name and return its identity.

        Raises:
            ValueError: Azure takes no such name.
            KeyError: there is a workspace of that name.
            OSError: the file has no room for it.
        """
        if not NAME.fullmatch(name):
            raise ValueError(
                f"name: 3 to 33 letters, digits, '-' and '_', with a letter or digit at the beginning, not '{name}'"
            )
        made = self._named(name, workspace_id=str(uuid.uuid4()), instance=secrets.token_hex(4))
        with self._lock:
            if name.lower() in self._known:
                raise KeyError(name)
            self._keep({**self._known, name.lower(): made})
        return made

    def remove(self, name: str) -> None:
        """Forget a name, if it is known and not the first one."""
        with self._lock:
            found = self._known.get(name.lower())
            if found is None or found is self._first:
                return
            self._keep({key: one for key, one in self._known.items() if one is not found})

    def _named(self, name: str, *, workspace_id: str, instance: str) -> Identity:
        return replace(
            self._first,
            workspace=name,
            workspace_id=workspace_id,
            instance=instance,
            # All workspaces have one storage account, and runs of the same name.
            artifact_container=f"azureml-{workspace_id}",
        )

    def _keep(self, known: dict[str, Identity]) -> None:
        """Store the names, and only then know them."""
        if self._path is not None:
            kept = [
                {"name": one.workspace, "workspace_id": one.workspace_id, "instance": one.instance}
                for one in known.values()
                if one is not self._first
            ]
            write_private(self._path, json.dumps(kept).encode())
        self._known = known


FILE_NAME = "identity.json"

SUBSCRIPTION_PROVIDER = "Microsoft.MachineLearningServices"


@dataclass(frozen=True, kw_only=True)
class Person:
    """The one person who signs in with a browser or a device code."""

    object_id: str
    username: str
    name: str = "Local User"


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The names and secrets of one emulator.

    Attributes:
        instance: short random name that labels what this emulator makes outside its data folder.
        client_id, client_secret: the one service principal that may sign in.
        token_secret: key that signs access tokens, hexadecimal.
        storage_key: key of the storage account, base64.
        compute: the compute target that is always there. Not ``local``: azure-ai-ml takes that name for the client's own
            machine and runs nothing.
        workspace_id: the workspace's GUID, also part of its container names.
        artifact_container: of ``workspaceartifactstore``: the runs' logs and outputs.
    """

    instance: str
    tenant_id: str
    client_id: str
    client_secret: str
    object_id: str
    token_secret: str
    subscription_id: str
    resource_group: str
    workspace: str
    workspace_id: str
    location: str
    compute: str
    login_server: str
    storage_account: str
    storage_key: str
    artifact_container: str = "azureml"

    @property
    def person(self) -> Person:
        """The one person who may sign in, the same at each start."""
        domain = f"{self.login_server.partition('.')[0]}.onmicrosoft.com"
        object_id = uuid.uuid5(uuid.NAMESPACE_URL, f"{self.tenant_id}/person")
        return Person(object_id=str(object_id), username=f"you@{domain}")

    @property
    def api_host(self) -> str:
        """The regional host of AzureML's own services."""
        return f"{self.location}.api.azureml.ms"

    @property
    def blob_host(self) -> str:
        """The host of the workspace's storage account."""
        return f"{self.storage_account}.blob.core.windows.net"

    @property
    def resource_group_id(self) -> str:
        """ARM id of the resource group."""
        return f"/subscriptions/{self.subscription_id}/resourceGroups/{self.resource_group}"

    @property
    def workspace_arm_id(self) -> str:
        """ARM id of the workspace."""
        return f"{self.resource_group_id}/providers/{SUBSCRIPTION_PROVIDER}/workspaces/{self.workspace}"

    @property
    def location_id(self) -> str:
        """ARM id of AzureML in the region."""
        return f"/subscriptions/{self.subscription_id}/providers/{SUBSCRIPTION_PROVIDER}/locations/{self.location}"

    @property
    def registry_name(self) -> str:
        """The registry's name, the first label of its host."""
        return self.login_server.partition(".")[0]

    @property
    def registry_id(self) -> str:
        """The ARM id of the registry of images."""
        return f"{self.resource_group_id}/providers/Microsoft.ContainerRegistry/registries/{self.registry_name}"

    @property
    def storage_id(self) -> str:
        """The ARM id of the storage account."""
        return f"{self.resource_group_id}/providers/Microsoft.Storage/storageAccounts/{self.storage_account}"

    @property
    def blob_container(self) -> str:
        """Container of the datastore ``workspaceblobstore``, the default one."""
        return f"azureml-blobstore-{self.workspace_id}"

    @property
    def file_share(self) -> str:
        """File share of the datastore ``workspacefilestore``."""
        return f"azureml-filestore-{self.workspace_id}"

    @property
    def code_share(self) -> str:
        """File share of the datastore ``workspaceworkingdirectory``."""
        return f"code-{self.workspace_id}"

    def owns(self, container: str) -> bool:
        """Return whether the workspace has made a container: for a datastore or an upload."""
        own = (self.blob_container, self.artifact_container, self.file_share, self.code_share)
        return container in own or f"-{self.instance}-" in container


def load_or_create(folder: Path, *, location: str) -> Identity:
    """Return the identity stored in *folder*, or create one (mode 0600).

    Args:
        folder: the data folder; must exist.
        location: Azure region whose host name is served, for example ``eastus``; takes effect on every start.
    """
    path = folder / FILE_NAME
    identity = Identity(**json.loads(path.read_text("utf-8"))) if path.exists() else _create(location)
    identity = replace(identity, location=location)
    write_private(path, f"{json.dumps(asdict(identity), indent=2)}\n".encode())
    return identity


def _create(location: str) -> Identity:
    return Identity(
        instance=secrets.token_hex(4),
        tenant_id=str(uuid.uuid4()),
        client_id=str(uuid.uuid4()),
        client_secret=secrets.token_urlsafe(32),
        object_id=str(uuid.uuid4()),
        token_secret=secrets.token_hex(32),
        subscription_id=str(uuid.uuid4()),
        resource_group="aml-local",
        workspace="local",
        workspace_id=str(uuid.uuid4()),
        location=location,
        compute="local-cluster",
        login_server="amllocal.azurecr.io",
        storage_account="amllocalstore",
        storage_key=base64.b64encode(secrets.token_bytes(64)).decode(),
    )
