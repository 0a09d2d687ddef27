from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from aml_train.config.sections.model import ModelConfig
from aml_train.core.errors import InvalidError, JobFailedError, ServiceError
from aml_train.core.events import RuleVerdict
from aml_train.gate.decide import Decision
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView, NewModel
from aml_train.models.register import check_written, fitting, lineage_tags, model_uri, next_version, register_model
from tests.support.fake_workspace import FakeService

SPEC = ModelConfig(name="m", path="outputs/model", type="custom_model", tags={"team": "a"})


@pytest.mark.parametrize(
    ("versions", "following"),
    [
        ([], "1"),
        (["1", "2"], "3"),
        (["9", "10"], "11"),
        (["v1", "latest"], "1"),
        (["2", "x"], "3"),
        (["\u00b2", "2"], "3"),
        (["9" * 20], "1" + "0" * 20),
    ],
)
def test_the_next_version_follows_the_highest(versions: list[str], following: str) -> None:
    assert next_version(versions) == following


@pytest.mark.parametrize(
    ("spec", "uri"),
    [
        (SPEC, "azureml://jobs/j/outputs/artifacts/paths/outputs/model"),
        (ModelConfig(name="m", output="best", type="mlflow_model"), "azureml://jobs/j/outputs/best"),
        (
            ModelConfig(name="m", path="/outputs/model/"),
            "azureml://jobs/j/outputs/artifacts/paths/outputs/model",
        ),
    ],
)
def test_where_the_model_lies(spec: ModelConfig, uri: str) -> None:
    assert model_uri(spec, "j") == uri


def test_a_model_is_registered_once_for_a_job() -> None:
    service = FakeService(artifacts=["outputs/model/a"])
    first, found = register_model(service, SPEC, job="j", tags={})
    assert (first.version, found) == ("1", False)
    assert first.tags == {
        "team": "a",
        "aml-train.job": "j",
        "aml-train.model-source": "azureml://jobs/j/outputs/artifacts/paths/outputs/model",
    }
    again, found = register_model(service, SPEC, job="j", tags={})
    assert (again.version, found) == ("1", True)
    other, _ = register_model(service, SPEC, job="k", tags={})
    assert other.version == "2"
    assert len(service.registered) == 2


def test_a_version_of_the_same_job_from_another_path_is_another_model() -> None:
    service = FakeService(artifacts=["outputs/model/a"])
    service.registered.append(
        ModelView(name="m", version="1", path="p", tags={"aml-train.job": "j", "aml-train.model-source": "best"})
    )
    view, found = register_model(service, SPEC, job="j", tags={})
    assert (view.version, found) == ("2", False)


def test_a_new_version_is_in_its_stage_and_one_that_exists_keeps_its_own() -> None:
    service = FakeService(artifacts=["outputs/model/a"])
    spec = replace(SPEC, stage="candidate")
    view, _ = register_model(service, spec, job="j", tags={"aml-train.stage": "of the job"})
    assert view.tags["aml-train.stage"] == "candidate"
    service.registered[0] = replace(view, tags={**view.tags, "aml-train.stage": "production"})
    again, found = register_model(service, spec, job="j", tags={})
    assert (found, again.tags["aml-train.stage"]) == (True, "production")


def test_a_job_without_the_model_is_an_error() -> None:
    with pytest.raises(JobFailedError, match="completed, but wrote nothing at 'outputs/model'"):
        register_model(FakeService(artifacts=["outputs/modell"]), SPEC, job="j", tags={})


def test_lineage_says_when_the_environment_was_only_given() -> None:
    job = JobView(name="j", status=JobStatus.COMPLETED, tags={"aml-train.tested": "given, not tested", "team": "a"})
    tags = lineage_tags(job, metrics={"a/b": 1 / 3}, decision=Decision(rules=()))
    assert tags["aml-train.tested"] == "given, not tested"
    assert "team" not in tags
    assert tags["aml-train.gate"] == "none"
    assert float(tags["aml-train.metric.a/b"]) == 1 / 3
    assert "aml-train.commit" not in tags


def job_view(**more: Any) -> JobView:
    return JobView(name="j", status=JobStatus.COMPLETED, **more)


def test_lineage_tells_all_and_no_secret() -> None:
    job = job_view(
        experiment="digits",
        tags={
            "aml-train.commit": "c",
            "aml-train.repository": "github.com/o/r",
            "aml-train.branch": "main",
            "aml-train.run-url": "https://ci/1",
            "aml-train.base": "b@sha256:1",
            "aml-train.image-digest": "sha256:2",
            "aml-train.data.train": "digits:4",
        },
        inputs={"train": "azureml:digits:4"},
        parameters={"epochs": "3", "api_key": "s3cret", "max_tokens": "5"},
    )
    decided = RuleVerdict(
        metric="acc", rule=">= 0.5", where="f:1", value=float("nan"), limit=0.5, verdict="warned", reason=""
    )
    tags = lineage_tags(job, metrics={"acc": 0.75, "loss": 0.25}, decision=Decision(rules=(decided,)))
    told = {name.removeprefix("aml-train."): value for name, value in tags.items() if name != "aml-train.version"}
    assert told == {
        "commit": "c",
        "branch": "main",
        "repository": "github.com/o/r",
        "run-url": "https://ci/1",
        "image-digest": "sha256:2",
        "base": "b@sha256:1",
        "experiment": "digits",
        "gate": "passed",
        "gate-rules": '[["acc",">= 0.5","NaN",0.5,"warned"]]',
        "metric.acc": "0.75",
        "data.train": "digits:4",
        "parameter.api_key": "***",
        "parameter.epochs": "3",
        "parameter.max_tokens": "5",
        "metric.loss": "0.25",
    }


