"""The dataset service of azureml-core, ``/dataset/v1.0``: data assets that are files or folders, as FileDatasets.

azureml-core finds datasets, and hands them to runs, by requests alone. What it makes of one (``Dataset.File.from_files``, reading, transforming) is
done by the native engine of azureml-dataprep, on the client's machine. Registering takes what that engine writes down of a dataset, if it is one
place and nothing else: such a dataset is a data asset.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import yaml

from aml_emulator.api.bodies import TEXT, WORD, WORDS, Fields
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.shapes import iso
from aml_emulator.context import Services
from aml_emulator.domain.jobs.from_runconfig_data import references
from aml_emulator.domain.locations import BlobPath, LocationError, parse
from aml_emulator.errors import NotSupportedError, ServiceError, bad_request, not_found
from aml_emulator.store.assets import AssetVersion

FILES = frozenset({"uri_file", "uri_folder"})
"""Types of data assets that are FileDatasets."""

UNREGISTERED = "unregistered-"
"""By this prefix the client asks for the definition of a dataset by its id."""

ANONYMOUS = "dataset-"
"""Begins the name of the data asset of a dataset that is used and not registered."""

PAGE = 100


DATASET = Fields(
    {
        "name": WORD,
        "datasetType": WORD,
        "description": TEXT,
        "tags": WORDS,
        "latest": Fields({"dataflow": WORD}),
    }
)


def routes(services: Services) -> Sequence[Route]:
    """Return the routes of datasets."""
    datasets = Datasets(services)
    base, data = "/dataset/v1.0{WS}", "/data/v1.0{WS}/dataversion"
    return (
        Route(method="GET", path=f"{base}/datasets", handler=datasets.list),
        Route(method="POST", path=f"{base}/datasets", handler=datasets.register),
        Route(method="GET", path=f"{base}/datasets/query/{{query}}", handler=datasets.query),
        Route(method="DELETE", path=f"{base}/datasets/{{name}}", handler=datasets.unregister),
        Route(method="POST", path=f"{base}/saveddatasets", handler=datasets.save),
        Route(method="GET", path=f"{base}/saveddatasets/{{id}}", handler=datasets.saved),
        Route(method="GET", path=f"{data}/{{name}}/versions/{{version}}", handler=datasets.definition),
    )


def saved_id(version: AssetVersion) -> str:
    """Return the id by which azureml-core knows a version of a data asset."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"data/{version.name}/{version.version}"))


def find(services: Services, reference: Mapping[str, Any]) -> AssetVersion:
    """Return the data asset that a run configuration's dataset means: by its id, or by name and version, of which none is the newest.

    Raises:
        ServiceError: 404 where there is none; 501 where it is no file or folder.
    """
    identifier, name, version = (str(reference.get(key) or "") for key in ("id", "name", "version"))
    known = services.store.assets.all_versions("data")
    if identifier:
        found = [one for one in known if saved_id(one) == identifier]
    else:
        newest = version.lower() in ("", "latest")
        versions = [one for one in known if one.name == name]
        shown = [one for one in versions if not one.properties.get("isArchived")]
        found = shown if newest else [one for one in versions if one.version == version]
    if not found:
        raise not_found(f"dataset '{identifier or name}'" + (f", version '{version}'" if version else ""))
    if found[-1].properties.get("dataType") not in FILES:
        _refuse_tables(found[-1])
    return found[-1]


def _refuse_tables(version: AssetVersion) -> NoReturn:
    raise NotSupportedError(
        f"the data asset '{version.name}' of type {version.properties.get('dataType')} for azureml-core, which needs azureml-dataprep's native"
        " engine for it (a file or a folder does not; a job of azure-ai-ml takes it as an input of type mltable)"
    )


