"""Curated environments as assets: those that an image of this machine plays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from aml_emulator.domain.workspace import Workspace
from aml_emulator.reading import whole
from aml_emulator.store.assets import AssetContainer, AssetVersion

CURATED_REGISTRY: Final = "azureml"
"""The registry of Microsoft's own assets."""

CURATED_PREFIX: Final = "AzureML-"
"""The names of curated environments that every workspace shows begin with this."""

KNOWN_NAMES: Final = (
    "acpt-pytorch-2.8-cuda12.6",
    "lightgbm-3.3",
    "model-evaluation",
    "responsibleai-tabular",
    "sklearn-1.5",
    "tensorflow-2.16-cuda12",
    "AzureML-acpt-pytorch-2.8-cuda12.6",
    "AzureML-lightgbm-3.3",
    "AzureML-sklearn-1.5",
    "AzureML-tensorflow-2.16-cuda12",
)
"""Names that lists show if a pattern with wildcards fits: those in the jobs of Azure/azureml-examples, 2026."""

FIRST: Final = "1"
"""The version of an environment whose pattern names none."""

_WILD: Final = frozenset("*?[")
_LABELS: Final = ("", "latest")


def is_curated(name: str) -> bool:
    """Return whether every workspace shows a curated environment of this name."""
    return name.lower().startswith(CURATED_PREFIX.lower())


def curated_image(workspace: Workspace, name: str, version: str | None) -> str | None:
    """Return the image that plays a curated environment, by version or label."""
    if (version or "").lower() in _LABELS:
        version = _versions(workspace, name)[0]
    return workspace.environments.image_of(name, version)


def curated_version(workspace: Workspace, name: str, version: str) -> AssetVersion | None:
    """Return a version of a curated environment, None if no image plays it."""
    image = workspace.environments.image_of(name, version)
    if image is None:
        return None
    properties: dict[str, Any] = {"image": image, "environmentType": "Curated", "osType": "Linux"}
    return AssetVersion(
        kind="environments",
        name=name,
        version=version,
        properties=properties,
        stage=None,
        hash=None,
        created=workspace.started,
        modified=workspace.started,
    )


def curated_versions(workspace: Workspace, name: str) -> list[AssetVersion]:
    """Return the versions of a curated environment that are known, the newest first."""
    found = (curated_version(workspace, name, one) for one in _versions(workspace, name))
    return [one for one in found if one is not None]


def curated_containers(workspace: Workspace) -> list[AssetContainer]:
    """Return the names of curated environments that an image plays, in order."""
    names = {one.lower(): one for one in (*KNOWN_NAMES, *_named(workspace)) if curated_versions(workspace, one)}
    return [curated_container(workspace, name) for _, name in sorted(names.items())]


def curated_container(workspace: Workspace, name: str) -> AssetContainer:
    """Return what is common to all versions of a curated environment."""
    return AssetContainer(
        kind="environments", name=name, properties={}, created=workspace.started, modified=workspace.started
    )


def _named(workspace: Workspace) -> Iterator[str]:
    """Yield the names in patterns without wildcards."""
    for pattern in workspace.environments.listed():
        if not _WILD & set(pattern):
            yield pattern.partition(":")[0]


def _versions(workspace: Workspace, name: str) -> list[str]:
    """Return the versions of a name in patterns, the highest number first."""
    found = {
        version
        for pattern in workspace.environments.listed()
        for known, _, version in [pattern.partition(":")]
        if known.lower() == name.lower() and version and not _WILD & set(version)
    }
    return sorted(found, key=_place, reverse=True) or [FIRST]


def _place(version: str) -> tuple[int, str]:
    number = whole(version)
    return -1 if number is None else number, version
