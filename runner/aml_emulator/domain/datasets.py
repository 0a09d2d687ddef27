"""Data assets as azureml-core's FileDatasets: one file or one folder each.

azureml-core's work on a dataset (``Dataset.File.from_files``, reading, transforming) is done by the native engine of
azureml-dataprep, on the client's machine. Registering takes the definition that this engine writes, if it is one place
and nothing else: such a dataset is a data asset.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

import yaml

from aml_emulator.domain.errors import ConflictError, DomainError, InvalidError, NotFoundError, NotSupportedError
from aml_emulator.domain.jobs.from_runconfig import dataset_references
from aml_emulator.domain.locations import BlobPath, parse_location
from aml_emulator.domain.workspace import Workspace
from aml_emulator.reading import read_yaml
from aml_emulator.store.assets import AssetVersion

FILES: Final = frozenset({"uri_file", "uri_folder"})
"""Types of data assets that are FileDatasets."""

ANONYMOUS: Final = "dataset-"
"""Begins the name of the data asset of a dataset that is used and not registered."""


def dataset_id(version: AssetVersion) -> str:
    """Return the id by which azureml-core knows a version of a data asset."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"data/{version.name}/{version.version}"))


def find_dataset(workspace: Workspace, reference: Mapping[str, Any]) -> AssetVersion:
    """Return the data asset of a run configuration's dataset, by id or name.

    Without a version it is the newest.

    Raises:
        NotFoundError: there is none.
        NotSupportedError: it is neither a file nor a folder.
    """
    identifier, name, version = (str(reference.get(key) or "") for key in ("id", "name", "version"))
    known = workspace.store.assets.all_versions("data")
    if identifier:
        found = [one for one in known if dataset_id(one) == identifier]
    else:
        newest = version.lower() in ("", "latest")
        versions = [one for one in known if one.name == name]
        shown = [one for one in versions if not one.properties.get("isArchived")]
        found = shown if newest else [one for one in versions if one.version == version]
    if not found:
        raise NotFoundError(f"dataset '{identifier or name}'" + (f", version '{version}'" if version else ""))
    if found[-1].properties.get("dataType") not in FILES:
        _refuse_tables(found[-1])
    return found[-1]


def listed_datasets(workspace: Workspace) -> Iterator[AssetVersion]:
    """Yield the versions that azureml-core lists, oldest first."""
    for version in workspace.store.assets.all_versions("data"):
        is_file = version.properties.get("dataType") in FILES and not version.properties.get("isArchived")
        if is_file and version.version.isdecimal() and not version.properties.get("isAnonymous"):
            yield version