def test_no_more_tags_than_azureml_allows_and_what_is_left_out_is_counted() -> None:
    many = {f"aml-train.metric.{number}": "1" for number in range(60)}
    tags = fitting({"a": "x" * 2000, "k" * 101: "1", **many, "aml-train.data.d": "1"})
    assert len(tags) == 40
    assert (len(tags["a"]), tags["a"][-1]) == (1000, "…")
    assert tags["aml-train.left-out"] == "data: 1, metric: 22, tags: 1"
    assert fitting({"a": "b"}) == {"a": "b"}


def test_what_identifies_a_version_is_fixed_in_its_properties() -> None:
    service = FakeService(artifacts=["outputs/model/a"])
    view, _ = register_model(service, SPEC, job="j", tags={"aml-train.commit": "c", "aml-train.gate": "passed"})
    source = "azureml://jobs/j/outputs/artifacts/paths/outputs/model"
    fixed = {
        "aml-train.job": "j",
        "aml-train.model-source": source,
        "aml-train.commit": "c",
        "aml-train.gate": "passed",
    }
    assert view.properties == fixed


@dataclass
class Crowded(FakeService):
    """A service in which *meanwhile* happens just before each request that registers."""

    meanwhile: list[Callable[[NewModel], None]] = field(default_factory=list)

    def register(self, model: NewModel) -> ModelView:
        if self.meanwhile:
            self.meanwhile.pop(0)(model)
        if any(one.version == model.version for one in self.registered):
            raise InvalidError("that version exists, and holds something else")
        return super().register(model)


def test_another_job_takes_the_version_meanwhile() -> None:
    service = Crowded(artifacts=["outputs/model/a"])

    def other(model: NewModel) -> None:
        FakeService.register(service, replace(model, tags={"aml-train.job": "k"}))

    service.meanwhile += [other, other]
    view, found = register_model(service, SPEC, job="j", tags={})
    assert (view.version, found) == ("3", False)
    assert [one.tags["aml-train.job"] for one in service.registered] == ["k", "k", "j"]


def test_two_runs_of_one_job_register_one_version() -> None:
    service = Crowded(artifacts=["outputs/model/a"])

    def other(model: NewModel) -> None:
        FakeService.register(service, model)

    service.meanwhile.append(other)
    view, found = register_model(service, SPEC, job="j", tags={})
    assert (view.version, found, len(service.registered)) == ("1", False, 1)


@pytest.mark.parametrize(
    ("type_", "files", "content", "reason"),
    [
        ("mlflow_model", ["MLmodel", "model.pkl"], b"flavors: {sklearn: {}}", None),
        (
            "mlflow_model",
            ["model.pkl"],
            b"",
            "are no mlflow_model: an MLflow model has a file MLmodel at its top, and there are model.pkl",
        ),
        ("mlflow_model", ["deep/MLmodel"], b"", "it is in deep: name that folder"),
        ("mlflow_model", ["MLmodel"], b"a: b", "MLmodel names no flavors"),
        ("triton_model", ["m/1/model.onnx", "m/config.pbtxt"], b"", None),
        ("triton_model", ["model.onnx"], b"", "with a number as VERSION, and there are model.onnx"),
        ("triton_model", ["1/model.onnx"], b"", "with a number as VERSION, and there are 1/model.onnx"),
        ("triton_model", ["m/latest/model.onnx"], b"", "and there are m/latest/model.onnx"),
        ("triton_model", ["all/config.pbtxt"], b"", None),
        ("custom_model", ["anything"], b"", None),
    ],
)
def test_a_model_is_one_of_its_type(type_: str, files: list[str], content: bytes, reason: str | None) -> None:
    service = FakeService(
        artifacts=[f"outputs/model/{file}" for file in files],
        files={"outputs/model/MLmodel": content},
        outputs={"best": files},
    )
    spec = replace(SPEC, type=cast("Any", type_))
    if reason is None:
        assert check_written(service, spec, "j") is None
        assert check_written(service, replace(spec, path=None, output="best"), "j") is None
    else:
        with pytest.raises(JobFailedError) as caught:
            register_model(service, spec, job="j", tags={})
        assert reason in caught.value.message
        assert service.registered == []


def test_an_output_that_is_empty_or_may_not_be_read() -> None:
    spec = replace(SPEC, path=None, output="best")
    with pytest.raises(JobFailedError, match="wrote nothing into its output 'best'"):
        register_model(FakeService(), spec, job="j", tags={})

    class Refusing(FakeService):
        def output_paths(self, name: str, output: str) -> Iterator[str]:
            raise ServiceError("the storage answered 403")

    remarks: list[str] = []
    view, _ = register_model(Refusing(), spec, job="j", tags={}, remark=remarks.append)
    assert view.version == "1"
    assert remarks == [
        "Whether the job wrote a model into its output 'best' could not be looked up: the storage answered 403"
    ]
