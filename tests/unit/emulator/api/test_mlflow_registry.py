"""MLflow's model registry, as azureml-mlflow and mlflow's own client ask for it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from aml_emulator.store.assets import AssetStore
from tests.unit.emulator.between import Asked, ask_between
from tests.unit.emulator.memory_service import TRACKING
from tests.unit.emulator.parts import IDENTITY, WS, Answer, Service

API = IDENTITY.api_host


def ask(service: Service, method: str, path: str, body: Any = None) -> Answer:
    return service.call(method, f"{TRACKING}/{path}", body, host=API)


def at_once(service: Service, monkeypatch: pytest.MonkeyPatch, first: Asked, second: Asked) -> tuple[Answer, Answer]:
    """Return the answers to two requests; the second comes when the first has read what it changes."""
    reader = "version" if first[1].startswith("model-versions") else "container"
    ask_first, ask_second = ((method, f"{TRACKING}/{path}", body) for method, path, body in (first, second))
    return ask_between(service, monkeypatch, (AssetStore, reader), ask_first, ask_second)


def done(service: Service, method: str, path: str, body: Any = None) -> Any:
    answer = ask(service, method, path, body)
    assert answer.status == 200, answer.body
    return answer.json


def register(service: Service, name: str, *, versions: int = 1, source: str = "runs:/run1/model") -> None:
    """Register a model as ``mlflow.register_model`` does."""
    if service.store.runs.get("run1") is None:
        assert service.submit("run1").status == 201
    ask(service, "POST", "registered-models/create", {"name": name})
    for _ in range(versions):
        done(service, "POST", "model-versions/create", {"name": name, "source": source, "run_id": "run1"})


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("runs:/run1/model", "azureml://artifacts/ExperimentRun/dcid.run1/model"),
        ("azureml://artifacts/LocalUpload/2401-ab/model", "azureml://artifacts/LocalUpload/2401-ab/model"),
        (
            "azureml://datastores/workspaceblobstore/paths/LocalUpload/ab/model",
            "azureml://artifacts/workspaceblobstore/LocalUpload/ab/model",
        ),
        (
            f"azureml://{API}/mlflow/v2.0{WS}/experiments/e/runs/run1/artifacts/a/b",
            "azureml://artifacts/ExperimentRun/dcid.run1/a/b",
        ),
    ],
)
def test_the_download_uri_has_a_form_that_azureml_mlflow_parses(service: Service, source: str, address: str) -> None:
    register(service, "m", source=source)
    found = done(service, "GET", "model-versions/get-download-uri?name=m&version=1")
    assert found == {"artifact_uri": address}


def test_a_place_that_this_form_cannot_name_is_refused_with_a_remedy(service: Service) -> None:
    register(service, "m", source="azureml://datastores/workspaceblobstore/paths/model")
    answer = ask(service, "GET", "model-versions/get-download-uri?name=m&version=1")
    assert answer.status == 501
    assert "workspaceblobstore/model" in answer.json["message"]
    assert "Register it from a folder below another one" in answer.json["message"]


@pytest.mark.parametrize("name", ["a/b", "a b", ".hidden", "a\nb", "x" * 256])
def test_a_name_that_no_asset_can_have_is_refused(service: Service, name: str) -> None:
    answer = ask(service, "POST", "registered-models/create", {"name": name})
    assert (answer.status, answer.json["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert done(service, "GET", "registered-models/search") == {"registered_models": []}


def test_the_latest_version_is_found_in_both_ways_that_clients_ask(service: Service) -> None:
    register(service, "m", versions=11)
    for found in (
        done(service, "POST", "registered-models/get-latest-versions", {"name": "m"}),
        done(service, "GET", "registered-models/get-latest-versions?name=m"),
    ):
        assert [version["version"] for version in found["model_versions"]] == ["11"]
    missing = ask(service, "POST", "registered-models/get-latest-versions", {"name": "none"})
    assert (missing.status, missing.json["error_code"]) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_versions_move_between_stages(service: Service) -> None:
    register(service, "m", versions=3)
    for version in ("1", "2"):
        body = {"name": "m", "version": version, "stage": "Staging"}
        moved = done(service, "POST", "model-versions/transition-stage", body)["model_version"]
        assert moved["current_stage"] == "Staging"
    latest = {"name": "m", "stages": ["Staging"]}
    path = "registered-models/get-latest-versions"
    assert [one["version"] for one in done(service, "POST", path, latest)["model_versions"]] == ["2"]
    archiving = {"name": "m", "version": "3", "stage": "Staging", "archive_existing_versions": True}
    done(service, "POST", "model-versions/transition-stage", archiving)
    stages = {
        one["version"]: one["current_stage"]
        for one in done(service, "GET", "model-versions/search")["model_versions"]
    }
    assert stages == {"1": "Archived", "2": "Archived", "3": "Staging"}
    model = done(service, "GET", "registered-models/get?name=m")["registered_model"]
    assert [(one["version"], one["current_stage"]) for one in model["latest_versions"]] == [
        ("3", "Staging"),
        ("2", "Archived"),
    ]
    # AzureML shows a stage of MLflow's nowhere else.
    assert service.call("GET", f"{WS}/models/m/versions/3").json["properties"]["stage"] is None


@pytest.mark.parametrize(
    ("stage", "archive", "words"),
    [
        ("staging", False, "Value must be one of None, Staging, Production, Archived"),
        ("None", True, "can be archived for Staging and Production"),
    ],
)
def test_a_stage_that_is_none_is_refused(service: Service, stage: str, archive: bool, words: str) -> None:
    register(service, "m")
    body = {"name": "m", "version": "1", "stage": stage, "archive_existing_versions": archive}
    answer = ask(service, "POST", "model-versions/transition-stage", body)
    assert (answer.status, answer.json["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert words in answer.json["message"]


def test_aliases_stand_for_one_version(service: Service) -> None:
    register(service, "m", versions=2)
    for version in ("1", "2"):
        done(service, "POST", "registered-models/alias", {"name": "m", "alias": "best", "version": version})
    found = done(service, "GET", "registered-models/alias?name=m&alias=best")["model_version"]
    assert (found["version"], found["aliases"]) == ("2", ["best"])
    model = done(service, "GET", "registered-models/get?name=m")["registered_model"]
    assert model["aliases"] == [{"alias": "best", "version": "2"}]
    assert done(service, "GET", "model-versions/get?name=m&version=1")["model_version"]["aliases"] == []
    done(service, "DELETE", "registered-models/alias", {"name": "m", "alias": "best"})
    gone = ask(service, "GET", "registered-models/alias?name=m&alias=best")
    assert (gone.status, gone.json["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert "alias best not found" in gone.json["message"]


@pytest.mark.parametrize("alias", ["latest", "v12", "", "a b", "x" * 256])
def test_some_words_are_no_aliases(service: Service, alias: str) -> None:
    register(service, "m")
    answer = ask(service, "POST", "registered-models/alias", {"name": "m", "alias": alias, "version": "1"})
    assert answer.status == 400
    assert "Invalid alias name" in answer.json["message"]


def test_descriptions_and_tags_change(service: Service) -> None:
    register(service, "m")
    done(service, "PATCH", "registered-models/update", {"name": "m", "description": "whole"})
    done(service, "PATCH", "model-versions/update", {"name": "m", "version": "1", "description": "one"})
    for scope in ("registered-models", "model-versions"):
        names = {"name": "m", **({"version": "1"} if scope == "model-versions" else {})}
        for key in ("a", "b"):
            done(service, "POST", f"{scope}/set-tag", {**names, "key": key, "value": "x"})
        done(service, "DELETE", f"{scope}/delete-tag", {**names, "key": "a"})
    model = done(service, "GET", "registered-models/get?name=m")["registered_model"]
    version = done(service, "GET", "model-versions/get?name=m&version=1")["model_version"]
    assert (model["description"], model["tags"]) == ("whole", [{"key": "b", "value": "x"}])
    assert (version["description"], version["tags"]) == ("one", [{"key": "b", "value": "x"}])


@pytest.mark.parametrize("kind", ["registered-models", "model-versions"])
@pytest.mark.parametrize(
    ("method", "path", "change"),
    [
        ("POST", "set-tag", {"key": "b", "value": "x"}),
        ("DELETE", "delete-tag", {"key": "old"}),
        ("PATCH", "update", {"description": "x"}),
    ],
)
def test_a_tag_set_while_another_request_changes_the_model_is_kept(
    service: Service, monkeypatch: pytest.MonkeyPatch, kind: str, method: str, path: str, change: Any
) -> None:
    register(service, "m")
    which = {"name": "m", **({"version": "1"} if kind == "model-versions" else {})}
    done(service, "POST", f"{kind}/set-tag", {**which, "key": "old", "value": "x"})
    other = {**which, "key": "a", "value": "x"}
    answers = at_once(
        service,
        monkeypatch,
        (method, f"{kind}/{path}", {**which, **change}),
        ("POST", f"{kind}/set-tag", other),
    )
    assert [answer.status for answer in answers] == [200, 200]
    (kept,) = done(service, "GET", f"{kind}/get?name=m&version=1").values()
    expected = {"set-tag": {"old", "a", "b"}, "delete-tag": {"a"}, "update": {"old", "a"}}
    assert {one["key"] for one in kept["tags"]} == expected[path]
    assert kept["description"] == ("x" if path == "update" else "")


@pytest.mark.parametrize(
    ("method", "path", "change"),
    [
        ("POST", "model-versions/set-tag", {"key": "b", "value": "x"}),
        ("PATCH", "model-versions/update", {"description": "x"}),
        ("POST", "model-versions/transition-stage", {"stage": "Production"}),
        ("POST", "registered-models/set-tag", {"key": "b", "value": "x"}),
        ("PATCH", "registered-models/update", {"description": "x"}),
        ("POST", "registered-models/alias", {"alias": "champion"}),
    ],
)
def test_a_version_deleted_while_another_request_changes_it_is_gone(
    service: Service, monkeypatch: pytest.MonkeyPatch, method: str, path: str, change: Any
) -> None:
    register(service, "m")
    which = {"name": "m", "version": "1"}
    delete = ("DELETE", "model-versions/delete", which)
    _, deleted = at_once(service, monkeypatch, (method, path, {**which, **change}), delete)
    assert deleted.status == 200
    assert done(service, "GET", "registered-models/search") == {"registered_models": []}
    assert done(service, "GET", "model-versions/search") == {"model_versions": []}
    register(service, "m")
    made = done(service, "GET", "registered-models/get?name=m")["registered_model"]
    (version,) = made["latest_versions"]
    assert (made["tags"], made["description"], made["aliases"]) == ([], "", [])
    assert (version["tags"], version["description"], version["current_stage"]) == ([], "", "None")


def test_of_two_clients_that_make_one_model_one_is_told_that_it_exists(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        ("POST", "registered-models/create", {"name": "m", "description": description}) for description in "ab"
    )
    answers = at_once(service, monkeypatch, first, second)
    assert sorted(answer.status for answer in answers) == [200, 400]
    (refused,) = (answer for answer in answers if answer.status == 400)
    assert refused.json["error_code"] == "RESOURCE_ALREADY_EXISTS"


def test_a_deleted_version_takes_its_stage_and_alias_along(service: Service) -> None:
    register(service, "m", versions=2)
    done(service, "POST", "model-versions/transition-stage", {"name": "m", "version": "2", "stage": "Production"})
    done(service, "POST", "registered-models/alias", {"name": "m", "alias": "best", "version": "2"})
    done(service, "DELETE", "model-versions/delete", {"name": "m", "version": "2"})
    assert ask(service, "GET", "model-versions/get?name=m&version=2").status == 404
    register(service, "m")
    again = done(service, "GET", "model-versions/get?name=m&version=2")["model_version"]
    assert again["current_stage"] == "None"
    # Azure Resource Manager's deletion is the same one.
    done(service, "POST", "model-versions/transition-stage", {"name": "m", "version": "2", "stage": "Production"})
    assert service.call("DELETE", f"{WS}/models/m/versions/2").status == 200
    register(service, "m")
    assert done(service, "GET", "model-versions/get?name=m&version=2")["model_version"]["current_stage"] == "None"


def test_a_model_made_again_has_nothing_of_the_deleted_one(service: Service) -> None:
    for deleted in (f"{WS}/models/m", f"{WS}/models/m/versions/1"):
        register(service, "m")
        done(service, "POST", "model-versions/transition-stage", {"name": "m", "version": "1", "stage": "Production"})
        done(service, "POST", "registered-models/alias", {"name": "m", "alias": "best", "version": "1"})
        assert service.call("DELETE", deleted).status == 200
        register(service, "m")
        found = done(service, "GET", "model-versions/get?name=m&version=1")["model_version"]
        assert (found["current_stage"], found["aliases"]) == ("None", [])
        assert service.call("DELETE", f"{WS}/models/m").status == 200
    assert service.call("DELETE", f"{WS}/models/m").status == 204


def test_a_model_goes_with_its_last_version_and_not_as_a_whole(service: Service) -> None:
    register(service, "m")
    whole = ask(service, "DELETE", "registered-models/delete", {"name": "m"})
    assert (whole.status, "delete its versions with delete_model_version" in whole.json["message"]) == (501, True)
    named = ask(service, "POST", "registered-models/rename", {"name": "m", "new_name": "n"})
    assert (named.status, "Azure Machine Learning does not support" in named.json["message"]) == (501, True)
    done(service, "DELETE", "model-versions/delete", {"name": "m", "version": "1"})
    assert ask(service, "GET", "registered-models/get?name=m").status == 404


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["apple", "berry", "cherry"]),
        ("name = 'berry'", ["berry"]),
        ("name LIKE '%rry'", ["berry", "cherry"]),
        ("name ILIKE 'B%'", ["berry"]),
        ("tags.kind = 'pome'", ["apple"]),
        ("tags.`mlflow.prompt.is_prompt` != 'true'", ["apple", "berry", "cherry"]),
    ],
)
def test_models_are_searched(service: Service, query: str, names: list[str]) -> None:
    for name, kind in (("cherry", "drupe"), ("apple", "pome"), ("berry", "berry")):
        done(service, "POST", "registered-models/create", {"name": name, "tags": [{"key": "kind", "value": kind}]})
    found = done(service, "GET", f"registered-models/search?filter={quote(query)}")
    assert [model["name"] for model in found["registered_models"]] == names
    backwards = done(service, "GET", f"registered-models/search?filter={quote(query)}&order_by=name%20DESC")
    assert [model["name"] for model in backwards["registered_models"]] == names[::-1]


def test_models_come_in_pages(service: Service) -> None:
    for name in "abc":
        done(service, "POST", "registered-models/create", {"name": name})
    first = done(service, "GET", "registered-models/search?max_results=2")
    rest = done(service, "GET", f"registered-models/search?max_results=2&page_token={first['next_page_token']}")
    assert [[one["name"] for one in page["registered_models"]] for page in (first, rest)] == [["a", "b"], ["c"]]
    assert "next_page_token" not in rest


@pytest.mark.parametrize(
    ("query", "versions"),
    [
        ("name = 'm'", ["2", "1"]),
        ("name='m' and run_id = 'run1'", ["2", "1"]),
        ("run_id IN ('run1', 'other')", ["2", "1", "1"]),
        ("version_number > 1", ["2"]),
        ("name = 'm' and tags.a = 'b'", []),
    ],
)
def test_versions_are_searched(service: Service, query: str, versions: list[str]) -> None:
    register(service, "m", versions=2)
    register(service, "n")
    found = done(service, "GET", f"model-versions/search?filter={quote(query)}")
    assert [version["version"] for version in found["model_versions"]] == versions


def test_versions_are_ordered(service: Service) -> None:
    register(service, "m", versions=2)
    register(service, "n")
    path = "model-versions/search?order_by=version_number%20ASC&order_by=name%20DESC"
    found = done(service, "GET", path)["model_versions"]
    assert [(one["name"], one["version"]) for one in found] == [("n", "1"), ("m", "1"), ("m", "2")]


def test_an_unknown_attribute_is_named(service: Service) -> None:
    answer = ask(service, "GET", f"registered-models/search?filter={quote('title = 1')}")
    assert answer.status == 400
    assert "Invalid attribute key 'title'" in answer.json["message"]
    assert "name" in answer.json["message"]
