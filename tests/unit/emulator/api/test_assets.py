"""Assets in Azure Resource Manager's forms, as recorded in 2026 (Azure/azure-sdk-assets)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.emulator.parts import WS, Service

MODEL = {"modelUri": "azureml://datastores/workspaceblobstore/paths/m", "modelType": "custom_model"}


def put(service: Service, path: str, **properties: Any) -> Any:
    answer = service.call("PUT", f"{WS}/{path}", {"properties": properties})
    assert answer.status == 201, answer.json
    return answer.json["properties"]


def test_an_unknown_model_has_no_list_of_versions(service: Service) -> None:
    answer = service.call("GET", f"{WS}/models/nothing/versions?$orderBy=createdtime desc&$top=1")
    (detail,) = answer.json["error"]["details"]
    assert (answer.status, detail["code"]) == (404, "ModelNotFound")
    assert detail["message"] == "Model container with name: nothing not found."
    put(service, "models/something/versions/1", **MODEL)
    assert len(service.call("GET", f"{WS}/models/something/versions").json["value"]) == 1


@pytest.mark.parametrize(
    ("kind", "properties", "stage"),
    [
        ("models", MODEL, "Development"),
        ("models", {**MODEL, "stage": "Production"}, "Production"),
        ("components", {"componentSpec": {"type": "command"}}, "Development"),
        ("environments", {"image": "i"}, "Development"),
        ("environments", {"image": "i", "isAnonymous": True}, "Logged"),
        ("data", {"dataUri": "azureml://datastores/workspaceblobstore/paths/d", "dataType": "uri_file"}, None),
    ],
)
def test_a_version_is_in_development_at_first(
    service: Service, kind: str, properties: dict[str, Any], stage: str | None
) -> None:
    assert put(service, f"{kind}/thing/versions/1", **properties)["stage"] == stage


def test_the_newest_version_of_an_environment_is_labelled(service: Service) -> None:
    def labels(version: str) -> str:
        found = service.call("GET", f"{WS}/environments/tool/versions/{version}").json["properties"]["properties"]
        return str(found["azureml.labels"])

    assert put(service, "environments/tool/versions/1", image="i")["properties"] == {"azureml.labels": "latest"}
    shown = put(service, "environments/tool/versions/2", image="i", properties={"mine": "yes"})
    assert shown["properties"] == {"mine": "yes", "azureml.labels": "latest"}
    put(service, "environments/tool/versions/abc", image="i", isAnonymous=True)
    # A client sends back what it was shown.
    put(service, "environments/tool/versions/2", image="i", isArchived=True, properties=shown["properties"])
    assert [labels(version) for version in ("1", "2", "abc")] == ["", "latest", ""]


def test_a_component_is_described_by_its_specification(service: Service) -> None:
    shown = put(
        service,
        "components/step/versions/1",
        description="about",
        componentSpec={"type": "command", "description": "about"},
    )
    assert (shown["description"], shown["componentSpec"]["description"]) == (None, "about")


@pytest.mark.parametrize(
    ("path", "properties", "words"),
    [
        ("environments/empty/versions/1", {}, "BaseImage, BaseDockerfile, or BuildContext must be set"),
        ("environments/conda/versions/1", {"condaFile": "{}"}, "BuildContext must be set"),
        ("models/m/versions/1", {**MODEL, "modelType": "nonsense"}, "'nonsense' is not supported"),
        ("models/m/versions/1", {**MODEL, "modelType": "MLFlow"}, "'MLFlow' is not supported"),
    ],
)
def test_what_azure_refuses_is_refused(service: Service, path: str, properties: dict[str, Any], words: str) -> None:
    answer = service.call("PUT", f"{WS}/{path}", {"properties": properties})
    assert (answer.status, words in answer.json["error"]["message"]) == (400, True), answer.json
    assert service.call("GET", f"{WS}/{path}").status == 404


def test_an_environment_is_archived_by_sending_back_what_was_shown(service: Service) -> None:
    # azure-ai-ml 1.35, operations/_environment_operations.py: archive.
    shown = put(service, "environments/tool/versions/1", image="i")
    assert put(service, "environments/tool/versions/1", **{**shown, "isArchived": True})["isArchived"] is True


def test_data_that_there_are_not_are_named_in_the_services_words(service: Service) -> None:
    answer = service.call("GET", f"{WS}/data/rows/versions/7")
    assert answer.status == 404
    assert answer.json["error"]["message"] == "Data version rows:7 (dataContainerName:version) not found."
