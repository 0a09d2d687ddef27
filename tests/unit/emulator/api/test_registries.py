"""Registries: Microsoft's with curated environments, and others with assets of all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.emulator.memory_service import StoredBlobs
from tests.unit.emulator.parts import IDENTITY, Answer, Service

GROUP = f"{IDENTITY.resource_group_id}/providers/Microsoft.MachineLearningServices"
HOST = f"cert-{IDENTITY.location}.experiments.azureml.net"


@pytest.fixture
def emulator() -> Iterator[Service]:
    service = Service(blobs=StoredBlobs())
    assert service.admin("POST", "registries?name=Shared&description=ours")[0] == 200
    yield service
    service.close()


def shared(service: Service, method: str, path: str, body: Any = None, registry: str = "shared") -> Answer:
    """Send a request to a registry, as azure-ai-ml does."""
    return service.call(method, f"/mferp/managementfrontend{GROUP}/registries/{registry}/{path}", body, host=HOST)


def test_a_shared_asset_outlives_the_jobs_and_assets_of_the_workspace(emulator: Service) -> None:
    emulator.submit("job-1")
    emulator.store.runs.finish("job-1", "Completed")
    uri = "azureml://jobs/job-1/outputs/artifacts/paths/m"
    emulator.store.assets.put("models", "mine", "1", {"modelUri": uri, "modelType": "custom_model"})
    source = f"azureml://locations/eastus/workspaces/{IDENTITY.workspace_id}/models/mine/versions/1"
    body = {"properties": {"referenceType": "Id", "destinationName": "theirs", "sourceAssetId": source}}
    assert shared(emulator, "GET", "models/theirs/versions?$top=1").json["value"] == []
    assert shared(emulator, "POST", "import", body).status == 202
    assert shared(emulator, "POST", "import", body).status == 409
    emulator.store.assets.delete("models", "mine")
    answer = shared(emulator, "GET", "models/theirs/versions/1").json
    assert answer["id"] == "azureml://registries/Shared/models/theirs/versions/1"
    shown = answer["properties"]
    assert shown["modelUri"].endswith("ExperimentRun/dcid.job-1/m")


def test_curated_environments_are_those_that_an_image_plays(emulator: Service) -> None:
    names = emulator.services.environments
    for pattern, image in (("sklearn-1.5:30", "s:30"), ("sklearn-1.5:4", "s:4"), ("AzureML-acpt-*", "acpt:1")):
        names.name(pattern, image)
    listed = shared(emulator, "GET", "environments", registry="azureml").json["value"]
    assert [one["name"] for one in listed] == ["AzureML-acpt-pytorch-2.8-cuda12.6", "sklearn-1.5"]
    versions = shared(emulator, "GET", "environments/sklearn-1.5/versions", registry="azureml").json["value"]
    assert [(one["name"], one["properties"]["image"]) for one in versions] == [("30", "s:30"), ("4", "s:4")]
    assert versions[0]["properties"]["environmentType"] == "Curated"
    assert shared(emulator, "GET", "environments/sklearn-1.5/versions/7", registry="azureml").status == 404
    assert shared(emulator, "GET", "environments/other", registry="azureml").status == 404
    assert shared(emulator, "GET", "models", registry="azureml").json["value"] == []
    job = emulator.submit("job", environmentId="azureml://registries/azureml/environments/sklearn-1.5/labels/latest")
    assert job.status == 201
    assert emulator.runner.submitted[0].image == "s:30"
