"""Graphs with wrong values: refused or run, and never a failure of the service."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.emulator.memory_service import StoredBlobs
from tests.unit.emulator.parts import WS
from tests.unit.emulator.played_pipelines import NODE, Pipelines, literal

FOLDER = {"type": "uri_folder"}
SPEC: dict[str, Any] = {
    "name": "train",
    "type": "command",
    "command": "train --lr ${{inputs.lr}} --d ${{inputs.data}}",
    "environment": "",
    "inputs": {"lr": {"type": "number", "default": "1"}, "data": {**FOLDER, "mode": "download", "optional": True}},
    "outputs": {"model": {"type": "uri_folder", "mode": "upload"}},
    "environment_variables": {"A": "b"},
    "resources": {"instance_count": 1, "shm_size": "1g"},
    "limits": {"timeout": "PT5M"},
    "distribution": {"type": "pytorch", "process_count_per_instance": 1},
    "is_deterministic": True,
}
JOBS: dict[str, Any] = {
    "tune": {
        "type": "sweep",
        "trial": {"componentId": ""},
        "computeId": "local-cluster",
        "inputs": {"data": literal("${{parent.inputs.data}}")},
        "outputs": {"model": {"value": "${{parent.outputs.best}}", "type": "literal"}},
        "search_space": {
            "lr": {"type": "uniform", "min_value": 0, "max_value": 1},
        },
        "sampling_algorithm": {"type": "random", "rule": "sobol", "seed": 3, "logbase": "e"},
        "objective": {"goal": "minimize", "primary_metric": "loss"},
        "limits": {"max_total_trials": 2, "max_concurrent_trials": 1, "timeout": 60, "trial_timeout": 60},
        "early_termination": {"policy_type": "Bandit", "slack_factor": 0.1, "evaluation_interval": 1},
        "queue_settings": {"job_tier": "spot"},
        "resources": {"instance_count": 1},
    },
    "train": {
        **NODE,
        "componentId": "",
        "inputs": {"data": literal("${{parent.jobs.tune.outputs.model}}", mode="download"), "lr": literal("2")},
        "environment_variables": {"C": "d"},
        "identity": {"type": "managed"},
        "tags": {"a": "b"},
        "limits": {"timeout": "PT1M"},
    },
}
INPUTS = {"data": {"jobInputType": "uri_folder", "uri": "azureml://datastores/workspaceblobstore/paths/raw/"}}

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats()
    | st.text(max_size=4)
    | st.just("${{parent.inputs.data}}"),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(("value", "type", "x", "lr")), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the paths of all fields of an object."""
    if not isinstance(value, dict):
        return [path] if path else []
    return [
        *([path] if path else []),
        *(place for name, inner in value.items() for place in places(inner, (*path, name))),
    ]


def changed(value: dict[str, Any], path: tuple[str, ...], junk: Any) -> dict[str, Any]:
    """Return an object with junk at a path."""
    found = copy.deepcopy(value)
    inner = found
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = junk
    return found


@pytest.fixture(scope="module")
def service() -> Iterator[Pipelines]:
    made = Pipelines(blobs=StoredBlobs())
    yield made
    made.jobs.close()
    made.close()


def submit(service: Pipelines, jobs: dict[str, Any], spec: dict[str, Any], number: int) -> None:
    """Submit a graph whose nodes have a component; it is run or refused, and nothing fails."""
    spec = {**spec, "environment": spec.get("environment") or f"azureml:{service.environment()}"}
    path = f"{WS}/components/train/versions/{number}"
    answer = service.call("PUT", path, {"properties": {"componentSpec": spec}})
    assert answer.status in (201, 400), answer.json
    given_jobs = copy.deepcopy(jobs)
    for node in given_jobs.values():
        if isinstance(node, dict) and node.get("componentId") == "":
            node["componentId"] = path
        if isinstance(node, dict) and (node.get("trial") or {}) == {"componentId": ""}:
            node["trial"]["componentId"] = path
    outputs = {"best": {"jobOutputType": "uri_folder"}}
    body = {
        "jobType": "Pipeline",
        "inputs": INPUTS,
        "outputs": outputs,
        "jobs": given_jobs,
        "settings": {"default_compute": "local-cluster", "force_rerun": True},
    }
    answer = service.call("PUT", f"{WS}/jobs/p{number}", {"properties": body})
    assert answer.status in (201, 400, 404, 501), answer.json
    service.jobs.settle()
    if answer.status == 201:
        service.call("POST", f"{WS}/jobs/p{number}/cancel")
        service.jobs.settle()


def test_the_graph_is_right_as_it_is(service: Pipelines) -> None:
    submit(service, JOBS, SPEC, 0)
    assert service.store.runs.require("p0").status in ("Running", "CancelRequested", "Canceled")
    assert {run.properties["azureml.nodeid"] for run in service.store.runs.children("p0")} == {"tune"}


_COUNT = iter(range(1, 1_000_000))


@given(st.sampled_from(places(JOBS)), JUNK)
@settings(deadline=None, max_examples=200)
def test_no_wrong_node_makes_the_service_fail(service: Pipelines, path: tuple[str, ...], junk: Any) -> None:
    with_problems(service, changed(JOBS, path, junk), SPEC)


@given(st.sampled_from(places(SPEC)), JUNK)
@settings(deadline=None, max_examples=100)
def test_no_wrong_component_makes_the_service_fail(service: Pipelines, path: tuple[str, ...], junk: Any) -> None:
    with_problems(service, JOBS, changed(SPEC, path, junk))


class Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self.messages.append(record.getMessage())


def with_problems(service: Pipelines, jobs: dict[str, Any], spec: dict[str, Any]) -> None:
    """Submit a graph, and fail if the service logs an error."""
    handler = Kept(level=logging.ERROR)
    logging.getLogger("aml_emulator").addHandler(handler)
    try:
        submit(service, jobs, spec, next(_COUNT))
    finally:
        logging.getLogger("aml_emulator").removeHandler(handler)
    assert [message for message in handler.messages if not message.startswith("unsupported: ")] == []
