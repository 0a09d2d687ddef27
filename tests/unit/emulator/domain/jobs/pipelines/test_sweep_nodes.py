"""Sweep nodes of pipelines; the executor of their trials is played."""

from __future__ import annotations

from typing import Any

import pytest

from aml_emulator.domain.jobs.pipelines.runs import node_run_id
from tests.unit.emulator.parts import WS
from tests.unit.emulator.played_pipelines import FOLDER, NODE, Pipelines, end_trial, literal, sweep_node, train

SETTINGS = {"settings": {"default_compute": "local-cluster"}}


def graph(pipelines: Pipelines, **fields: Any) -> dict[str, Any]:
    """Return tune → use, whose model is the pipeline's."""
    use = pipelines.component("use", inputs={"model": FOLDER})
    tune = sweep_node(train(pipelines), outputs={"model": literal("${{parent.outputs.best}}")}, **fields)
    return {
        **SETTINGS,
        "outputs": {"best": {"jobOutputType": "uri_folder"}},
        "jobs": {
            "tune": tune,
            "use": {**NODE, "componentId": use, "inputs": {"model": literal("${{parent.jobs.tune.outputs.model}}")}},
        },
    }


def test_the_outputs_of_a_sweep_node_are_those_of_its_best_trial(pipelines: Pipelines) -> None:
    answer = pipelines.put("p", **graph(pipelines))
    assert answer.status == 201, answer.json
    tune = node_run_id("p", "tune")
    run = pipelines.store.runs.require(tune)
    assert (run.parent_id, run.properties["azureml.nodeid"]) == ("p", "tune")
    assert [child.id for child in pipelines.store.runs.children(tune)] == [f"{tune}_0", f"{tune}_1"]
    for number, loss in enumerate((0.5, 0.2, 0.9)):
        end_trial(pipelines, tune, number, loss)
    assert pipelines.statuses("p") == {"tune": "Completed", "use": "Starting"}
    run = pipelines.store.runs.require(tune)
    assert (run.properties["best_child_run_id"], run.properties["score"]) == (f"{tune}_1", "0.2")
    best = pipelines.store.runs.require(f"{tune}_1").outputs["model"]
    assert pipelines.input_of("p", "use", "model")["uri"].endswith(f"/paths/{best['prefix']}/")
    assert pipelines.store.assets.version("data", f"azureml_{tune}_output_data_model", "1") is not None
    pipelines.end("p", "use")
    assert pipelines.status("p") == "Completed"
    assert pipelines.store.runs.require("p").outputs["best"] == best


def test_a_sweep_node_without_a_best_trial_has_no_outputs(pipelines: Pipelines) -> None:
    pipelines.put("p", **graph(pipelines))
    tune = node_run_id("p", "tune")
    for number in range(3):
        end_trial(pipelines, tune, number, None)
    shown = pipelines.call("GET", f"{WS}/jobs/p").json["properties"]
    assert shown["status"] == "Failed"
    assert "'tune' has no output 'model'" in shown["properties"]["errorMessage"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"trial": {}}, "The component of the node 'tune'"),
        ({"search_space": {}, "inputs": {"lr": literal("1")}}, "The sweep has no search space"),
        ({"search_space": {"lr": {"type": "beta", "a": 1}}}, "the distribution 'beta' of search_space.lr"),
        ({"search_space": {"lr": {"type": "uniform", "min_value": 1}}}, "`uniform` has 2 numbers"),
        ({"search_space": {"lr": {"type": "normal", "mu": "a", "sigma": 1}}}, "`normal` has 2 numbers, not ['a', 1]"),
        (
            {"search_space": {"lr": {"type": "choice", "values": [{"a": 1}]}}},
            "searchSpace.lr: a choice among groups of parameters",
        ),
        (
            {"search_space": {"lr": {"type": "choice", "values": [1]}, "z": {"type": "choice", "values": [1]}}},
            "search_space.z is no input of its component",
        ),
        (
            {"search_space": {"k": {"type": "choice", "values": ["a"]}}, "inputs": {}},
            "its required input 'lr' has no value",
        ),
        ({"limits": {"max_total_trials": "many"}}, "limits.max_total_trials is a whole number, not 'many'"),
        ({"limits": {"timeout": "soon"}}, "limits.timeout is not a duration"),
        ({"objective": {"goal": "minimize"}}, "names no metric"),
        ({"early_termination": {"policy_type": "Guess"}}, "earlyTermination of type 'Guess'"),
        ({"sampling_algorithm": {"type": "evolution"}}, "samplingAlgorithm of type 'evolution'"),
        ({"computeId": "elsewhere"}, "Unknown compute target 'elsewhere'"),
        ({"surprise": 1}, "the field 'surprise' of the node 'tune'"),
    ],
)
def test_what_is_no_sweep_is_refused_with_the_node(pipelines: Pipelines, fields: dict[str, Any], says: str) -> None:
    answer = pipelines.put("p", **graph(pipelines, **fields))
    assert answer.status in (400, 404, 501), answer.json
    assert says in answer.json["error"]["message"], answer.json
    assert "tune" in answer.json["error"]["message"]
    assert pipelines.store.runs.get("p") is None
