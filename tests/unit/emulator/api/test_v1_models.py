"""Models and datastores of azureml-core over the same state as azure-ai-ml's."""

from __future__ import annotations

from typing import Any

from tests.unit.emulator.api.test_v1 import API, ask, submit
from tests.unit.emulator.parts import IDENTITY, WS, Service

MODELS = f"/modelmanagement/v1.0{WS}"
STORES = f"/datastore/v1.0{WS}"


def register(service: Service, name: str = "model", *prefixes: str, **more: Any) -> Any:
    """Register a model as azureml-core does: first its asset."""
    artifacts = [{"prefix": prefix} for prefix in prefixes or ("LocalUpload/one/model",)]
    asset = ask(service, "POST", f"{MODELS}/assets", {"name": name, "artifacts": artifacts})
    return ask(service, "POST", f"{MODELS}/models", {"name": name, "url": f"aml://asset/{asset['id']}", **more})


def test_a_model_of_v1_is_one_of_v2(service: Service) -> None:
    submit(service)
    made = register(
        service,
        "model",
        "ExperimentRun/dcid.job-1/outputs/model",
        runId="job-1",
        kvTags={"a": "b"},
        framework="ScikitLearn",
        unpack=False,
    )
    assert (made["id"], made["version"], made["framework"]) == ("model:1", 1, "ScikitLearn")
    of_v2 = service.call("GET", f"{WS}/models/model/versions/1").json["properties"]
    assert of_v2["modelUri"].endswith(
        "/datastores/workspaceartifactstore/paths/ExperimentRun/dcid.job-1/outputs/model"
    )
    assert (of_v2["tags"], of_v2["jobName"]) == ({"a": "b"}, "job-1")
    assert register(service)["id"] == "model:2"


def test_a_model_of_v2_has_an_asset_for_v1(service: Service) -> None:
    body = {
        "properties": {"modelUri": "azureml://datastores/workspaceblobstore/paths/a/b", "modelType": "custom_model"}
    }
    service.call("PUT", f"{WS}/models/new/versions/7", body)
    service.call("PUT", f"{WS}/models/new/versions/words", body)
    (found,) = ask(service, "GET", f"{MODELS}/models?name=new")["value"]
    assert (found["id"], found["url"]) == ("new:7", "aml://asset/new:7")
    asset = ask(service, "GET", f"{MODELS}/assets/new:7")
    assert asset["artifacts"] == [{"prefix": "workspaceblobstore/a/b"}]


def test_models_are_found_by_what_they_say(service: Service) -> None:
    register(service, "a", kvTags={"x": "1", "y": "2"})
    register(service, "a", kvTags={"x": "2"}, properties={"p": "q"})
    register(service, "b", kvTags={"x": "1"})

    def ids(query: str) -> list[str]:
        return [one["id"] for one in ask(service, "GET", f"{MODELS}/models?{query}")["value"]]

    assert ids("") == ["b:1", "a:2", "a:1"]
    assert ids("name=a") == ["a:2", "a:1"]
    assert ids("tags=x=1") == ["b:1", "a:1"]
    assert ids("tags=x=1,y") == ["a:1"]
    assert ids("properties=p") == ["a:2"]
    assert sorted(ids("latestVersionOnly=true")) == ["a:2", "b:1"]
    first = ask(service, "GET", f"{MODELS}/models?count=2")
    path = first["nextLink"].removeprefix(f"https://{API}")
    assert [one["id"] for one in ask(service, "GET", path)["value"]] == ["a:1"]


def test_a_model_is_changed_by_operations(service: Service) -> None:
    register(service, kvTags={"a": "b"})
    operations = [
        {"op": "replace", "path": "/kvTags", "value": {"a": "c", "d": "e"}},
        {"op": "replace", "path": "/description", "value": "words"},
    ]
    changed = ask(service, "PATCH", f"{MODELS}/models/model:1", operations)
    assert (changed["kvTags"], changed["description"]) == ({"a": "c", "d": "e"}, "words")
    refused = service.call("PATCH", f"{MODELS}/models/model:1", [{"op": "replace", "path": "/url"}], host=API)
    assert (refused.status, "'url' cannot be changed" in refused.json["error"]["message"]) == (400, True)


def section(**more: Any) -> dict[str, Any]:
    """Return the body by which azureml-core registers a datastore."""
    storage = {
        "accountName": IDENTITY.storage_account,
        "containerName": "pictures",
        "endpoint": "core.windows.net",
        "protocol": "https",
        "credentialType": "AccountKey",
        "credential": "a2V5",
    }
    return {"name": "pictures", "dataStoreType": "AzureBlob", "azureStorageSection": {**storage, **more}}


def test_a_datastore_of_v1_is_one_of_v2(service: Service) -> None:
    assert service.call("POST", f"{STORES}/datastores?skipValidation=true", section(), host=API).status == 200
    of_v2 = service.call("GET", f"{WS}/datastores/pictures").json["properties"]
    assert (of_v2["containerName"], of_v2["credentials"]) == ("pictures", {"credentialsType": "AccountKey"})
    found = ask(service, "GET", f"{STORES}/datastores/PICTURES")["azureStorageSection"]
    assert (found["credentialType"], found["accountKey"], found["isSas"]) == ("AccountKey", "a2V5", False)
    again = service.call("POST", f"{STORES}/datastores?skipValidation=true", section(), host=API)
    assert "Another datastore with the same name already exists" in again.json["error"]["message"]
    names = [one["name"] for one in ask(service, "GET", f"{STORES}/datastores")["value"]]
    own = ["workspaceblobstore", "workspaceartifactstore", "workspacefilestore", "workspaceworkingdirectory"]
    assert names == [*own, "pictures"]
    assert service.call("DELETE", f"{STORES}/datastores/pictures", host=API).status == 200
    assert service.call("GET", f"{STORES}/datastores/pictures", host=API).status == 404
