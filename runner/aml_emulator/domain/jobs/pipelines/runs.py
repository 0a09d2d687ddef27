"""The runs of pipeline jobs.

A node begins when those that it needs have completed.

A node's run has an id that follows from its pipeline's and its name, so that after a restart no node begins twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from aml_emulator.domain.environments import image_of_environment
from aml_emulator.domain.errors import DomainError, InvalidError
from aml_emulator.domain.jobs.check import check_inputs, check_job, check_outputs
from aml_emulator.domain.jobs.composed import NODE_ID, SubmitChild, end_composed, write_line
from aml_emulator.domain.jobs.compute import check_compute
from aml_emulator.domain.jobs.pipelines.graph import PIPELINE, SWEEP, Graph, Node, read_graph
from aml_emulator.domain.jobs.pipelines.nodes import Component, Scope, component_of, node_job, reuse_key
from aml_emulator.domain.jobs.places import put_output_asset, register_outputs
from aml_emulator.domain.jobs.sweeps.runs import BEST, OBJECTIVE, SCORE
from aml_emulator.domain.jobs.types import JOB_SHAPE, SWEEP_SHAPE
from aml_emulator.domain.locations import ARTIFACT_OUTPUTS
from aml_emulator.domain.workspace import REUSED_RUN, Workspace
from aml_emulator.schema import BodyError, check
from aml_emulator.store.runs import Run

PIPELINE_RUN: Final = "azureml.pipelinerunid"
"""The property of a node's run that names its pipeline's."""

REUSE_KEY: Final = "azureml.localReuseKey"
EXECUTION_LOG: Final = "logs/azureml/executionlogs.txt"
FAILED_STEPS: Final = "Pipeline has some failed steps. See child run or execution logs for more details."
"""The service's own words."""

_IDS: Final = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")  # RFC 4122, appendix C: for object identifiers
_DEPTH: Final = 10


def node_run_id(pipeline: str, node: str) -> str:
    """Return the id of a node's run."""
    return str(uuid.uuid5(_IDS, f"{pipeline}/{node}"))


