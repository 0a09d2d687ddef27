"""Registries of assets, and the one with curated environments.

The registry ``azureml`` is Microsoft's: here it has the curated environments that an image plays, and cannot be changed.
Others are made with ``aml-train emulator registry create``. Their files are in the workspace's storage account, the only
one that there is.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.domain.assets import known_version, put_container, put_version
from aml_emulator.domain.curated import (
    CURATED_REGISTRY,
    curated_container,
    curated_containers,
    curated_version,
    curated_versions,
)
from aml_emulator.domain.errors import ConflictError, InvalidError, NotFoundError
from aml_emulator.domain.locations import AssetId, parse_location
from aml_emulator.domain.workspace import REGISTRIES, Workspace, shelf
from aml_emulator.store.assets import AssetContainer, AssetVersion

REGISTRY_KINDS: Final = ("environments", "models", "data", "components", "codes")
"""The kinds of assets that a registry has."""

_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{2,32}")
"""The name of a registry, as in azure-rest-api-specs, machinelearningservices: registries."""

_ADDRESSES: Final = {"models": "modelUri", "data": "dataUri"}


@dataclass(frozen=True, kw_only=True)
class Registry:
    """A registry; *created* is in seconds since the epoch.

    Attributes:
        id: its GUID.
    """

    name: str
    id: str
    properties: Mapping[str, Any]
    created: float

    @property
    def address(self) -> str:
        """The beginning of its assets' ids, with its name as it was created.

        See azure-sdk-for-python, sdk/ml/azure-ai-ml/tests/environment/e2etests,
        test_registry_environment_create_conda_and_get: ids in the registry ``testFeed`` begin with
        ``azureml://registries/testFeed``.
        """
        return f"azureml://registries/{self.name}"

    @property
    def curated(self) -> bool:
        """Whether it is the one with curated environments."""
        return self.name == CURATED_REGISTRY


def create_registry(workspace: Workspace, name: str, properties: Mapping[str, Any]) -> None:
    """Create or change a registry.

    Args:
        properties: its tags and description.

    Raises:
        InvalidError: the name is none, or Microsoft's.
    """
    if name.lower() == CURATED_REGISTRY:
        raise _read_only()
    if not _NAME.fullmatch(name):
        raise InvalidError(
            f"The registry name '{name}' is invalid: 3 to 33 letters, digits, '_' and '-', beginning with a letter or digit."
        )
    with workspace.store.transaction():
        known = find_registry(workspace, name)
        workspace.store.assets.put_container(REGISTRIES, known.name if known else name, properties)


def delete_registry(workspace: Workspace, name: str) -> bool:
    """Delete a registry with its assets; return whether it existed. Blobs stay.

    Raises:
        InvalidError: it is Microsoft's.
    """
    known = find_registry(workspace, name)
    if known is None:
        return False
    if known.curated:
        raise _read_only()
    assets = workspace.store.assets
    with workspace.store.transaction():
        for kind in REGISTRY_KINDS:
            for container in assets.containers(shelf(kind, known.name)):
                assets.delete(container.kind, container.name)
        return assets.delete(REGISTRIES, known.name)


def all_registries(workspace: Workspace) -> list[Registry]:
    """Return all registries, the one with curated environments first."""
    stored = workspace.store.assets.containers(REGISTRIES)
    return [_curated(workspace), *(_registry(workspace, one.name, one.properties, one.created) for one in stored)]


def count_shared(workspace: Workspace) -> dict[str, int]:
    """Return the number of versions of assets in each registry, by its name."""
    counts = workspace.store.assets.count()
    found = {
        one.name: sum(counts.get(shelf(kind, one.name), 0) for kind in REGISTRY_KINDS)
        for one in all_registries(workspace)
    }
    curated = sum(len(curated_versions(workspace, one.name)) for one in curated_containers(workspace))
    return {**found, CURATED_REGISTRY: curated}


def find_registry(workspace: Workspace, name: str) -> Registry | None:
    """Return a registry by its name, in whatever case, or None."""
    return next((one for one in all_registries(workspace) if one.name.lower() == name.lower()), None)


def known_registry(workspace: Workspace, name: str) -> Registry:
    """Return a registry by its name, in whatever case.

    Raises:
        NotFoundError: there is none.
    """
    found = find_registry(workspace, name)
    if found is None:
        names = ", ".join(one.name for one in all_registries(workspace))
        raise NotFoundError(
            f"registry '{name}'",
            message=f"The registry '{name}' was not found. There are: {names}. Another one is made with: aml-train emulator"
            f" registry create {name}",
        )
    return found


def shared_containers(workspace: Workspace, registry: Registry, kind: str) -> Sequence[AssetContainer]:
    """Return the names of assets in a registry."""
    if registry.curated:
        return curated_containers(workspace) if kind == "environments" else ()
    return workspace.store.assets.containers(shelf(kind, registry.name))


def shared_container(workspace: Workspace, registry: Registry, kind: str, name: str) -> AssetContainer | None:
    """Return what is common to all versions of a name in a registry, or None."""
    if registry.curated:
        return curated_container(workspace, name) if shared_versions(workspace, registry, kind, name) else None
    return workspace.store.assets.container(shelf(kind, registry.name), name)


def shared_versions(workspace: Workspace, registry: Registry, kind: str, name: str) -> Sequence[AssetVersion]:
    """Return the versions of an asset in a registry, the newest first."""
    if registry.curated:
        return curated_versions(workspace, name) if kind == "environments" else ()
    return workspace.store.assets.versions(shelf(kind, registry.name), name)


def shared_version(workspace: Workspace, registry: Registry, kind: str, name: str, version: str) -> AssetVersion:
    """Return a version of an asset in a registry.

    Raises:
        NotFoundError: there is none.
    """
    if registry.curated and kind == "environments":
        found = curated_version(workspace, name, version)
    else:
        found = workspace.store.assets.version(shelf(kind, registry.name), name, version)
    if found is None:
        raise NotFoundError(f"{kind} '{name}', version '{version}', in the registry '{registry.name}'")
    return found


def put_shared_container(
    workspace: Workspace, registry: Registry, kind: str, name: str, properties: Mapping[str, Any]
) -> tuple[AssetContainer, bool]:
    """Create or change the common part of a name; return it and whether it is new.

    Raises:
        InvalidError: the registry is Microsoft's, or no asset can have this name.
    """
    if registry.curated:
        raise _read_only()
    return put_container(workspace, shelf(kind, registry.name), name, properties)


def put_shared(
    workspace: Workspace, registry: Registry, kind: str, name: str, version: str, given: Mapping[str, Any]
) -> AssetVersion:
    """Create a version of an asset in a registry, or change its tags and description.

    Raises:
        DomainError: as `put_version`, or the registry is Microsoft's.
    """
    if registry.curated:
        raise _read_only()
    return put_version(workspace, kind, name, version, given, registry=registry.name)[0]


def import_asset(
    workspace: Workspace, registry: Registry, source: str, *, name: str | None, version: str | None
) -> AssetVersion:
    """Copy an asset of the workspace into a registry.

    Args:
        source: the asset's id.
        name: its name there; its own where none is given.
        version: likewise.

    Raises:
        NotFoundError: there is no such asset.
        ConflictError: the registry has that version.
        InvalidError: the address is no asset's, or the registry is Microsoft's.
    """
    asset = parse_location(source, what="The asset to import")
    if not isinstance(asset, AssetId) or asset.registry is not None or asset.kind not in REGISTRY_KINDS:
        raise InvalidError(f"'{source}' is not the id of an asset of the workspace.")
    known = known_version(workspace, asset.kind, asset.name, asset.version)
    chosen, number = name or asset.name, version or asset.version
    if workspace.store.assets.version(shelf(asset.kind, registry.name), chosen, number) is not None:
        raise ConflictError(f"The registry '{registry.name}' has '{chosen}', version '{number}', in {asset.kind}.")
    given = {key: value for key, value in known.properties.items() if value is not None}
    if asset.kind in _ADDRESSES:
        # The files stay where they are, and so does the copy's address if the workspace's asset goes.
        folder = workspace.folder(str(given[_ADDRESSES[asset.kind]]))
        given[_ADDRESSES[asset.kind]] = workspace.blobs.url(folder.container, folder.prefix)
    return put_shared(workspace, registry, asset.kind, chosen, number, given)


def _read_only() -> InvalidError:
    return InvalidError(
        f"The registry '{CURATED_REGISTRY}' is Microsoft's and cannot be changed. Make another one: aml-train emulator registry"
        " create NAME"
    )


def _curated(workspace: Workspace) -> Registry:
    about = {"description": "Curated environments that an image of this machine plays"}
    return _registry(workspace, CURATED_REGISTRY, about, workspace.started)


def _registry(workspace: Workspace, name: str, properties: Mapping[str, Any], created: float) -> Registry:
    place = f"{workspace.identity.instance}/registries/{name.lower()}"
    return Registry(name=name, id=str(uuid.uuid5(uuid.NAMESPACE_URL, place)), properties=properties, created=created)
