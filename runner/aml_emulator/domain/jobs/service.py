"""The life of jobs: submit, change, cancel, follow, resume after a restart."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from aml_emulator.domain.clusters import scale_of
from aml_emulator.domain.errors import ConflictError, InvalidError, NotSupportedError
from aml_emulator.domain.jobs.check import changed, check_job
from aml_emulator.domain.jobs.composed import PIPELINE, SWEEP, Composed, composed_kind
from aml_emulator.domain.jobs.compute import check_compute, compute_of
from aml_emulator.domain.jobs.pipelines.nodes import whole_pipeline
from aml_emulator.domain.jobs.pipelines.runs import PipelineRuns, changed_graph
from aml_emulator.domain.jobs.places import check_reachable, place_outputs, put_output_asset, register_outputs
from aml_emulator.domain.jobs.sweeps.runs import SweepRuns, changed_sweep, sweep_properties, sweep_tags
from aml_emulator.domain.jobs.to_run_spec import run_spec
from aml_emulator.domain.runs import JOB_NAME, known_job
from aml_emulator.domain.workspace import FILES_NOT_KEPT, Workspace
from aml_emulator.executor.spec import Ending, JobExecutor, RunError, RunSpec, spec_from_json, spec_to_json
from aml_emulator.store.runs import Run

MOST_FILES: Final = 5
"""Files outside its outputs that a job's property names."""
_MODEL: Final = re.compile(r"model|\.(?:joblib|pkl|pickle|pth?|ckpt|safetensors|onnx|h5|keras|cbm|bin)$")

logger = logging.getLogger(__name__)

DEFAULT_EXPERIMENT = "Default"

EVENTS: Final[Mapping[str, str]] = {
    "Start": "Running",
    "Completed": "Completed",
    "Failed": "Failed",
    "Canceled": "Canceled",
    "CancelRequested": "CancelRequested",
}
"""The status that an event of a client leads to, by the last word of its name."""

_COMPARED: Final = {PIPELINE: changed_graph, SWEEP: changed_sweep}

IGNORED: Final = frozenset({"Error", "Warning", "Heartbeat"})
"""Events that change no status."""


