"""Pipeline jobs from their submission to their end; the executor of their nodes is played."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from aml_emulator.api.arm.jobs import job_view
from aml_emulator.domain.jobs.pipelines.runs import FAILED_STEPS, node_run_id
from tests.unit.emulator.parts import IDENTITY, WS
from tests.unit.emulator.played_pipelines import FOLDER, NODE, Pipelines, literal


def chain(pipelines: Pipelines) -> dict[str, Any]:
    """Return prep → train → evaluate, and a node next to them."""
    folder = {"type": "uri_folder"}
    prep = pipelines.component(
        "prep", inputs={"data": folder, "rate": {"type": "number", "default": "0.5"}}, outputs={"clean": folder}
    )
    train = pipelines.component(
        "train", inputs={"clean": {**folder, "mode": "download"}}, outputs={"model": {"type": "mlflow_model"}}
    )
    look = pipelines.component("look", inputs={"model": {"type": "mlflow_model"}})
    alone = pipelines.component("alone", command="python alone.py")
    return {
        "inputs": {
            "data": {"jobInputType": "uri_folder", "uri": "azureml://datastores/workspaceblobstore/paths/raw/"},
            "speed": {"jobInputType": "literal", "value": "7"},
        },
        "outputs": {"best": {"jobOutputType": "mlflow_model", "assetName": "wine"}},
        "settings": {"default_compute": f"{WS}/computes/local-cluster", "_source": "YAML.JOB"},
        "jobs": {
            "look": {
                **NODE,
                "componentId": look,
                "inputs": {"model": literal("${{parent.jobs.train.outputs.model}}", mode="ReadWriteMount")},
            },
            "train": {
                **NODE,
                "componentId": train,
                "inputs": {"clean": literal("${{parent.jobs.prep.outputs.clean}}")},
                "outputs": {"model": {"type": "literal", "value": "${{parent.outputs.best}}"}},
            },
            "prep": {
                **NODE,
                "componentId": prep,
                "inputs": {"data": literal("${{parent.inputs.data}}"), "rate": literal("${{parent.inputs.speed}}")},
            },
            "alone": {**NODE, "componentId": alone},
        },
    }


def test_nodes_begin_when_those_that_they_need_have_completed(pipelines: Pipelines) -> None:
    assert pipelines.put("p", **chain(pipelines)).status == 201
    assert sorted(pipelines.begun()) == ["alone", "prep"]
    assert pipelines.status("p") == "Running"
    assert pipelines.input_of("p", "prep", "data") == {
        "jobInputType": "uri_folder",
        "uri": "azureml://datastores/workspaceblobstore/paths/raw/",
    }
    assert pipelines.input_of("p", "prep", "rate") == {"jobInputType": "literal", "value": "7"}
    pipelines.end("p", "alone")
    pipelines.end("p", "prep")
    assert pipelines.begun()[-1] == "train"
    clean = pipelines.input_of("p", "train", "clean")
    prep = pipelines.store.runs.require(node_run_id("p", "prep"))
    assert clean["uri"].endswith(f"/datastores/workspaceblobstore/paths/{prep.outputs['clean']['prefix']}/")
    assert clean["mode"] == "Download"
    pipelines.end("p", "train")
    assert pipelines.input_of("p", "look", "model")["mode"] == "ReadWriteMount"
    assert pipelines.status("p") == "Running"
    pipelines.end("p", "look")
    shown = pipelines.call("GET", f"{WS}/jobs/p").json["properties"]
    assert (shown["status"], shown["jobType"]) == ("Completed", "Pipeline")
    train = pipelines.store.runs.require(node_run_id("p", "train"))
    pipeline = pipelines.store.runs.require("p")
    assert pipeline.outputs["best"] == train.outputs["model"]
    best = job_view(pipelines.services, pipeline)["properties"]["outputs"]["best"]
    assert best["uri"] == f"azureml://datastores/workspaceblobstore/paths/{train.outputs['model']['prefix']}/"
    assert pipelines.store.assets.version("data", "azureml_p_output_data_best", "1") is not None


@pytest.mark.parametrize("status", ["Failed", "Canceled"])
def test_nodes_that_need_a_lost_one_never_begin_and_others_continue(pipelines: Pipelines, status: str) -> None:
    pipelines.put("p", **chain(pipelines))
    pipelines.end("p", "prep", status)
    assert pipelines.status("p") == "Running"
    pipelines.end("p", "alone")
    shown = pipelines.call("GET", f"{WS}/jobs/p").json["properties"]
    assert shown["status"] == "Failed"
    assert shown["properties"]["errorMessage"] == FAILED_STEPS
    assert pipelines.statuses("p") == {"prep": status, "alone": "Completed"}


def test_a_cancelled_pipeline_ends_when_its_nodes_have(pipelines: Pipelines) -> None:
    pipelines.put("p", **chain(pipelines))
    assert pipelines.call("POST", f"{WS}/jobs/p/cancel").status == 202
    pipelines.jobs.settle()
    assert pipelines.status("p") == "CancelRequested"
    assert set(pipelines.statuses("p").values()) == {"CancelRequested"}
    pipelines.end("p", "prep", "Canceled")
    pipelines.end("p", "alone", "Completed")
    assert pipelines.status("p") == "Canceled"
    assert sorted(pipelines.begun()) == ["alone", "prep"]


def test_a_pipeline_within_another(pipelines: Pipelines) -> None:
    folder = {"type": "uri_folder"}
    step = pipelines.component("step", inputs={"x": folder}, outputs={"y": folder})
    inner = pipelines.component(
        "inner",
        type="pipeline",
        inputs={"x": folder},
        outputs={"y": folder},
        jobs={
            "one": {
                **NODE,
                "componentId": step,
                "inputs": {"x": literal("${{parent.inputs.x}}")},
                "outputs": {"y": {"type": "literal", "value": "${{parent.outputs.y}}"}},
            }
        },
    )
    data = {"jobInputType": "uri_folder", "uri": "azureml://datastores/workspaceblobstore/paths/raw/"}
    outer = {
        "within": {"type": "pipeline", "componentId": inner, "inputs": {"x": literal("${{parent.inputs.x}}")}},
        "after": {**NODE, "componentId": step, "inputs": {"x": literal("${{parent.jobs.within.outputs.y}}")}},
    }
    answer = pipelines.put("p", jobs=outer, inputs={"x": data}, settings={"default_compute": "local-cluster"})
    assert answer.status == 201, answer.json
    within = node_run_id("p", "within")
    assert pipelines.begun() == ["one"]
    pipelines.end(within, "one")
    assert pipelines.store.runs.require(within).status == "Completed"
    assert pipelines.begun() == ["one", "after"]
    pipelines.end("p", "after")
    assert pipelines.status("p") == "Completed"


def test_a_restart_begins_no_node_twice(pipelines: Pipelines) -> None:
    pipelines.put("p", **chain(pipelines))
    pipelines.store.runs.finish(node_run_id("p", "prep"), "Completed")
    pipelines.jobs.resume()
    pipelines.jobs.settle()
    assert sorted(pipelines.statuses("p")) == ["alone", "prep", "train"]
    pipelines.jobs.resume()
    pipelines.jobs.settle()
    assert sorted(pipelines.statuses("p")) == ["alone", "prep", "train"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"jobs": {}}, "has no nodes"),
        ({"jobs": {"a-b": NODE}}, "'a-b' consists of letters"),
        ({"jobs": {"a": {"type": "spark"}}}, "the node 'a' of type 'spark'"),
        ({"jobs": {"a": {**NODE, "surprise": 1}}}, "the field 'surprise' of the node 'a'"),
        ({"jobs": {"a": {**NODE, "componentId": "azureml:gone:1"}}}, "the component of the node 'a'"),
        ({"jobs": {"a": {**NODE, "inputs": {"x": literal("${{parent.jobs.b.outputs.y}}")}}}}, "there is no node 'b'"),
        ({"jobs": {"a": {**NODE, "inputs": {"x": literal("${{parent.inputs.y}}")}}}}, "has no input 'y'"),
        ({"jobs": {"a": {**NODE, "inputs": {"x": literal("${{inputs.y}}")}}}}, "neither an input of the pipeline"),
        ({"jobs": {"a": {**NODE, "outputs": {"x": literal("${{parent.outputs.y}}")}}}}, "has no output 'y'"),
        (
            {
                "jobs": {
                    "a": {**NODE, "inputs": {"x": literal("${{parent.jobs.b.outputs.y}}")}},
                    "b": {**NODE, "inputs": {"x": literal("${{parent.jobs.a.outputs.y}}")}},
                }
            },
            "wait for each other",
        ),
    ],
)
def test_what_is_no_graph_is_refused(pipelines: Pipelines, change: dict[str, Any], says: str) -> None:
    answer = pipelines.put("p", **change)
    assert answer.status in (400, 404, 501), answer.json
    assert says in answer.json["error"]["message"], answer.json
    assert pipelines.store.runs.get("p") is None


@pytest.mark.parametrize(
    ("spec", "node", "says"),
    [
        ({"inputs": {"x": {"type": "number"}}}, {}, "its required input 'x' has no value"),
        ({}, {"inputs": {"z": literal("1")}}, "its component has no input z"),
        ({}, {"outputs": {"z": {"mode": "rw_mount"}}}, "its component has no output z"),
        ({"type": "parallel"}, {}, "its component is of type 'parallel'"),
        ({"environment": f"azureml:{WS}/environments/gone/versions/1"}, {}, "gone"),
        ({}, {"computeId": "elsewhere"}, "Unknown compute target 'elsewhere'"),
        ({"command": "echo ${{inputs.y}}"}, {}, "the job has no input of that name"),
    ],
)
def test_what_no_node_can_run_is_refused_with_its_name(
    pipelines: Pipelines, spec: dict[str, Any], node: dict[str, Any], says: str
) -> None:
    component = pipelines.component("c", **spec)
    answer = pipelines.put("p", jobs={"a": {**NODE, "componentId": component, **node}})
    assert answer.status in (400, 404, 501), answer.json
    assert says in answer.json["error"]["message"], answer.json
    assert pipelines.store.runs.get("p") is None
    assert IDENTITY.compute == "local-cluster"


def test_expressions_in_texts_addresses_and_settings_are_the_pipelines_values(pipelines: Pipelines) -> None:
    # azure-sdk-for-python, tests/test_configs/dsl_pipeline/data_binding_expression: input_reason_expression.yml,
    # input_path_concatenate.yml, input_literal_meta.yml, run_settings_literal.yml.
    inputs = {"word": {"type": "string"}, "who": {"type": "string"}, "file": {"type": "uri_file", "mode": "download"}}
    component = pipelines.component("say", inputs=inputs)
    given = {"word": "${{parent.inputs.w}}_${{ parent.inputs.w }}!", "who": "${{parent.name}}"}
    node = {
        **NODE,
        "componentId": component,
        "inputs": {
            **{name: literal(text) for name, text in given.items()},
            "file": literal("${{parent.inputs.folder}}/${{parent.inputs.w}}.csv"),
        },
        "distribution": {"distribution_type": "PyTorch", "process_count_per_instance": "${{parent.inputs.n}}"},
    }
    place = "azureml://datastores/workspaceblobstore/paths/raw/"
    values = {
        "w": {"jobInputType": "literal", "value": "a"},
        "n": {"jobInputType": "literal", "value": "2"},
        "folder": {"jobInputType": "uri_folder", "uri": place},
    }
    answer = pipelines.put("p", inputs=values, jobs={"say": node})
    assert answer.status == 201, answer.json
    job = pipelines.store.runs.require(node_run_id("p", "say")).job
    assert job is not None
    assert {name: job["inputs"][name]["value"] for name in given} == {"word": "a_a!", "who": "p"}
    assert (job["inputs"]["file"]["jobInputType"], job["inputs"]["file"]["uri"]) == ("uri_file", f"{place}a.csv")
    assert str(job["distribution"]["processCountPerInstance"]) == "2"
    refused = pipelines.put(
        "q", inputs=values, jobs={"say": {**node, "inputs": {"word": literal("x${{parent.inputs.z}}")}}}
    )
    assert refused.status == 400
    assert "has no input 'z'" in refused.json["error"]["message"]


PARALLEL: dict[str, Any] = {
    "type": "parallel",
    "inputs": {"files": FOLDER, "k": {"type": "string"}},
    "outputs": {"lines": {"type": "uri_file"}},
    "input_data": "${{inputs.files}}",
    "mini_batch_size": "10",
    "max_concurrency_per_instance": 2,
    "resources": {"instance_count": 2, "shm_size": "1g"},
    "task": {
        "type": "run_function",
        "code": f"azureml:{WS}/codes/c/versions/1",
        "entry_script": "score.py",
        "program_arguments": "--k ${{inputs.k}}",
        "append_row_to": "${{outputs.lines}}",
    },
}


def test_a_parallel_node_divides_its_input_in_one_container(pipelines: Pipelines) -> None:
    task = {**PARALLEL["task"], "environment": f"azureml:{pipelines.environment()}"}
    pipelines.store.assets.put("codes", "c", "1", {"codeUri": "azureml://datastores/workspaceblobstore/paths/code"})
    component = pipelines.component("score", **{**PARALLEL, "task": task})
    folder = {"jobInputType": "uri_folder", "uri": "azureml://datastores/workspaceblobstore/paths/raw/"}
    node = {
        "type": "parallel",
        "componentId": component,
        "inputs": {"files": literal("${{parent.inputs.data}}", mode="Direct"), "k": literal("word")},
        "mini_batch_size": "5",
        # As azure-ai-ml 1.35 sends a list: entities/_builders/parallel.py, Parallel._to_rest_object.
        "partition_keys": '["store", "brand"]',
        "logging_level": "DEBUG",
        "environment_variables": {"A": "1"},
    }
    answer = pipelines.put(
        "p", inputs={"data": folder}, settings={"default_compute": IDENTITY.compute}, jobs={"score": node}
    )
    assert answer.status == 201, answer.json
    (spec,) = pipelines.runner.submitted
    python, program, data, target, encoded, *script = spec.command.split()
    assert (python, program) == ("python", "/mnt/azureml/cr/python/aml_parallel_run.py")
    assert (data, target, script) == ("${{inputs.files}}", "${{outputs.lines}}", ["score.py", "--k", "${{inputs.k}}"])
    assert json.loads(base64.b64decode(encoded)) == {
        "mini_batch_size": "5",
        "partition_keys": ["store", "brand"],
        "processes": 4,
    }
    assert (spec.nodes, spec.shm_bytes, spec.environment_variables) == (1, 2**30, {"A": "1"})
    assert pipelines.input_of("p", "score", "files")["mode"] == "ReadOnlyMount"
    for changed in ({"input_data": "${{inputs.other}}"}, {"task": {"entry_script": ""}}, {"partition_keys": "store"}):
        assert pipelines.put("q", inputs={"data": folder}, jobs={"score": {**node, **changed}}).status == 400


def test_named_outputs_of_nodes_and_of_the_pipeline_are_registered(pipelines: Pipelines) -> None:
    # As azure-ai-ml 1.35 sends them: `name` and `version` of a node's output, `assetName` of the pipeline's.
    prep = pipelines.component("prep", outputs={"clean": FOLDER, "rest": FOLDER})
    outputs = {
        "clean": literal("${{parent.outputs.out}}", name="of-node", version="7"),
        "rest": {"job_output_type": "uri_folder", "name": "rest-of-node", "version": "8"},
    }
    answer = pipelines.put(
        "p",
        jobs={"prep": {**NODE, "componentId": prep, "outputs": outputs}},
        outputs={"out": {"jobOutputType": "uri_folder", "assetName": "of-pipeline", "assetVersion": "9"}},
    )
    assert answer.status == 201, answer.json
    pipelines.end("p", "prep")
    assert pipelines.status("p") == "Completed"
    assert pipelines.call("GET", f"{WS}/data/of-pipeline/versions/9").status == 200
    job = pipelines.store.runs.require(node_run_id("p", "prep")).job
    assert job is not None
    assert {name: (one["assetName"], one["assetVersion"]) for name, one in job["outputs"].items()} == {
        "clean": ("of-node", "7"),
        "rest": ("rest-of-node", "8"),
    }
