from collections.abc import Sequence
from typing import Any

import pytest

from aml_train.azure.composed import child_view, objective_of
from aml_train.core.answers import Answer
from aml_train.core.errors import GateFailedError, ServiceError
from aml_train.jobs.composed import ChildView, Objective
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from tests.support.memory_graphs import GraphService

S = JobStatus


def answer(value: Any) -> Answer:
    return Answer(value, ServiceError)


def test_a_reused_node_is_read_from_run_history() -> None:
    run = {
        "runId": "5f1c",
        "displayName": "prep",
        "status": "Completed",
        "runType": "azureml.StepRun",
        "properties": {"azureml.isreused": "true", "azureml.reusedrunid": "0a9b"},
        "startTimeUtc": "2026-11-20T10:00:00Z",
        "computeRequest": {"nodeCount": 2, "gpuCount": 0},
        "target": "cpu-cluster",
    }
    view = child_view(answer(run))
    assert (view.node, view.status, view.kind, view.source) == ("prep", S.COMPLETED, "command", "0a9b")
    assert (view.compute, view.nodes) == ("cpu-cluster", 2)


@pytest.mark.parametrize("flag", ["false", "False", ""])
def test_a_node_that_ran_itself_has_its_own_results(flag: str) -> None:
    run = {
        "runId": "a",
        "displayName": "n",
        "status": "Completed",
        "properties": {"azureml.isreused": flag, "azureml.reusedrunid": "b"},
    }
    assert child_view(answer(run)).source == "a"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("azureml.PipelineRun", "pipeline"),
        ("azureml.sweep", "sweep"),
        ("hyperdrive", "sweep"),
        ("azureml.StepRun", "command"),
        (None, "command"),
    ],
)
def test_the_kind_of_a_run_is_its_type(word: str | None, kind: str) -> None:
    run = {"runId": "a", "status": "Running", "runType": word}
    assert child_view(answer(run)).kind == kind


def test_a_trial_has_its_hyperparameters() -> None:
    run = {"runId": "s_0", "status": "Completed", "properties": {"hyperparameters": '{"rate": 0.1, "width": 16}'}}
    assert child_view(answer(run)).parameters == {"rate": "0.1", "width": "16"}
    assert child_view(answer({**run, "properties": {"hyperparameters": "[1"}})).parameters == {}


def test_the_objective_is_the_jobs_or_that_of_its_runs_properties() -> None:
    of_job = {"objective": {"goal": "Minimize", "primaryMetric": "loss"}}
    assert objective_of(answer(of_job)) == Objective(metric="loss", maximize=False)
    of_run = {"properties": {"primary_metric_config": '{"name": "acc", "goal": "maximize"}'}}
    assert objective_of(answer(of_run)) == Objective(metric="acc", maximize=True)
    assert objective_of(answer({"properties": {"primary_metric_config": "null"}})) is None
    assert objective_of(answer({})) is None


def service(children: Sequence[ChildView], logged: dict[str, dict[str, list[float]]], **more: Any) -> GraphService:
    jobs = {"job": JobView(name="job", status=S.COMPLETED)}
    return GraphService(parts={"": children}, logged_to=logged, jobs=jobs, **more)


def node(name: str, **more: Any) -> ChildView:
    return ChildView(**{"name": f"run-{name}", "node": name, "status": S.COMPLETED, **more})


def test_metrics_of_nodes_have_their_names_and_bare_ones_where_one_node_logs_them() -> None:
    found = service(
        [node("prep"), node("train", reused_from="old"), node("bad", status=S.FAILED)],
        {
            "job": {"own": [3.0]},
            "run-prep": {"size": [5.0], "loss": [1.0]},
            "old": {"loss": [0.5, 0.1]},
            "run-train": {"loss": [9.0]},
            "run-bad": {"size": [7.0]},
        },
    )
    assert found.last_metrics("job") == {
        "own": 3.0,
        "prep/size": 5.0,
        "size": 5.0,
        "prep/loss": 1.0,
        "train/loss": 0.1,
    }
    assert [point.value for point in found.metric_history("job", "train/loss")] == [0.5, 0.1]
    assert [point.value for point in found.metric_history("job", "own")] == [3.0]
    assert found.metric_history("job", "loss") == ()


def test_a_metric_that_arrives_late_is_found() -> None:
    found = service([node("a")], {})
    assert found.last_metrics("job") == {}
    found.logged_to = {"run-a": {"x": [1.0]}}
    assert [point.value for point in found.metric_history("job", "x")] == [1.0]


def test_a_name_that_the_pipeline_and_a_node_log_is_neithers() -> None:
    found = service([node("a")], {"job": {"x": [1.0]}, "run-a": {"x": [2.0]}})
    assert found.last_metrics("job") == {"a/x": 2.0}


def test_a_metric_with_the_name_of_a_nodes_metric_is_ambiguous() -> None:
    found = service([node("a"), node("b")], {"run-a": {"x": [1.0]}, "run-b": {"a/x": [2.0]}})
    assert "a/x" not in found.last_metrics("job")


def test_nodes_of_inner_pipelines_are_read_below_their_pipeline() -> None:
    inner = node("sub", kind="pipeline")
    found = service([inner], {"run-fit": {"loss": [0.2]}})
    found.parts = {**found.parts, "run-sub": [node("fit")]}
    metrics = found.last_metrics("job")
    assert metrics["sub/fit/loss"] == metrics["loss"] == 0.2


def test_a_disagreement_about_the_best_trial_is_refused() -> None:
    trials = [node("t0"), node("t1")]
    logged = {"run-t0": {"acc": [0.9]}, "run-t1": {"acc": [0.8]}}
    objective = Objective(metric="acc", maximize=True)
    found = service(trials, logged, kind="sweep", objective=objective, reported_best="run-t1")
    with pytest.raises(
        GateFailedError, match=r"reports the trial run-t1 as the best \(acc: 0.8\), and run-t0 has 0.9"
    ):
        found.last_metrics("job")
    agreed = service(trials, logged, kind="sweep", objective=objective, reported_best="run-t0")
    assert agreed.last_metrics("job") == {"acc": 0.9, "trials": 2.0, "failed-trials": 0.0}
    assert agreed.results_run("job") == "run-t0"