class PipelineRuns:
    """Runs pipelines' nodes; an `aml_emulator.domain.jobs.composed.Advancing`.

    Args:
        submit: submits the job of a node.
        cancel: cancels a job.
        check_sweep: returns if a sweep job can be run; raises DomainError otherwise.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        submit: SubmitChild,
        cancel: Callable[[str], object],
        check_sweep: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._workspace = workspace
        self._submit = submit
        self._cancel = cancel
        self._check_sweep = check_sweep

    def check(self, job: Mapping[str, Any], *, name: str = "", depth: int = 0) -> None:
        """Return if a pipeline's nodes can be run, as far as is known before.

        Args:
            job: the properties of a pipeline job.
            name: its node, if it is within another pipeline.
            depth: how many pipelines it is within.

        Raises:
            DomainError: a node that cannot run, with its name.
        """
        if depth > _DEPTH:
            raise InvalidError(f"The pipeline has more than {_DEPTH} pipelines within each other ('{name}').")
        check_inputs(job.get("inputs") or {})
        check_outputs(job.get("outputs") or {})
        graph = graph_of(job)
        planned: dict[str, dict[str, dict[str, Any]]] = {}
        for node in graph.nodes.values():
            component = component_of(self._workspace, node)
            scope = Scope(workspace=self._workspace, name=name, job=job, outputs=planned)
            try:
                self._check_node(node_job(scope, node, component), node, depth)
            except DomainError as error:
                error.message = f"jobs.{node.name}: {error.message}"
                raise
            planned[node.name] = self._planned(node, component)

    def _check_node(self, job: dict[str, Any], node: Node, depth: int) -> None:
        if node.kind == PIPELINE:
            self.check(job, name=node.name, depth=depth + 1)
            return
        try:
            check(SWEEP_SHAPE if node.kind == SWEEP else JOB_SHAPE, job)
        except BodyError as error:
            raise InvalidError(f"The node '{node.name}': {error}") from error
        if node.kind == SWEEP:
            self._check_sweep(job)
            return
        check_job({name: value for name, value in job.items() if name not in ("componentId", "parentJobName")})
        check_compute(self._workspace, job)
        image_of_environment(self._workspace, str(job["environmentId"]))

    def _planned(self, node: Node, component: Component) -> dict[str, dict[str, Any]]:
        """Return places of outputs that a node may have; they are only checked."""
        container = self._workspace.identity.blob_container
        names = {**{key: {} for key in ARTIFACT_OUTPUTS}, **component.outputs}
        return {
            name: {
                "container": container,
                "prefix": f"azureml/{node.name}/{name}",
                "kind": str(value.get("type") or "uri_folder"),
            }
            for name, value in names.items()
        }

    def advance(self, run: Run) -> None:
        """Begin the nodes that can, and end the pipeline when none runs and none can."""
        graph, runs = graph_of(run.job or {}), self._workspace.store.runs
        found = {child.properties.get(NODE_ID): child for child in runs.children(run.id)}
        children = {name: found[name] for name in graph.nodes if name in found}
        stopping = run.status == "CancelRequested"
        for node in graph.nodes.values():
            lost = frozenset(name for name, child in children.items() if child.status in ("Failed", "Canceled"))
            if stopping or (lost and not _continues(run)):
                break
            ready = all(name in children and children[name].status == "Completed" for name in node.needs)
            if node.name not in children and ready:
                try:
                    children[node.name] = self._begin_node(run, node, children)
                except DomainError as error:
                    self._log(run, f"The node {node.name} cannot begin: {error.message}")
                    self._end(run, "Failed", f"{FAILED_STEPS} {node.name}: {error.message}")
                    return
        active = [child for child in children.values() if not child.terminal]
        lost = frozenset(name for name, child in children.items() if child.status in ("Failed", "Canceled"))
        if active:
            if stopping or (lost and not _continues(run)):
                for child in active:
                    self._cancel(child.id)
            return
        self._conclude(run, graph, children)

    def _begin_node(self, run: Run, node: Node, children: Mapping[str, Run]) -> Run:
        workspace = self._workspace
        component = component_of(workspace, node)
        outputs = {name: self._outputs_of(child) for name, child in children.items()}
        job = node_job(Scope(workspace=workspace, name=run.id, job=run.job or {}, outputs=outputs), node, component)
        job["experimentName"] = run.experiment
        run_id = node_run_id(run.id, node.name)
        key = None if node.kind == PIPELINE else reuse_key(component, job)
        properties = {
            NODE_ID: node.name,
            "azureml.runsource": "azureml.StepRun",
            PIPELINE_RUN: run.id,
            "azureml.moduleName": str(component.spec.get("name") or node.name),
            **({} if key is None else {REUSE_KEY: key}),
        }
        workspace.store.runs.advance(run.id, "Running")
        if key is not None and not _flag(run, "force_rerun"):
            earlier = workspace.store.runs.completed_with(REUSE_KEY, key)
            if earlier is not None and _is_whole(earlier, job["outputs"]):
                return self._reused(run, run_id, job, properties, earlier)
        self._log(run, f"Submitting 1 runs, first five are: {node.name}:{run_id}")
        return self._submit(run_id, job, properties)

    def _outputs_of(self, child: Run) -> dict[str, Mapping[str, Any]]:
        """Return the places of a node's outputs and of its captured files."""
        folder = self._workspace.files_of(child)
        captured = {"container": folder.container, "prefix": folder.prefix, "kind": "uri_folder"}
        return {**dict.fromkeys(ARTIFACT_OUTPUTS, captured), **child.outputs}

    def _reused(
        self, run: Run, run_id: str, job: Mapping[str, Any], properties: Mapping[str, str], earlier: Run
    ) -> Run:
        """Store the run of a node whose outputs are those of an earlier run.

        AzureML "copies original component's status, displays original component's output/logs/metrics for the reused
        component" (https://learn.microsoft.com/azure/machine-learning/how-to-debug-pipeline-reuse-issues): the run has
        the values, and reads the files. Clients read its properties ``azureml.isreused`` and ``azureml.reusedrunid``
        (azure-ai-ml 1.35, ``JobOperations.download``), ``azureml.reusednodeid`` and ``azureml.reusedpipeline``
        (azureml-pipeline-core 1.62, ``StepRun._from_dto``) and ``azureml.reusedpipelinerunid`` (Azure/azureml-assets,
        ``assets/aml-benchmark/components/src/benchmark_result_aggregator``).
        """
        store, runs = self._workspace.store, self._workspace.store.runs
        first = earlier.properties.get(REUSED_RUN, earlier.id)
        origin = earlier.properties.get("azureml.reusedpipelinerunid", earlier.properties.get(PIPELINE_RUN, ""))
        reused = {
            "azureml.isreused": "true",
            REUSED_RUN: first,
            "azureml.reusednodeid": earlier.properties.get(
                "azureml.reusednodeid", earlier.properties.get(NODE_ID, "")
            ),
            "azureml.reusedpipeline": origin,
            "azureml.reusedpipelinerunid": origin,
            **{name: earlier.properties[name] for name in (BEST, OBJECTIVE, SCORE) if name in earlier.properties},
        }
        with self._workspace.store.transaction():
            runs.create(
                run_id=run_id,
                experiment_id=run.experiment_id,
                display_name=str(job.get("displayName") or run_id),
                status="Running",
                parent_id=run.id,
                tags={key: str(value) for key, value in (job.get("tags") or {}).items()},
                properties={**properties, **reused},
                job=job,
                outputs=earlier.outputs,
                started=self._workspace.clock(),
            )
            store.metrics.copy(earlier.id, run_id)
            store.v1.copy(earlier.id, run_id)
            runs.copy_artifacts(earlier.id, run_id)
            runs.finish(run_id, "Completed")
        self._log(run, f"Reusing the outputs of {first} for {properties[NODE_ID]}:{run_id}")
        return runs.require(run_id)

    def _conclude(self, run: Run, graph: Graph, children: Mapping[str, Run]) -> None:
        if all(name in children and children[name].status == "Completed" for name in graph.nodes):
            outputs = {
                promoted: children[node.name].outputs[name]
                for node in graph.nodes.values()
                for name, promoted in node.promoted.items()
                if name in children[node.name].outputs
            }
            self._workspace.store.runs.set_outputs(run.id, outputs)
            for name in outputs:
                put_output_asset(self._workspace, run.id, name)
            self._register(run, graph, children)
            self._end(run, "Completed")
        elif run.status == "CancelRequested":
            self._end(run, "Canceled")
        else:
            self._end(run, "Failed", FAILED_STEPS)

    def _register(self, run: Run, graph: Graph, children: Mapping[str, Run]) -> None:
        """Register the pipeline's named outputs, but for those that a node has registered."""
        named = (run.job or {}).get("outputs") or {}
        left = []
        for node in graph.nodes.values():
            made = (children[node.name].job or {}).get("outputs") or {}
            for name, promoted in node.promoted.items():
                if (made.get(name) or {}).get("assetName") != (named.get(promoted) or {}).get("assetName"):
                    left.append(promoted)
        for problem in register_outputs(self._workspace, self._workspace.store.runs.require(run.id), left):
            self._log(run, problem)

    def _end(self, run: Run, status: str, message: str | None = None) -> None:
        said = "Finishing experiment"
        end_composed(self._workspace, run, status, message, log=EXECUTION_LOG, said=said, cancel=self._cancel)

    def fail(self, run: Run, message: str) -> None:
        """End a pipeline that cannot continue."""
        self._end(run, "Failed", message)

    def _log(self, run: Run, line: str) -> None:
        write_line(self._workspace, run, EXECUTION_LOG, line)


def changed_graph(known: Mapping[str, Any], sent: Mapping[str, Any]) -> list[str]:
    """Return the fields that differ in another submission of a pipeline."""
    return [name for name in ("jobs", "inputs", "settings") if (known.get(name) or {}) != (sent.get(name) or {})]


def graph_of(job: Mapping[str, Any]) -> Graph:
    """Return the graph of a pipeline job's properties."""
    return read_graph(job.get("jobs") or {}, inputs=job.get("inputs") or {}, outputs=job.get("outputs") or {})


def _is_whole(run: Run, outputs: Mapping[str, Any]) -> bool:
    """Return whether a run has stored each of these outputs.

    A sweep without a best trial has none.
    """
    return all(name in run.outputs and run.outputs[name]["stored"] for name in outputs)


def _continues(run: Run) -> bool:
    """Return whether nodes that need no failed one continue: by default they do.

    https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-pipeline, ``settings.continue_on_step_failure``.
    """
    return _flag(run, "continue_on_step_failure", default=True)


def _flag(run: Run, name: str, *, default: bool = False) -> bool:
    value = ((run.job or {}).get("settings") or {}).get(name)
    return default if value is None else str(value).lower() == "true"
