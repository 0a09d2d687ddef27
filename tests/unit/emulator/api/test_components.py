"""Components in the form in which AzureML shows them, and pipeline jobs that are made of one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.emulator.parts import WS, Service
from tests.unit.emulator.played_pipelines import FOLDER, Pipelines, literal

NAME = f"{WS}/components/step"


def put(service: Service, at: str = "1", /, **spec: Any) -> Any:
    answer = service.call("PUT", f"{NAME}/versions/{at}", {"properties": {"componentSpec": spec}})
    assert answer.status in (200, 201), answer.json
    return answer.json["properties"]["componentSpec"]


def test_a_component_is_shown_completed_with_text_for_numbers_and_flags(service: Service) -> None:
    # Recorded: component/e2etests, test_pytorch_component.
    shown = put(
        service,
        command="echo ${{inputs.number}}",
        environment="azureml:AzureML-sklearn-1.0:33",
        resources={"instance_count": 2},
        distribution={"type": "pytorch", "process_count_per_instance": 4},
        is_deterministic=True,
        inputs={"number": {"type": "number", "optional": True, "default": 10.99}, "path": FOLDER},
        outputs={"out": {"type": "uri_folder"}},
        type="command",
        _source="YAML.COMPONENT",
    )
    assert shown == {
        "name": "step",
        "version": "1",
        "is_deterministic": "True",
        "type": "command",
        "inputs": {
            "number": {"type": "number", "optional": "True", "default": "10.99"},
            "path": {"type": "uri_folder", "optional": "False"},
        },
        "outputs": {"out": {"type": "uri_folder"}},
        "command": "echo ${{inputs.number}}",
        "environment": "azureml://registries/azureml/environments/AzureML-sklearn-1.0/versions/33",
        "resources": {"instance_count": "2"},
        "distribution": {"type": "Pytorch", "process_count_per_instance": "4"},
    }


@pytest.mark.parametrize(("kind", "flag"), [("command", "True"), ("pipeline", "False")])
def test_a_component_that_does_not_say_is_deterministic_by_its_type(service: Service, kind: str, flag: str) -> None:
    shown = put(service, type=kind)
    assert shown["is_deterministic"] == flag
    assert ("resources" in shown) == (kind == "command")


def test_a_component_that_is_sent_as_it_was_shown_is_the_same(service: Service) -> None:
    sent: dict[str, Any] = {
        "command": "echo ${{inputs.n}}",
        "environment": "azureml:AzureML-sklearn-1.0:33",
        "inputs": {"n": {"type": "integer", "default": 3, "optional": None}},
        "resources": {"instance_count": 2},
        "is_deterministic": True,
    }
    shown = put(service, **sent)
    body = {"properties": {"componentSpec": shown, "isArchived": True}}
    answer = service.call("PUT", f"{NAME}/versions/1", body)
    assert answer.status == 200, answer.json
    assert answer.json["properties"]["isArchived"] is True
    stored = service.store.assets.version("components", "step", "1")
    assert stored is not None
    assert stored.properties["componentSpec"] == sent


@pytest.mark.parametrize("word", ["azureml_default", "default", "latest"])
def test_the_newest_version_is_the_default_one(service: Service, word: str) -> None:
    for version in ("1", "2"):
        put(service, version, command=version)
    answer = service.call("GET", f"{NAME}/versions/{word}")
    assert answer.json["properties"]["componentSpec"]["command"] == "2"
    assert answer.json["id"].endswith("/step/labels/default") == (word == "azureml_default")
    assert service.call("GET", f"{WS}/components/other/versions/{word}").status == 404


def graph_component(pipelines: Pipelines) -> str:
    prep = pipelines.component("prep", inputs={"group.rate": {"type": "number"}}, outputs={"clean": FOLDER})
    node = {
        "type": "command",
        "componentId": prep,
        "inputs": {"group.rate": literal("${{parent.inputs.group.rate}}")},
        "outputs": {"clean": literal("${{parent.outputs.out}}", type="uri_folder")},
    }
    return pipelines.component(
        "whole",
        type="pipeline",
        inputs={"group.rate": {"type": "number", "default": 3}, "more": {"type": "string", "optional": True}},
        outputs={"out": FOLDER},
        jobs={"prep": node},
    )


def test_a_pipeline_job_may_be_a_component(pipelines: Pipelines) -> None:
    component = graph_component(pipelines)
    answer = pipelines.put("p", componentId=component, settings={})
    assert answer.status == 201, answer.json
    assert answer.json["properties"]["inputs"]["group.rate"]["value"] == "3"
    pipelines.end("p", "prep")
    assert pipelines.status("p") == "Completed"
    # Sent again, it is the same job.
    assert pipelines.put("p", componentId=component, settings={}).status == 200


def test_a_pipeline_job_of_a_component_has_its_own_inputs(pipelines: Pipelines) -> None:
    inputs = {"group.rate": {"jobInputType": "literal", "value": "5"}}
    answer = pipelines.put("p", componentId=graph_component(pipelines), inputs=inputs)
    assert answer.status == 201, answer.json
    assert pipelines.input_of("p", "prep", "group.rate")["value"] == "5"
