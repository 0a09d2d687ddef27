"""Models and datastores of azureml-core over the same state as azure-ai-ml's."""

from __future__ import annotations

from typing import Any

from tests.unit.emulator.api.test_v1 import API, ask
from tests.unit.emulator.parts import WS, Service

MODELS = f"/modelmanagement/v1.0{WS}"


def register(service: Service, name: str = "model", *prefixes: str, **more: Any) -> Any:
    """Register a model as azureml-core does: first its asset."""
    artifacts = [{"prefix": prefix} for prefix in prefixes or ("LocalUpload/one/model",)]
    asset = ask(service, "POST", f"{MODELS}/assets", {"name": name, "artifacts": artifacts})
    return ask(service, "POST", f"{MODELS}/models", {"name": name, "url": f"aml://asset/{asset['id']}", **more})


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
