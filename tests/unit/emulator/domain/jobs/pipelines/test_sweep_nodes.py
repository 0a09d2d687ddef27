"""Sweep nodes of pipelines; the executor of their trials is played."""

from __future__ import annotations

from typing import Any

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
