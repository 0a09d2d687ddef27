"""Train a model again from its lineage, and compare."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aml_train.azure.target import WorkspaceTarget
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.clock import SYSTEM_CLOCK, Clock
from aml_train.core.errors import AmlTrainError, GateFailedError, InvalidError
from aml_train.core.events import JobSubmitted, Listener
from aml_train.core.tags import Tag
from aml_train.jobs.live import LiveJob
from aml_train.jobs.logs.report import JobLogs
from aml_train.jobs.metrics import settle_metrics
from aml_train.jobs.pace import Limits
from aml_train.jobs.watch import Watch
from aml_train.jobs.workspace import JobView, ModelView
from aml_train.models.browse import find_model
from aml_train.models.lineage import LineageStep
from aml_train.models.passport.manifest import hash_files
from aml_train.models.passport.observe import Evidence
from aml_train.models.reproduce import Reproduction, Training, compare_trainings
from aml_train.pipeline.passport import open_evidence
from aml_train.pipeline.target import Host, open_workspace

if TYPE_CHECKING:
    from aml_train.azure.sdk_v2 import AzureV2

_LONGEST_NAME: Final = 200


@dataclass(frozen=True, kw_only=True)
class ReproductionPlan:
    """Everything that a repetition needs.

    Attributes:
        model: the version.
        job: the training to repeat.
        lineage: each part of it, looked up.
    """

    model: ModelView
    job: JobView
    lineage: LineageStep

    @property
    def name(self) -> str:
        """The model's name and version."""
        return f"{self.model.name}:{self.model.version}"

    @property
    def gone(self) -> tuple[str, ...]:
        """The parts that are not there any more, or are something else, and why."""
        return self.lineage.broken

    def require(self) -> None:
        """Raise GateFailedError if a part of the lineage is gone."""
        if self.gone:
            raise GateFailedError(f"{self.name} cannot be trained again: {'; '.join(self.gone)}")

    def facts(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {
            "model": self.name,
            "job": self.job.name,
            "lineage": self.lineage.facts(),
            "gone": list(self.gone),
            "parameters": dict(self.job.parameters),
        }


def open_reproducer(host: Host, target: TargetConfig, directory: Path, emit: Listener) -> Reproducer:
    """Open a workspace; start the local AzureML if it does not run.

    Raises:
        InvalidError: the target's workspace is not configured.
        ServiceError: there is nothing to sign in with, or the local AzureML does not start.
    """
    connection = open_workspace(host, target, directory, emit)
    evidence = open_evidence(connection.service, connection.registry)
    return Reproducer(connection=connection, evidence=evidence, clock=SYSTEM_CLOCK, emit=emit)


@dataclass(frozen=True, kw_only=True)
class Reproducer:
    """Repeats trainings in one workspace.

    Attributes:
        connection: the workspace.
        evidence: the workspace's files, data assets and registries.
        clock: time.
        emit: receives what happens to the job, and its log.
    """

    connection: WorkspaceTarget
    evidence: Evidence
    clock: Clock
    emit: Listener

    @property
    def _service(self) -> AzureV2:
        return self.connection.service

    def plan(self, address: str) -> ReproductionPlan:
        """Look up what a repetition of the model at *address* needs. Changes nothing.

        Raises:
            InvalidError: *address* names no model or no version of one.
            GateFailedError: no job made the model, or the job is gone.
            ServiceError: the service does not answer.
        """
        evidence = self.evidence
        model = find_model(evidence.service, evidence.catalogue, address)
        lineage = evidence.trace(model)
        job = evidence.service.find(model.origin) if model.origin else None
        if job is None:
            why = "; ".join(lineage.broken) or "no job made it"
            raise GateFailedError(f"The model {model.name}:{model.version} cannot be trained again: {why}")
        return ReproductionPlan(model=model, job=job, lineage=lineage)

    def repeat(self, plan: ReproductionPlan, *, tolerance: float, compute: str | None) -> Reproduction:
        """Submit the same job again, wait for it, and compare the models and metrics.

        An interruption cancels the job.

        Raises:
            GateFailedError: a part of the lineage is gone.
            InvalidError: it is not known where in the job's outputs the model is.
            JobFailedError: the repetition failed.
            CancelledError: it was cancelled.
            ServiceError: the service refuses or does not answer.
        """
        plan.require()
        name = f"{plan.job.name[:_LONGEST_NAME]}-again-{secrets.token_hex(3)}"
        original = self._read(plan.job.name, plan.model)
        self._train(plan.job.name, name, compute)
        repeated = self._read(name, plan.model, metrics=list(original.metrics))
        return compare_trainings(original, repeated, tolerance=tolerance)

    def _read(self, job: str, model: ModelView, *, metrics: Sequence[str] = ()) -> Training:
        """Return what *job* made, which trained *model* or is to repeat that; *metrics* are those it should have logged."""
        files = hash_files(self.evidence.store.model_files(replace(model, path=place_of(model, job))))
        values, _ = settle_metrics(self._service, job, metrics, clock=self.clock)
        return Training(job=job, files=dict(files.digests), metrics=values)

    def _train(self, job: str, name: str, compute: str | None) -> None:
        """Submit a copy of *job* as *name* and follow it; raise unless it completes."""
        service, clock, emit = self._service, self.clock, self.emit
        live = LiveJob(name, service, clock, emit)
        try:
            view = live.send(lambda _submission: service.copy_job(job, name, compute=compute))
            emit(JobSubmitted(job=name, attached=False, studio_url=view.studio_url))
            logs = JobLogs(service, name, emit)
            watch = Watch(
                service, name, clock=clock, pace=self.connection.pace, limits=Limits(), listener=emit, logs=logs
            )
            _, failure = watch.run()
        except KeyboardInterrupt:
            raise live.interrupt(cancel=True) from None
        if failure is not None:
            raise failure


def place_of(model: ModelView, job: str) -> str:
    """Return the address of *model* in the outputs of *job*. Pure.

    Raises:
        InvalidError: it is not known where in its job's outputs the model is.
    """
    beginning = f"azureml://jobs/{model.origin}/outputs/"
    source = model.tags.get(Tag.SOURCE, model.path)
    if not source.startswith(beginning):
        raise InvalidError(
            f"The files of {model.name}:{model.version} are at no output of its job, so they cannot be compared.",
            hint="aml-train writes the place down when it registers a model; see `model.path` of the configuration.",
        )
    return f"azureml://jobs/{job}/outputs/{source.removeprefix(beginning)}"


def failed_reproduction(found: Reproduction) -> AmlTrainError | None:
    """Return the error of a repetition that differs; None for one that agrees."""
    if found.state != "different":
        return None
    what = f"{len(found.metrics)} metrics" if found.metrics else f"{len(found.files)} files"
    return GateFailedError(
        f"The repetition {found.repeated} differs from {found.original} in {what}",
        hint="Seeds, numbers of threads and processors differ between trainings: docs/promotion.md#train-a-model-again.",
    )
