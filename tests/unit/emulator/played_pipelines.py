"""A service whose pipelines' nodes are ended by hand."""

from __future__ import annotations

from typing import Any

from aml_emulator.domain.jobs.pipelines.runs import node_run_id
from aml_emulator.store.metrics import Metric
from tests.unit.emulator.parts import WS, Service

FOLDER = {"type": "uri_folder"}
NODE = {"type": "command", "_source": "YAML.JOB"}


class Pipelines(Service):
    """A service whose nodes are ended by hand."""

    def component(self, name: str, **spec: Any) -> str:
        """Register a component, and return its id."""
        spec = {
            "type": "command",
            "command": "python step.py",
            "environment": f"azureml:{self.environment()}",
            "inputs": {},
            "outputs": {},
            **spec,
        }
        answer = self.call(
            "PUT", f"{WS}/components/{name}/versions/1", {"properties": {"componentSpec": {"name": name, **spec}}}
        )
        assert answer.status == 201, answer.json
        return f"{WS}/components/{name}/versions/1"

    def put(self, name: str, **properties: Any) -> Any:
        """Submit a pipeline, and return the answer."""
        body = {"jobType": "Pipeline", "experimentName": "graphs", **properties}
        answer = self.call("PUT", f"{WS}/jobs/{name}", {"properties": body})
        self.jobs.settle()
        return answer

    def begun(self) -> list[str]:
        """Return the nodes that the executor was given, in their order."""
        return [spec.display_name for spec in self.runner.submitted]

    def end(self, pipeline: str, node: str, status: str = "Completed") -> None:
        """End the run of a node, with its outputs stored."""
        run = self.store.runs.require(node_run_id(pipeline, node))
        for output in run.outputs:
            self.store.runs.output_stored(run.id, output)
        self.store.runs.finish(run.id, status)
        self.jobs.settle()

    def status(self, name: str) -> str:
        """Return a pipeline's status, as it is shown."""
        return str(self.call("GET", f"{WS}/jobs/{name}").json["properties"]["status"])

    def statuses(self, pipeline: str) -> dict[str, str]:
        """Return the status of each node that has begun."""
        return {run.properties["azureml.nodeid"]: run.status for run in self.store.runs.children(pipeline)}

    def input_of(self, pipeline: str, node: str, name: str) -> Any:
        """Return an input of a node's job."""
        run = self.store.runs.require(node_run_id(pipeline, node))
        assert run.job is not None
        return run.job["inputs"].get(name)


def literal(value: str, **more: str) -> dict[str, str]:
    """Return a binding or a value, as azure-ai-ml sends it."""
    return {"value": value, "job_input_type": "literal", **more}


def train(pipelines: Pipelines, name: str = "train", **spec: Any) -> str:
    """Register the component of trials, and return its id."""
    return pipelines.component(
        name,
        command="python train.py --lr ${{inputs.lr}} $[[--depth ${{inputs.depth}}]] --k ${{inputs.k}}",
        inputs={
            "lr": {"type": "number"},
            "depth": {"type": "integer", "optional": True},
            "k": {"type": "string", "default": "a"},
        },
        outputs={"model": FOLDER},
        **spec,
    )


def sweep_node(component: str, **fields: Any) -> dict[str, Any]:
    """Return a sweep node, as azure-ai-ml 1.35 sends it."""
    return {
        "name": "tune",
        "type": "sweep",
        "_source": "YAML.COMPONENT",
        "trial": {"componentId": component},
        "inputs": {"k": literal("b")},
        "limits": {"max_total_trials": 3, "max_concurrent_trials": 2, "timeout": 7200, "trial_timeout": 60},
        "sampling_algorithm": "random",
        "objective": {"goal": "minimize", "primary_metric": "loss"},
        "search_space": {"lr": {"type": "uniform", "min_value": 0.1, "max_value": 0.2}},
        **fields,
    }


def end_trial(pipelines: Pipelines, sweep: str, number: int, loss: float | None, status: str = "Completed") -> None:
    """End a trial that has logged a loss and stored its outputs."""
    trial = f"{sweep}_{number}"
    if loss is not None:
        pipelines.store.metrics.log(trial, [Metric(key="loss", value=loss, timestamp=1, step=0)])
    for output in pipelines.store.runs.require(trial).outputs:
        pipelines.store.runs.output_stored(trial, output)
    pipelines.store.runs.finish(trial, status)
    pipelines.jobs.settle()