class JobService:
    """Keeps the store and the executor of one mind.

    Args:
        runner: what executes runs, and reports to their `RunProgress`.
    """

    def __init__(self, workspace: Workspace, runner: JobExecutor) -> None:
        self._workspace = workspace
        self.runner = runner
        self._submitting = threading.Lock()
        sweeps = SweepRuns(workspace, submit=self._submit_child, cancel=self.cancel, remind=self._remind)
        pipelines = PipelineRuns(workspace, submit=self._submit_child, cancel=self.cancel, check_sweep=sweeps.check)
        self._composed = Composed(workspace, {PIPELINE: pipelines, SWEEP: sweeps}, cancel=self.cancel)

    def put(
        self, name: str, job: Mapping[str, Any], *, runconfig: Mapping[str, Any] | None = None
    ) -> tuple[Run, bool]:
        """Submit a job, or change what may be changed of one that was submitted.

        Args:
            name: the job's name, which is its run's id.
            job: its ``properties``.
            runconfig: the RunConfiguration that azureml-core reads back; None of another client's job.

        Returns:
            the run, and whether it is new.

        Raises:
            DomainError: the job is refused, or another one has that name.
        """
        if not JOB_NAME.fullmatch(name):
            raise InvalidError(f"A job's name consists of letters, digits, '-' and '_', 255 at most: '{name}'")
        if variables := job.get("environmentVariables"):
            # azure-ai-ml 1.35 sends numbers and flags as they are; its models, and those of 1.34, declare text.
            job = {**job, "environmentVariables": {key: str(value) for key, value in variables.items()}}
        if composed_kind(job) == PIPELINE:
            job = whole_pipeline(self._workspace, job)
        if self._workspace.store.runs.get(name) is None:
            if composed_kind(job) is not None:
                self._composed.check(job, name=name)
            else:
                check_job(job)
                # Before the lock: a host that is slow to answer delays no other request.
                check_reachable(self._workspace, job)
        with self._submitting:
            known = self._workspace.store.runs.get(name)
            if known is not None:
                return self._update(known, job), False
            return self._submit(name, job, runconfig=runconfig), True

    def _remind(self, run: Run, seconds: float) -> None:
        self._composed.remind(run, seconds)

    def _submit_child(self, name: str, job: Mapping[str, Any], properties: Mapping[str, str]) -> Run:
        """Submit the job of a node or a trial, unless that was done before a restart."""
        with self._submitting:
            return self._workspace.store.runs.get(name) or self._submit(name, job, properties)

    def _submit(
        self,
        name: str,
        job: Mapping[str, Any],
        properties: Mapping[str, str] | None = None,
        *,
        runconfig: Mapping[str, Any] | None = None,
    ) -> Run:
        workspace = self._workspace
        given = {**_texts(job.get("properties")), **(properties or {})}
        if (kind := composed_kind(job)) is not None:
            if kind == SWEEP:
                given |= sweep_properties(job)
                job = {**job, "tags": {**(job.get("tags") or {}), **sweep_tags(job)}}
            run = self._store(name, job, status="Preparing", properties=given)
            logger.info("%s %s submitted", kind, name)
            self._composed.begin(run)
            return run
        check_compute(workspace, job)
        outputs = place_outputs(workspace, name, job)
        given |= {
            "_azureml.ComputeTargetType": "amlctrain",
            "_azureml.ClusterName": compute_of(workspace, job),
            "ProcessInfoFile": "azureml-logs/process_info.json",
            "ProcessStatusFile": "azureml-logs/process_status.json",
        }
        if job.get("codeId"):
            given["ContentSnapshotId"] = str(job["codeId"]).split("/versions/")[0].rpartition("/")[2]
        with workspace.store.transaction():
            # An error in the spec also rolls back the run.
            run = self._store(name, job, status="Starting", properties=given, outputs=outputs)
            spec = run_spec(workspace, run)
            workspace.store.runs.set_spec(name, spec_to_json(spec))
            if runconfig is not None:
                workspace.store.v1.put_definition(name, runconfig)
        logger.info("job %s submitted (image %s)", name, spec.image)
        self.runner.submit(spec)
        return run

    def _store(
        self,
        name: str,
        job: Mapping[str, Any],
        *,
        status: str,
        properties: Mapping[str, str],
        outputs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Run:
        """Store the run of a new job."""
        runs, parent = self._workspace.store.runs, job.get("parentJobName") or None
        with self._workspace.store.transaction():
            if parent is not None and runs.get(str(parent)) is None:
                raise InvalidError(f"parentJobName: there is no job '{parent}'.")
            return runs.create(
                run_id=name,
                experiment_id=runs.ensure_experiment(str(job.get("experimentName") or DEFAULT_EXPERIMENT)).id,
                display_name=str(job.get("displayName") or name),
                description=job.get("description"),
                status=status,
                tags=_texts(job.get("tags")),
                properties=properties,
                job=job,
                outputs=outputs,
                parent_id=parent,
            )

    def _update(self, run: Run, job: Mapping[str, Any]) -> Run:
        if run.job is None:
            raise InvalidError(f"A run with the name '{run.id}' exists already and is not a job.")
        compare = _COMPARED.get(composed_kind(run.job) or "", changed)
        different = compare(run.job, job)
        if different:
            raise InvalidError(
                f"A job with this name already exists ('{run.id}'). If you are trying to create a new job, use a"
                " different name. If you are trying to update an existing job, its"
                f" {', '.join(different)} cannot be changed: only description, display name, tags, properties and"
                " whether it is archived can.",
                reasons=("Immutable",),
            )
        return self.change(run.id, job)

    def change(self, name: str, fields: Mapping[str, Any]) -> Run:
        """Change the names, tags and description of a job, and whether it is archived."""
        tags = fields.get("tags")
        with self._workspace.store.transaction():
            run = known_job(self._workspace, name)
            self._workspace.store.runs.change(
                run.id,
                display_name=fields.get("displayName"),
                description=fields.get("description"),
                tags=None if tags is None else _texts(tags),
                archived=fields.get("isArchived"),
            )
            return self._workspace.store.runs.require(run.id)

    def delete(self, name: str) -> None:
        """Delete a job with its metrics and children; blobs stay.

        Raises:
            NotFoundError: if there is no such job.
            ConflictError: it has not ended, a job below it has not, or the pipeline or sweep that it belongs to.
        """
        with self._submitting:
            run = known_job(self._workspace, name)
            if not run.terminal:
                raise ConflictError(f"The job '{name}' is {run.status}: cancel it, and delete it when it has ended.")
            self._check_family_ended(run)
            self._workspace.store.runs.delete(run.id)
        logger.info("job %s: deleted", name)

    def _check_family_ended(self, run: Run) -> None:
        """Return if no job that continues misses a job that is deleted.

        A pipeline would submit the node again, and an executor reports the end of its job.
        """
        store = self._workspace.store.runs
        for above in store.ancestors(run):
            if composed_kind(above.job) is not None and not above.terminal:
                raise ConflictError(
                    f"The job '{run.id}' belongs to '{above.id}', which is {above.status}: delete it when that has ended."
                )
        below = store.children(run.id)
        while below:
            child = below.pop()
            if child.job is not None and not child.terminal:
                raise ConflictError(
                    f"The job '{child.id}', which belongs to it, is {child.status}: delete '{run.id}' when it has ended."
                )
            below += store.children(child.id)

    def cancel(self, name: str) -> Run:
        """Ask for a job to be stopped; one that has ended stays as it is.

        Raises:
            NotFoundError: if there is no such job.
        """
        run = known_job(self._workspace, name)
        if not run.terminal:
            logger.info("job %s: asked to cancel", name)
            self._workspace.store.runs.advance(name, "CancelRequested")
            if composed_kind(run.job) is not None:
                self._composed.stop(run)
            elif not self.runner.cancel(name):
                # Nothing executes it: it was never handed over, or its end is being written down just now.
                self._workspace.store.runs.finish(name, "Canceled")
        return known_job(self._workspace, name)

    def report_event(self, run: Run, name: str) -> None:
        """Change a run's status as a client's event says.

        Args:
            run: a job, of which only a request to cancel counts, or a run that the client made.
            name: the event's; its last word counts.

        Raises:
            NotSupportedError: an unknown event.
        """
        word = name.rpartition(".")[2]
        if word in IGNORED:
            return
        if word not in EVENTS:
            raise NotSupportedError(f"events of runs named '{name}'")
        store, status = self._workspace.store.runs, EVENTS[word]
        if run.job is not None:
            # The executor alone reports the status of a job; a client can only cancel it.
            if status in ("Canceled", "CancelRequested"):
                self.cancel(run.id)
        elif status in ("Completed", "Failed", "Canceled"):
            store.finish(run.id, status)
        else:
            store.advance(run.id, status)

    def scale(self, name: str) -> None:
        """Give a cluster the nodes that it is stored with; jobs that wait for them begin.

        A cluster that was deleted meanwhile gets none.
        """
        # The lock: of two changes at once, the one stored last is the one that is read last.
        with self._submitting:
            compute = self._workspace.store.assets.compute(name)
            if compute is not None:
                self._workspace.fleet.configure(name, scale_of(compute, self._workspace.quotas))
        self.runner.wake()

    def remove_compute(self, name: str) -> None:
        """Release a cluster that is deleted; the jobs that wait for it or run on it fail."""
        with self._submitting:
            self._workspace.store.assets.delete_compute(name)
            lost = self._workspace.fleet.remove(name)
        for run_id in lost:
            logger.info("job %s: %s", run_id, _deleted(name))
            self.runner.fail(run_id, RunError(code="UserError", message=_deleted(name)))

    def _lost_meanwhile(self, run: Run) -> bool:
        """Fail a job whose cluster was deleted while it was not known; return whether so."""
        compute = compute_of(self._workspace, run.job or {})
        if self._workspace.store.assets.compute(compute) is not None:
            return False
        self._workspace.store.runs.finish(run.id, "Failed", code="UserError", message=_deleted(compute))
        return True

    def resume(self) -> None:
        """Start the executor, and resume the runs that had not ended at the last stop."""
        store = self._workspace.store.runs
        with self._submitting:
            for compute in self._workspace.store.assets.computes():
                self._workspace.fleet.configure(compute.name, scale_of(compute, self._workspace.quotas))
            known = set(self.runner.active())
            unfinished = [
                run
                for run in store.unfinished_jobs()
                if run.spec is not None and run.id not in known and not self._lost_meanwhile(run)
            ]
            specs = {run.id: spec_from_json(run.spec or "") for run in unfinished}
            self.runner.adopt([specs[run.id] for run in unfinished if run.status not in ("Starting", "Queued")])
            self.runner.start()
            for run in unfinished:
                if run.status in ("Starting", "Queued"):
                    self.runner.submit(specs[run.id])
                elif run.status == "CancelRequested" and not self.runner.cancel(run.id):
                    store.finish(run.id, "Canceled")
        for run in store.unfinished_jobs():
            if composed_kind(run.job) is not None:
                self._composed.begin(run)

    def settle(self) -> None:
        """Return when every node and trial that can begin has begun."""
        self._composed.settle()

    def close(self) -> None:
        """Begin no further nodes and trials."""
        self._composed.close()


class RunProgress:
    """Stores the progress of a run; an `aml_emulator.executor.spec.RunSink`."""

    def __init__(self, workspace: Workspace, run_id: str) -> None:
        self._workspace = workspace
        self._run_id = run_id

    def status(self, word: str) -> None:
        """The run is now in that status."""
        if self._workspace.store.runs.advance(self._run_id, word):
            logger.info("job %s: %s", self._run_id, word)

    def log(self, path: str) -> None:
        """A log exists at *path*, and grows."""
        self._workspace.store.runs.add_artifact(self._run_id, path, log=True)

    def artifact(self, path: str, size: int) -> None:
        """A file of *size* bytes was stored at *path*."""
        self._workspace.store.runs.add_artifact(self._run_id, path, size=size)

    def output(self, name: str) -> None:
        """The named output is stored whole and becomes a data asset, as on AzureML."""
        self._workspace.store.runs.output_stored(self._run_id, name)
        put_output_asset(self._workspace, self._run_id, name)

    def unkept(self, files: Mapping[str, int]) -> None:
        """The command left these files where they are not kept; what it logged as artifacts is."""
        runs = self._workspace.store.runs
        kept = {artifact.path.rpartition("/")[2] for artifact in runs.artifacts(self._run_id)}
        lost = {path: size for path, size in files.items() if path.rpartition("/")[2] not in kept}
        names = sorted(lost, key=lambda path: (_MODEL.search(path) is None, -lost[path]))[:MOST_FILES]
        shown = [
            f"{path} ({f'{lost[path] / 1e6:.1f} MB' if lost[path] >= 1e6 else f'{lost[path]} B'})" for path in names
        ]
        more = [f"{len(lost) - MOST_FILES} more"] if len(lost) > MOST_FILES else []
        runs.tag(self._run_id, {}, properties={FILES_NOT_KEPT: ", ".join([*shown, *more])})

    def requeued(self) -> RunSpec | None:
        """The run waits for other nodes, as on AzureML after a preemption: its files and metrics stay."""
        runs = self._workspace.store.runs
        spec = spec_from_json(runs.require(self._run_id).spec or "")
        spec = replace(spec, attempt=spec.attempt + 1, requeued=time.time())
        if not runs.requeue(self._run_id, spec_to_json(spec)):
            self.finished("Canceled", None)
            return None
        logger.info("job %s: preempted, and queued for attempt %d", self._run_id, spec.attempt)
        return spec

    def finished(self, status: Ending, error: RunError | None) -> None:
        """The run ended; an output that cannot be registered fails a completed job."""
        if status == "Completed":
            problems = register_outputs(self._workspace, self._workspace.store.runs.require(self._run_id))
            if problems:
                status, error = "Failed", RunError(code="UserError", message=" ".join(problems), exit_code=0)
        self._workspace.store.runs.finish(
            self._run_id,
            status,
            code=error.code if error else None,
            message=error.message if error else None,
            exit_code=error.exit_code if error else (0 if status == "Completed" else None),
        )
        logger.info("job %s: %s%s", self._run_id, status, f" ({error.message})" if error else "")


def _texts(values: Mapping[str, Any] | None) -> dict[str, str]:
    """Return tags or properties as text; one without a value is none."""
    return {key: str(value) for key, value in (values or {}).items() if value is not None}


def _deleted(compute: str) -> str:
    return f"The compute target '{compute}' was deleted while the job was on it."
