from __future__ import annotations

import pytest

from aml_emulator.domain.errors import InvalidError
from aml_emulator.domain.locations import AssetId, BlobPath, DatastorePath, JobOutput, Location, parse_location

SCOPE = "subscriptions/s/resourcegroups/g/workspaces/w"
ARM = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("azureml://datastores/ds/paths/a/b/", DatastorePath(datastore="ds", path="a/b")),
        ("azureml://datastores/ds/paths/", DatastorePath(datastore="ds", path="")),
        ("azureml://datastores/ds/ExperimentRun/dcid.r", DatastorePath(datastore="ds", path="ExperimentRun/dcid.r")),
        (f"azureml://{SCOPE}/datastores/ds/paths/a", DatastorePath(datastore="ds", path="a")),
        ("azureml://jobs/r/outputs/artifacts/paths/outputs/m", JobOutput(job="r", output=None, path="outputs/m")),
        ("azureml://jobs/r/outputs/artifacts/outputs/m", JobOutput(job="r", output=None, path="outputs/m")),
        ("azureml://jobs/r/outputs/default", JobOutput(job="r", output=None, path="")),
        ("azureml://jobs/r/outputs/model", JobOutput(job="r", output="model", path="")),
        ("azureml://jobs/r/outputs/model/paths/x/y", JobOutput(job="r", output="model", path="x/y")),
        ("runs:/r/model", JobOutput(job="r", output=None, path="model")),
        (
            "azureml://eastus.api.azureml.ms/mlflow/v2.0/subscriptions/s/experiments/e/runs/r/artifacts/model",
            JobOutput(job="r", output=None, path="model"),
        ),
        (
            "azureml://artifacts/LocalUpload/c/m",
            DatastorePath(datastore="workspaceartifactstore", path="LocalUpload/c/m"),
        ),
        (f"{ARM}/data/d/versions/2", AssetId(kind="data", name="d", version="2")),
        (f"azureml:{ARM}/models/m/versions/1", AssetId(kind="models", name="m", version="1")),
        ("azureml://locations/l/workspaces/w/data/d/versions/1", AssetId(kind="data", name="d", version="1")),
        ("azureml:d:1", AssetId(kind="", name="d", version="1")),
        (
            "https://a.blob.core.windows.net/c/x%20y/z?sig=s",
            BlobPath(host="a.blob.core.windows.net", container="c", path="x y/z"),
        ),
        ("wasbs://c@a.blob.core.windows.net/x", BlobPath(host="a.blob.core.windows.net", container="c", path="x")),
    ],
)
def test_every_form_of_address_is_read(uri: str, expected: Location) -> None:
    assert parse_location(uri) == expected


@pytest.mark.parametrize("uri", ["", "local/path", "azureml:name", "azureml://else/x", "ftp://x/y?sig=hidden"])
def test_other_addresses_are_refused_without_their_query(uri: str) -> None:
    with pytest.raises(InvalidError, match="is not an address that AzureML knows") as caught:
        parse_location(uri)
    assert "hidden" not in str(caught.value)
