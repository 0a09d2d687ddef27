"""MLflow's model registry, as azureml-mlflow and mlflow's own client ask for it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.emulator.memory_service import TRACKING
from tests.unit.emulator.parts import IDENTITY, WS, Answer, Service

API = IDENTITY.api_host


def ask(service: Service, method: str, path: str, body: Any = None) -> Answer:
    return service.call(method, f"{TRACKING}/{path}", body, host=API)


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


def test_a_model_goes_with_its_last_version(service: Service) -> None:
    register(service, "m")
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
