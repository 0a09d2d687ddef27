"""Components in the form in which AzureML shows them, and pipeline jobs that are made of one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.emulator.parts import WS, Service
from tests.unit.emulator.played_pipelines import FOLDER

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


def test_spark_ports_lose_their_mode_and_a_default_compute_its_prefix(service: Service) -> None:
    # Recorded in March 2026: component/e2etests, test_spark_component and test_simple_pipeline_component_create.
    ports = {"port": {"type": "uri_file", "mode": "direct"}}
    shown = put(service, "1", type="spark", inputs=ports, outputs=ports)
    assert shown["inputs"] == {"port": {"type": "uri_file", "optional": "False"}}
    assert shown["outputs"] == {"port": {"type": "uri_file"}}
    inputs = {name: {"type": "string", "default": "azureml:cpu-cluster"} for name in ("compute", "other")}
    node = {"type": "command", "computeId": "${{parent.inputs.compute}}"}
    shown = put(service, "2", type="pipeline", inputs=inputs, jobs={"node": node})
    assert [one["default"] for one in shown["inputs"].values()] == ["cpu-cluster", "azureml:cpu-cluster"]


def test_anonymous_components_of_one_content_keep_their_own_names(service: Service) -> None:
    # Recorded in March 2026: component/e2etests, test_anonymous_component_reuse.
    at = f"{WS}/components/azureml_anonymous/versions/0a1b"
    answers = [
        service.call(
            "PUT", at, {"properties": {"componentSpec": {"name": name, "command": "echo", "type": "command"}}}
        )
        for name in ("one", "two", "one", "two")
    ]
    assert [answer.json["properties"]["componentSpec"]["name"] for answer in answers] == ["one", "two", "one", "two"]
    assert len({answer.json["id"] for answer in answers}) == 2


def test_a_task_names_a_curated_environment_in_its_registry(service: Service) -> None:
    # azure-sdk-for-python, tests/test_configs/components/downloaded/parallel_with_code: what Azure showed of it.
    task = {"type": "run_function", "entry_script": "score.py"}
    shown = put(service, type="parallel", task={**task, "environment": "azureml:AzureML-sklearn-1.0:33"})
    address = "azureml://registries/azureml/environments/AzureML-sklearn-1.0/versions/33"
    assert shown["task"] == {**task, "environment": address}
