"""Data assets as azureml-core's datasets, and what azureml-dataprep writes down of a dataset as a data asset."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.emulator.api.test_v1 import API, ask
from tests.unit.emulator.parts import WS, Service

BASE = f"/dataset/v1.0{WS}"
DATA = f"/data/v1.0{WS}/dataversion"
PLACE = "azureml://datastores/workspaceblobstore/paths/digits/"


def asset(service: Service, name: str, version: str = "1", *, kind: str = "uri_folder", **more: Any) -> None:
    body = {"properties": {"dataUri": PLACE, "dataType": kind, **more}}
    assert service.call("PUT", f"{WS}/data/{name}/versions/{version}", body).status in (200, 201)


def flow(*paths: dict[str, str], **more: Any) -> str:
    """Return what azureml-dataprep 5 writes down."""
    return json.dumps({"blocks": [], "meta": {"RsDataflow": json.dumps({"type": "mltable", "paths": paths, **more})}})


def test_files_and_folders_are_datasets(service: Service) -> None:
    asset(service, "digits", tags={"a": "b"})
    asset(service, "digits", "2", kind="uri_file")
    asset(service, "digits", "words")
    asset(service, "table", kind="mltable")
    (listed,) = ask(service, "GET", f"{BASE}/datasets")["value"]
    assert (listed["name"], listed["datasetType"], listed["latest"]["versionId"]) == ("digits", "file", "2")
    first = ask(service, "GET", f"{BASE}/datasets/query/name=digits?versionId=1")
    assert (first["tags"], first["latest"]["versionId"]) == ({"a": "b"}, "1")
    saved = first["latest"]["savedDatasetId"]
    assert ask(service, "GET", f"{BASE}/saveddatasets/{saved}")["id"] == saved
    (again,) = ask(service, "GET", f"{BASE}/datasets/query/savedDatasetId={saved}?pageSize=1")["value"]
    assert again["latest"]["versionId"] == "1"
    definition = ask(service, "GET", f"{DATA}/unregistered-{saved}/versions/1?includeSavedDatasets=true")
    assert "- folder: azureml://subscriptions/" in definition["legacyDataflow"]
    assert definition["legacyDataflow"].endswith("/datastores/workspaceblobstore/paths/digits\n")
    assert ask(service, "GET", f"{DATA}/digits/versions/1")["dataVersion"] == {
        "dataUri": service.services.long_uri("workspaceblobstore", "digits/"),
        "dataType": "uri_folder",
    }


@pytest.mark.parametrize(
    ("kind", "dataflow", "why"),
    [
        ("tabular", flow({"file": PLACE}), "datasets of the type 'tabular'"),
        ("file", flow({"file": PLACE}, {"file": PLACE}), "datasets that are not one place"),
        ("file", flow({"file": PLACE}, transformations=["read_delimited"]), "datasets that transform"),
        ("file", flow({"pattern": f"{PLACE}*.csv"}), "datasets of a pattern"),
        ("file", flow({"pattern": f"{PLACE}*/**"}), "datasets of a pattern"),
        ("file", "no: [yaml", "datasets that are not one place"),
        ("file", "{}", "datasets that are not one place"),
    ],
)
def test_what_is_more_than_a_place(service: Service, kind: str, dataflow: str, why: str) -> None:
    answer = service.call("POST", f"{BASE}/saveddatasets", {"datasetType": kind, "dataflowJson": dataflow}, host=API)
    assert (answer.status, why in answer.json["error"]["message"]) == (501, True)
