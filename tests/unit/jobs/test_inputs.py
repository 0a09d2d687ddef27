"""Which data a job reads: labels become versions, and tags say which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aml_train.core.errors import InvalidError
from aml_train.jobs.inputs import data_of, data_to_be, pin_data
from aml_train.jobs.spec import JobTemplate, job_name
from tests.support.fake_workspace import FakeService

_SCOPE = "subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"


def template(inputs: dict[str, Any], **local: str) -> JobTemplate:
    return JobTemplate(
        document={"command": "x", "inputs": inputs},
        directory=Path("/p"),
        code_digest=None,
        local_digests={f"inputs.{name}": digest for name, digest in local.items()},
        scope="local",
        stem="digits",
        tags={"aml-train.version": "1"},
    )


def test_the_latest_version_takes_the_place_of_the_label_and_counts_for_the_jobs_name() -> None:
    given = template({"train": {"type": "uri_folder", "path": "azureml:digits@latest"}, "epochs": 3})
    service = FakeService(latest={("data", "digits"): "7"})
    job = pin_data(given, service)
    assert job.document["inputs"]["train"]["path"] == "azureml:digits:7"
    assert job.tags == {"aml-train.version": "1", "aml-train.data.train": "digits:7"}
    assert given.document["inputs"]["train"]["path"] == "azureml:digits@latest", "the plan stays as it is"
    newer = pin_data(given, FakeService(latest={("data", "digits"): "8"}))
    names = {job_name(one, {}, 1) for one in (job, pin_data(given, service), newer)}
    assert len(names) == 2


def test_a_model_as_an_input_is_looked_up_among_the_models() -> None:
    given = template({"base": {"type": "mlflow_model", "path": "azureml:bert@latest"}})
    service = FakeService(latest={("data", "bert"): "1", ("models", "bert"): "12"})
    assert pin_data(given, service).tags["aml-train.data.base"] == "bert:12"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("azureml:digits@latest", "The input train is 'azureml:digits@latest', and the workspace has no data asset digits."),
        ("azureml:digits@best", "the label 'best' is unknown"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_told(path: str, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        pin_data(template({"train": {"path": path}}), FakeService())


def test_tags_stay_within_what_a_run_may_have() -> None:
    many = {f"i{number}": {"path": f"azureml:d:{number}"} for number in range(30)}
    job = pin_data(template(many), FakeService())
    assert len([tag for tag in job.tags if tag.startswith("aml-train.data.")]) == 20
    assert data_to_be(job) is None
    job = pin_data(template({"x" * 90: {"path": "azureml:d:1"}, "y": {"path": "azureml:d:2"}, "n": 3}), FakeService())
    assert data_of(job.tags, {"x" * 90: "azureml:d:1"}) == {"x" * 90: "d:1", "y": "d:2"}, (
        "what has no tag is read from the job"
    )
    assert data_to_be(job) is None
    assert data_to_be(pin_data(template({"y": {"path": "azureml:d:2"}, "n": 3}), FakeService())) == {"y": "d:2"}


def test_tags_say_more_than_the_places_that_the_service_shows() -> None:
    inputs = {"train": "azureml://datastores/s/paths/LocalUpload/1", "test": f"azureml:/{_SCOPE}/data/t/versions/2"}
    assert data_of({"aml-train.data.train": "sha256:1", "other": "x"}, inputs) == {"test": "t:2", "train": "sha256:1"}


def test_labels_in_the_inputs_of_nodes_become_versions() -> None:
    service = FakeService(latest={("data", "digits"): "7"})
    inner = {"jobs": {"fit": {"inputs": {"data": {"type": "uri_folder", "path": "azureml:digits@latest"}}}}}
    jobs: dict[str, Any] = {
        "prep": {"inputs": {"raw": {"path": "azureml:digits@latest"}, "rate": 1, "other": "${{parent.inputs.x}}"}},
        "sub": {"type": "pipeline", "component": inner},
    }
    given = JobTemplate(
        document={"type": "pipeline", "jobs": jobs}, directory=Path(), code_digest=None, scope="", stem=""
    )
    found = pin_data(given, service).document["jobs"]
    assert found["prep"]["inputs"]["raw"]["path"] == "azureml:digits:7"
    assert found["sub"]["component"]["jobs"]["fit"]["inputs"]["data"]["path"] == "azureml:digits:7"
    assert jobs["prep"]["inputs"]["raw"]["path"] == "azureml:digits@latest", "the template is not changed"
