from __future__ import annotations

from dataclasses import replace

import pytest

from aml_train.errors import JobFailedError
from aml_train.gate.decide import Decision
from aml_train.jobs.service import ModelView
from aml_train.models import ModelSpec, lineage, next_version, register
from tests.fake_service import FakeService

SPEC = ModelSpec(name="m", artifact="outputs/model", output=None, type="custom_model", tags={"team": "a"})


@pytest.mark.parametrize(
    ("versions", "following"),
    [([], "1"), (["1", "2"], "3"), (["9", "10"], "11"), (["v1", "latest"], "1"), (["2", "x"], "3")],
)
def test_the_next_version_follows_the_highest(versions: list[str], following: str) -> None:
    assert next_version(versions) == following


@pytest.mark.parametrize(
    ("spec", "uri"),
    [
        (SPEC, "azureml://jobs/j/outputs/artifacts/paths/outputs/model"),
        (ModelSpec(name="m", artifact=None, output="best", type="mlflow_model"), "azureml://jobs/j/outputs/best"),
        (
            ModelSpec(name="m", artifact="/outputs/model/", output=None, type="x"),
            "azureml://jobs/j/outputs/artifacts/paths/outputs/model",
        ),
    ],
)
def test_where_the_model_lies(spec: ModelSpec, uri: str) -> None:
    assert spec.uri("j") == uri


def test_a_model_is_registered_once_for_a_job() -> None:
    service = FakeService(artifacts=["outputs/model/a"])
    first, found = register(service, SPEC, job="j", tags={})
    assert (first.version, found) == ("1", False)
    assert first.tags == {
        "team": "a",
        "aml-train.job": "j",
        "aml-train.model-source": "azureml://jobs/j/outputs/artifacts/paths/outputs/model",
    }
    again, found = register(service, SPEC, job="j", tags={})
    assert (again.version, found) == ("1", True)
    other, _ = register(service, SPEC, job="k", tags={})
    assert other.version == "2"
    assert len(service.registered) == 2


def test_a_version_of_the_same_job_from_another_path_is_another_model() -> None:
    service = FakeService(artifacts=["outputs/model/a"])
    service.registered.append(
        ModelView(name="m", version="1", path="p", tags={"aml-train.job": "j", "aml-train.model-source": "best"})
    )
    view, found = register(service, SPEC, job="j", tags={})
    assert (view.version, found) == ("2", False)


def test_a_new_version_is_in_its_stage_and_one_that_exists_keeps_its_own() -> None:
    service = FakeService(artifacts=["outputs/model/a"])
    spec = replace(SPEC, stage="candidate")
    view, _ = register(service, spec, job="j", tags={"aml-train.stage": "of the job"})
    assert view.tags["aml-train.stage"] == "candidate"
    service.registered[0] = replace(view, tags={**view.tags, "aml-train.stage": "production"})
    again, found = register(service, spec, job="j", tags={})
    assert (found, again.tags["aml-train.stage"]) == (True, "production")


def test_a_job_without_the_model_is_an_error() -> None:
    with pytest.raises(JobFailedError, match="completed, but wrote nothing at 'outputs/model'"):
        register(FakeService(artifacts=["outputs/modell"]), SPEC, job="j", tags={})


def test_lineage_says_when_the_environment_was_only_given() -> None:
    job = {"aml-train.tested": "given, not tested", "team": "a"}
    tags = lineage(job, metrics={"a/b": 1 / 3}, decision=Decision(rules=()))
    assert tags["aml-train.tested"] == "given, not tested"
    assert "team" not in tags
    assert tags["aml-train.gate"] == "none"
    assert float(tags["aml-train.metric.a/b"]) == 1 / 3
    assert "aml-train.commit" not in tags
