"""The dataset service of azureml-core, ``/dataset/v1.0``: FileDatasets."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from aml_emulator.api.routing import Answers, Call, Reply, Route
from aml_emulator.api.shapes import cut, iso, listed
from aml_emulator.context import Context
from aml_emulator.domain.datasets import (
    dataflow_of,
    dataset_id,
    find_dataset,
    listed_datasets,
    register_dataset,
    save_dataset,
    unregister_dataset,
)
from aml_emulator.domain.errors import NotSupportedError
from aml_emulator.schema import TEXT, WORD, WORDS, Fields
from aml_emulator.store.assets import AssetVersion

UNREGISTERED = "unregistered-"
"""By this prefix the client asks for the definition of a dataset by its id."""

PAGE = 100


DATASET = Fields(
    {"name": WORD, "datasetType": WORD, "description": TEXT, "tags": WORDS, "latest": Fields({"dataflow": WORD})}
)


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of datasets."""
    datasets = Datasets(context)
    base, data = "/dataset/v1.0{WS}", "/data/v1.0{WS}/dataversion"
    return (
        Route("GET", f"{base}/datasets", datasets.list),
        Route("POST", f"{base}/datasets", datasets.register),
        Route("GET", f"{base}/datasets/query/{{query}}", datasets.query),
        Route("DELETE", f"{base}/datasets/{{name}}", datasets.unregister),
        Route("POST", f"{base}/saveddatasets", datasets.save),
        Route("GET", f"{base}/saveddatasets/{{id}}", datasets.saved),
        Route("GET", f"{data}/{{name}}/versions/{{version}}", datasets.definition),
    )


class Datasets(Answers):
    """Answers for datasets."""

    def list(self, call: Call) -> dict[str, Any]:
        """Return the newest version of each file or folder, by name, in pages."""
        newest = {version.name: version for version in listed_datasets(self._context)}
        found = [newest[name] for name in sorted(newest)]
        skip, size = call.integer("continuationToken", 0), call.integer("pageSize", PAGE, low=1, high=PAGE)
        shown, following = cut(found, skip, size)
        return listed([self._view(one) for one in shown], following)

    def query(self, call: Call) -> dict[str, Any]:
        """Return a dataset by its name, and the datasets of an id."""
        word, _, value = call.params["query"].partition("=")
        if word.lower() == "name":
            version = call.query.get("versionId") or ""
            return self._view(find_dataset(self._context, {"name": value, "version": version}))
        if word.lower() == "saveddatasetid":
            found = [one for one in listed_datasets(self._context) if dataset_id(one) == value]
            return listed([self._view(one) for one in found])
        raise NotSupportedError(f"datasets by '{word}'")

    def saved(self, call: Call) -> dict[str, Any]:
        """Return what is kept of a dataset by its id."""
        return self._saved(find_dataset(self._context, {"id": call.params["id"]}))

    def definition(self, call: Call) -> dict[str, Any]:
        """Return a version with what azureml-dataprep would make of it, as YAML."""
        name, version = call.params["name"], call.params["version"]
        if name.startswith(UNREGISTERED):
            found = find_dataset(self._context, {"id": name.removeprefix(UNREGISTERED)})
        else:
            found = find_dataset(
                self._context, {"name": name, "version": "" if version in ("None", "latest") else version}
            )
        properties = found.properties
        return {
            "dataVersion": {"dataUri": properties["dataUri"], "dataType": properties["dataType"]},
            "legacyDataflow": dataflow_of(self._context, found),
        }

    def register(self, call: Call) -> dict[str, Any]:
        """Register a dataset of one place as the next version of a data asset."""
        given = call.json(DATASET)
        version = register_dataset(
            self._context,
            str(given.get("name") or ""),
            dataset_type=str(given.get("datasetType") or ""),
            dataflow=(given.get("latest") or {}).get("dataflow"),
            description=given.get("description"),
            tags=given.get("tags") or {},
            next_version=call.query.get("ifExistsOk", "").lower() == "true",
        )
        return self._view(version)

    def save(self, call: Call) -> dict[str, Any]:
        """Store a dataset that is used without being registered."""
        given = call.json(Fields({"datasetType": WORD, "dataflowJson": WORD}))
        return self._saved(
            save_dataset(
                self._context, dataset_type=str(given.get("datasetType") or ""), dataflow=given.get("dataflowJson")
            )
        )

    def unregister(self, call: Call) -> Reply:
        """Delete all versions of a data asset; the files stay."""
        unregister_dataset(self._context, call.params["name"])
        return Reply(status=200)

    def _saved(self, version: AssetVersion) -> dict[str, Any]:
        flow = {"blocks": [], "meta": {"RsDataflow": dataflow_of(self._context, version)}}
        return {
            "id": dataset_id(version),
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