def datasets_read_by(workspace: Workspace, definition: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the datasets that a run reads, in run history's shape."""
    found = []
    for name, reference in dataset_references(definition or {}).items():
        try:
            version = find_dataset(workspace, reference)
        except DomainError:
            continue
        mechanism = str((definition or {})["data"][name].get("mechanism") or "mount").capitalize()
        details = {"inputName": name, "mechanism": mechanism, "pathOnCompute": None}
        identifier = {"savedId": dataset_id(version), "registeredId": None, "registeredVersion": version.version}
        found.append({"identifier": identifier, "consumptionType": "RunInput", "inputDetails": details})
    return found


def register_dataset(
    workspace: Workspace,
    name: str,
    *,
    dataset_type: str,
    dataflow: Any,
    description: str | None,
    tags: Mapping[str, Any],
    next_version: bool,
) -> AssetVersion:
    """Register a dataset of one place as the next version of a data asset.

    The same place again is its version.

    Args:
        dataset_type: azureml-core's word for the type.
        dataflow: the definition that azureml-dataprep wrote.
        next_version: whether an asset of that name gets another version.

    Raises:
        ConflictError: the name is registered, and *next_version* is false.
        DomainError: it has no name, or is not one place.
    """
    if not name:
        raise InvalidError("A dataset has a name.")
    uri, kind = _place(workspace, dataset_type, dataflow)
    assets = workspace.store.assets
    with workspace.store.transaction():
        known = [one for one in assets.versions("data", name) if not one.properties.get("isArchived")]
        same = next((one for one in known if one.properties.get("dataUri") == uri), None)
        if same is not None:
            return same
        if known and not next_version:
            raise ConflictError(
                f"A dataset with the name '{name}' is registered already.", code="Conflict", reasons=()
            )
        properties = {
            "dataUri": uri,
            "dataType": kind,
            "tags": {key: str(value) for key, value in tags.items()},
            "description": description,
            "isArchived": False,
            "isAnonymous": False,
        }
        return assets.put("data", name, assets.next_version("data", name), properties)


def save_dataset(workspace: Workspace, *, dataset_type: str, dataflow: Any) -> AssetVersion:
    """Store a dataset that is used unregistered; one of the same place is stored once."""
    uri, kind = _place(workspace, dataset_type, dataflow)
    name = ANONYMOUS + uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {uri}").hex
    known = workspace.store.assets.version("data", name, "1")
    properties = {"dataUri": uri, "dataType": kind, "isArchived": False, "isAnonymous": True}
    return known or workspace.store.assets.put("data", name, "1", properties)


def unregister_dataset(workspace: Workspace, name: str) -> None:
    """Delete all versions of a data asset; the files stay."""
    versions = workspace.store.assets.versions("data", name)
    if not versions:
        raise NotFoundError(f"dataset '{name}'")
    with workspace.store.transaction():
        for version in versions:
            workspace.store.assets.delete_version("data", name, version.version)
        workspace.store.assets.delete("data", name)


def dataflow_of(workspace: Workspace, version: AssetVersion) -> str:
    """Return a dataset's definition as azureml-dataprep would write it."""
    word = "file" if version.properties["dataType"] == "uri_file" else "folder"
    uri = str(version.properties["dataUri"])
    # The native engine reads long addresses alone. One that leads nowhere stays as it was registered.
    long = None
    with contextlib.suppress(DomainError):
        long = workspace.datastore_uri(workspace.folder(uri)) if uri.startswith("azureml:") else None
    return yaml.safe_dump({"type": "mltable", "paths": [{word: long or uri}]}, sort_keys=False)


def _refuse_tables(version: AssetVersion) -> NoReturn:
    raise NotSupportedError(
        f"the data asset '{version.name}' of type {version.properties.get('dataType')} for azureml-core, which needs azureml-dataprep's native"
        " engine for it (a file or a folder does not; a job of azure-ai-ml takes it as an input of type mltable)"
    )


def _place(workspace: Workspace, dataset_type: str, dataflow: Any) -> tuple[str, str]:
    """Return the address and the type of a dataset that is one place.

    Raises:
        NotSupportedError: it is more than that.
    """
    if dataset_type.lower() != "file":
        raise NotSupportedError(f"datasets of the type '{dataset_type}' (only FileDatasets of one place)")
    try:
        held = json.loads(str(dataflow or "")) if str(dataflow or "").lstrip().startswith("{") else None
        text = dataflow if held is None else held["meta"]["RsDataflow"]
        definition = read_yaml(str(text))
        (path,) = definition["paths"]
        ((word, address),) = path.items()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NotSupportedError("datasets that are not one place (register a data asset for each)") from error
    if definition.get("transformations") or word not in ("file", "folder", "pattern"):
        raise NotSupportedError("datasets that transform what they read (keep the result as a data asset)")
    return _file_or_folder(workspace, word, str(address))


def _file_or_folder(workspace: Workspace, word: str, address: str) -> tuple[str, str]:
    """Return the address and type of azureml-dataprep's file, folder or pattern."""
    is_pattern = word == "pattern"
    if is_pattern and address.endswith("/**"):
        address, word = address[:-2], "folder"
    if is_pattern and any(sign in address for sign in "*?["):
        raise NotSupportedError(
            f"datasets of a pattern ('{address}'; a file, a folder or all below a folder is supported)"
        )
    is_elsewhere = isinstance(parse_location(address), BlobPath)
    if word == "pattern":
        place = None if is_elsewhere else workspace.folder(address)
        is_folder = place is not None and workspace.blobs.size(place.container, place.prefix) is None
        word = "folder" if is_folder else "file"
    return address, "uri_file" if word == "file" else "uri_folder"