def read_by(services: Services, definition: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the datasets that a run of azureml-core reads, as run history tells them; those that are gone are left out."""
    found = []
    for name, reference in references(definition or {}).items():
        try:
            version = find(services, reference)
        except ServiceError:
            continue
        mechanism = str((definition or {})["data"][name].get("mechanism") or "mount").capitalize()
        details = {"inputName": name, "mechanism": mechanism, "pathOnCompute": None}
        identifier = {"savedId": saved_id(version), "registeredId": None, "registeredVersion": version.version}
        found.append({"identifier": identifier, "consumptionType": "RunInput", "inputDetails": details})
    return found


class Datasets:
    """Answers for datasets."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def list(self, call: Call) -> dict[str, Any]:
        """Return the newest version of each data asset that is a file or a folder, by name, in pages."""
        newest = {version.name: version for version in self._shown()}
        found = [newest[name] for name in sorted(newest)]
        skip, size = call.integer("continuationToken", 0), call.integer("pageSize", PAGE, low=1, high=PAGE)
        more = len(found) > skip + size
        return {
            "value": [self._view(one) for one in found[skip : skip + size]],
            "continuationToken": str(skip + size) if more else None,
        }

    def query(self, call: Call) -> dict[str, Any]:
        """Return a dataset by its name, and the datasets of an id."""
        word, _, value = call.params["query"].partition("=")
        if word.lower() == "name":
            version = call.query.get("versionId") or ""
            return self._view(find(self._services, {"name": value, "version": version}))
        if word.lower() == "saveddatasetid":
            found = [one for one in self._shown() if saved_id(one) == value]
            return {"value": [self._view(one) for one in found], "continuationToken": None}
        raise NotSupportedError(f"datasets by '{word}'")

    def saved(self, call: Call) -> dict[str, Any]:
        """Return what is kept of a dataset by its id."""
        return self._saved(find(self._services, {"id": call.params["id"]}))

    def definition(self, call: Call) -> dict[str, Any]:
        """Return a version with what azureml-dataprep would make of it, as YAML."""
        name, version = call.params["name"], call.params["version"]
        if name.startswith(UNREGISTERED):
            found = find(self._services, {"id": name.removeprefix(UNREGISTERED)})
        else:
            found = find(self._services, {"name": name, "version": "" if version in ("None", "latest") else version})
        properties = found.properties
        return {
            "dataVersion": {"dataUri": properties["dataUri"], "dataType": properties["dataType"]},
            "legacyDataflow": self._dataflow(found),
        }

    def register(self, call: Call) -> dict[str, Any]:
        """Register a dataset of one place: the next version of a data asset; the same place again is the version that is there."""
        given = call.json(DATASET)
        name, latest = str(given.get("name") or ""), given.get("latest") or {}
        if not name:
            raise bad_request("A dataset has a name.")
        uri, kind = self._place(str(given.get("datasetType") or ""), latest.get("dataflow"))
        assets = self._services.store.assets
        with self._services.store.transaction():
            known = [one for one in assets.versions("data", name) if not one.properties.get("isArchived")]
            same = next((one for one in known if one.properties.get("dataUri") == uri), None)
            if same is not None:
                return self._view(same)
            if known and call.query.get("ifExistsOk", "").lower() != "true":
                raise ServiceError(409, "Conflict", f"A dataset with the name '{name}' is registered already.")
            properties = {
                "dataUri": uri,
                "dataType": kind,
                "tags": {key: str(value) for key, value in (given.get("tags") or {}).items()},
                "properties": {},
                "description": given.get("description"),
                "isArchived": False,
                "isAnonymous": False,
            }
            return self._view(assets.put("data", name, assets.next_version("data", name), properties))

    def save(self, call: Call) -> dict[str, Any]:
        """Keep a dataset that is used without being registered; one of the same place is kept once."""
        given = call.json(Fields({"datasetType": WORD, "dataflowJson": WORD}))
        uri, kind = self._place(str(given.get("datasetType") or ""), given.get("dataflowJson"))
        name = ANONYMOUS + uuid.uuid5(uuid.NAMESPACE_OID, f"{kind} {uri}").hex
        known = self._services.store.assets.version("data", name, "1")
        if known is None:
            common: dict[str, Any] = {
                "tags": {},
                "properties": {},
                "description": None,
                "isArchived": False,
                "isAnonymous": True,
            }
            properties = {"dataUri": uri, "dataType": kind, **common}
            known = self._services.store.assets.put("data", name, "1", properties)
        return self._saved(known)

    def unregister(self, call: Call) -> Reply:
        """Forget all versions of a data asset; the files stay."""
        name = call.params["name"]
        versions = self._services.store.assets.versions("data", name)
        if not versions:
            raise not_found(f"dataset '{name}'")
        with self._services.store.transaction():
            for version in versions:
                self._services.store.assets.delete_version("data", name, version.version)
            self._services.store.assets.delete("data", name)
        return Reply(status=200)

    def _shown(self) -> Iterator[AssetVersion]:
        for version in self._services.store.assets.all_versions("data"):
            is_file = version.properties.get("dataType") in FILES and not version.properties.get("isArchived")
            if is_file and version.version.isdecimal() and not version.properties.get("isAnonymous"):
                yield version

    def _place(self, dataset_type: str, dataflow: Any) -> tuple[str, str]:
        """Return the address and the type of a dataset that is one place.

        Raises:
            ServiceError: 501 for a dataset that is more than that.
        """
        if dataset_type.lower() != "file":
            raise NotSupportedError(f"datasets of the type '{dataset_type}' (only FileDatasets of one place)")
        try:
            held = json.loads(str(dataflow or "")) if str(dataflow or "").lstrip().startswith("{") else None
            text = dataflow if held is None else held["meta"]["RsDataflow"]
            definition = yaml.safe_load(text)
            (path,) = definition["paths"]
            ((word, address),) = path.items()
        except (ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError) as error:
            raise NotSupportedError("datasets that are not one place (register a data asset for each)") from error
        if definition.get("transformations") or word not in ("file", "folder", "pattern"):
            raise NotSupportedError("datasets that transform what they read (keep the result as a data asset)")
        return self._file_or_folder(word, str(address))

    def _file_or_folder(self, word: str, address: str) -> tuple[str, str]:
        """Return the address and the type of what azureml-dataprep calls a file, a folder or a pattern, which may be either."""
        is_pattern = word == "pattern"
        if is_pattern and address.endswith("/**"):
            address, word = address[:-2], "folder"
        if is_pattern and any(sign in address for sign in "*?["):
            raise NotSupportedError(
                f"datasets of a pattern ('{address}'; a file, a folder or all below a folder is supported)"
            )
        try:
            is_elsewhere = isinstance(parse(address), BlobPath)
        except LocationError as error:
            raise bad_request(str(error)) from error
        if word == "pattern":
            place = None if is_elsewhere else self._services.folder(address)
            is_folder = place is not None and self._services.blobs.size(place.container, place.prefix) is None
            word = "folder" if is_folder else "file"
        return address, "uri_file" if word == "file" else "uri_folder"

    def _dataflow(self, version: AssetVersion) -> str:
        word = "file" if version.properties["dataType"] == "uri_file" else "folder"
        uri = str(version.properties["dataUri"])
        # The native engine reads long addresses alone. One that leads nowhere stays as it was registered.
        long = None
        with contextlib.suppress(ServiceError):
            long = self._services.datastore_uri(self._services.folder(uri)) if uri.startswith("azureml:") else None
        return yaml.safe_dump({"type": "mltable", "paths": [{word: long or uri}]}, sort_keys=False)

    def _saved(self, version: AssetVersion) -> dict[str, Any]:
        flow = {"blocks": [], "meta": {"RsDataflow": self._dataflow(version)}}
        return {
            "id": saved_id(version),
            "datasetType": "file",
            "properties": {},
            "dataflowJson": json.dumps(flow),
            "dataChanged": False,
            "dataPath": None,
        }

    def _view(self, version: AssetVersion) -> dict[str, Any]:
        saved, properties = self._saved(version), version.properties
        registered = str(uuid.uuid5(uuid.NAMESPACE_OID, f"data/{version.name}"))
        times = {"createdTime": iso(version.created), "modifiedTime": iso(version.modified)}
        return {
            "datasetId": registered,
            "datasetState": {"state": "active"},
            "latest": {
                "datasetId": registered,
                "versionId": version.version,
                "datasetDefinitionState": {"state": "active"},
                "dataflow": saved["dataflowJson"],
                "dataPath": None,
                "properties": {},
                "savedDatasetId": saved["id"],
                **times,
            },
            **times,
            "name": version.name,
            "description": properties.get("description"),
            "tags": dict(properties.get("tags") or {}),
            "isVisible": True,
            "datasetType": "file",
        }
