"""Train a model again, here or in another workspace, and compare."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aml_train.config import TargetConfig
from aml_train.core.clock import SYSTEM_CLOCK, Clock
from aml_train.core.errors import AmlTrainError, GateFailedError, ServiceError
from aml_train.core.events import JobSubmitted, Listener
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.core.tags import TAG_DATA, TAG_DIGEST, TAG_FINGERPRINT, TAG_IMAGE, TAG_RESUBMITTED
from aml_train.core.threads import CancelToken
from aml_train.image import Given
from aml_train.jobs import JobLogs, JobSpec, JobView, Limits, LiveJob, ModelView, Watch
from aml_train.models import Desk, LineageStep, Reproduction, Tracer, compare_trainings, find_model
from aml_train.pipeline.passport import open_desk
from aml_train.pipeline.prune import registry_of
from aml_train.pipeline.recipe import Recipe, portable, write_recipe
from aml_train.pipeline.target import Connection, Host, open_workspace
from aml_train.pipeline.training import TrainingReader, address_of, place_of

if TYPE_CHECKING:
    from aml_train.azure import AzureV2

_LONGEST_NAME: Final = 200
#: Causes that the error names; the result has all of them.
_MOST_CAUSES: Final = 5


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
        return tuple(f"{step.kind} {step.name}: {step.detail}" for step in self.lineage.broken)

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
    desk = open_desk(connection.service, connection.registry)
    return Reproducer(connection=connection, target=target, desk=desk, clock=SYSTEM_CLOCK, emit=emit)


@dataclass(frozen=True, kw_only=True)
class Reproducer:
    """Repeats trainings in one workspace.

    Attributes:
        connection: the workspace.
        target: its configuration.
        desk: the workspace's files, data assets and registries.
        clock: time.
        emit: receives what happens to the job, and its log.
    """

    connection: Connection
    target: TargetConfig
    desk: Desk
    clock: Clock
    emit: Listener

    @property
    def _service(self) -> AzureV2:
        return self.connection.service

    @property
    def _reader(self) -> TrainingReader:
        return TrainingReader(service=self._service, desk=self.desk, clock=self.clock)

    def plan(self, address: str) -> ReproductionPlan:
        """Look up what a repetition of the model at *address* needs. Changes nothing.

        Raises:
            InvalidError: *address* names no model.
            GateFailedError: no job made the model, or the job is gone.
            ServiceError: there is no such version, or the service does not answer.
        """
        desk = self.desk
        model = find_model(desk.service, address)
        lineage = Tracer(service=desk.service, catalogue=desk.catalogue, registry=desk.registry).trace(model)
        job = desk.service.find(model.origin) if model.origin else None
        if job is None:
            why = "; ".join(step.detail for step in lineage.broken) or "no job made it"
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
            ImageError: the image's list of packages is damaged.
        """
        require(plan)
        old, name, reader = plan.job.name, _name_of(plan.job.name), self._reader
        original = reader.read(old, plan.model)
        self._train(name, lambda _submission: self._service.copy_job(old, name, compute=compute))
        repeated = reader.read(name, plan.model, metrics=list(original.metrics))
        return compare_trainings(original, repeated, tolerance=tolerance)

    def export(self, plan: ReproductionPlan, folder: Path) -> Recipe:
        """Write the recipe of a training into *folder*; raises as :meth:`repeat`."""
        from aml_train.azure import command_document

        require(plan)
        job = plan.job.name
        found = self._service.find_job(job)
        if found is None:
            raise ServiceError(f"There is no job {job} any more.")
        image = self.desk.catalogue.environment_image(job)
        recipe = Recipe(
            model=plan.name,
            source=place_of(plan.model, job),
            image=image if image is not None and "@sha256:" in image else None,
            document=portable(command_document(job, found.at("properties"))),
            original=self._reader.read(job, plan.model),
            folder=folder,
        )
        write_recipe(recipe, folder, self.desk.store.code_files(job))
        return recipe

    def missing(self, recipe: Recipe) -> tuple[str, ...]:
        """Return what this workspace lacks for *recipe*, and how it gets there."""
        return tuple(self._missing(recipe))

    def _missing(self, recipe: Recipe) -> Iterator[str]:
        image = self._image(recipe)
        if image is not None:
            registry = self.connection.registry(image.registry)
            if registry is None:
                yield f"image {image}: the registry cannot be reached from here"
            else:
                with registry:
                    if registry.head_manifest(image.repository, str(image.digest)) is None:
                        yield f"image {image}: copy it there by its digest (az acr import, skopeo copy, crane copy)"
        for name, value in recipe.data.items():
            address = address_of(value)
            if address is not None and not self._has_files(address):
                yield f"data {name} = {value}: copy it there with aml-train data cp"

    def _has_files(self, address: str) -> bool:
        try:
            return next(self.desk.store.data_files(address), None) is not None
        except ServiceError as error:
            if error.transient:
                raise
            return False

    def _image(self, recipe: Recipe) -> ImageRef | None:
        """Return the recipe's image in the registry of this workspace."""
        if recipe.image is None:
            return None
        found = ImageRef.parse(recipe.image)
        host = registry_of(self.connection, self.target)
        return ImageRef(registry=host, repository=found.repository, digest=found.digest)

    def repeat_recipe(self, recipe: Recipe, *, tolerance: float, compute: str | None) -> Reproduction:
        """Train by a recipe, and compare with the original training.

        Raises:
            GateFailedError: this workspace lacks the image or data.
        """
        if missing := self.missing(recipe):
            raise GateFailedError(f"{recipe.model} cannot be trained here: {'; '.join(missing)}")
        name = _name_of(recipe.original.job)
        job = job_of(recipe, name, image=self._image(recipe), compute=compute or self._compute())
        self._train(name, lambda submission: self._service.submit(job, submission))
        metrics = list(recipe.original.metrics)
        return compare_trainings(
            recipe.original, self._reader.read(name, recipe.view(), metrics=metrics), tolerance=tolerance
        )

    def _compute(self) -> str | None:
        if self.target.compute is not None or self.target.kind != "local":
            return self.target.compute
        from aml_train.local import EmulatorSettings, local_names

        return local_names(EmulatorSettings()).compute

    def _train(self, name: str, send: Callable[[CancelToken], JobView]) -> None:
        """Submit a job by *send* and follow it; raise unless it completes."""
        service, clock, emit = self._service, self.clock, self.emit
        live = LiveJob(name, service, clock, emit)
        try:
            view = live.send(send)
            emit(JobSubmitted(job=name, attached=False, studio_url=view.studio_url))
            logs = JobLogs(service, name, emit, now=clock.now)
            watch = Watch(
                service, name, clock=clock, pace=self.connection.pace, limits=Limits(), listener=emit, logs=logs
            )
            _, failure = watch.run()
        except KeyboardInterrupt:
            raise live.interrupt(cancel=True) from None
        if failure is not None:
            raise failure


def require(plan: ReproductionPlan) -> None:
    """Raise GateFailedError if a part of the lineage is gone."""
    if plan.gone:
        raise GateFailedError(f"{plan.name} cannot be trained again: {'; '.join(plan.gone)}")


def job_of(recipe: Recipe, name: str, *, image: ImageRef | None, compute: str | None) -> JobSpec:
    """Return the job that a recipe describes; its code's files are listed."""
    document: dict[str, Any] = {**recipe.document, "name": name}
    if image is not None:
        document["environment"] = {"image": str(image)}
    if compute is not None:
        document["compute"] = f"azureml:{compute.removeprefix('azureml:')}"
    code = None
    if recipe.code is not None:
        code = FileSet.collect(recipe.code, ignore_files=(), nested=False, leave_out=())
    mark = hashlib.sha256(json.dumps([document, name], sort_keys=True, default=str).encode()).hexdigest()
    document["tags"] = _tags(recipe, image) | {TAG_FINGERPRINT: mark}
    document["properties"] = {TAG_FINGERPRINT: mark}
    return JobSpec(
        name=name,
        document=document,
        directory=recipe.folder or Path(),
        code=code,
        image=Given(environment=document.get("environment")),
        fingerprint=mark,
    )


def _tags(recipe: Recipe, image: ImageRef | None) -> dict[str, str]:
    """Return the original's tags, without those of data that inputs name."""
    given: Mapping[str, Any] = recipe.document.get("tags") or {}
    tags = {
        key: str(value)
        for key, value in given.items()
        if not key.startswith(TAG_DATA) or str(value).startswith("sha256:")
    }
    if image is not None:
        tags |= {TAG_IMAGE: str(image), TAG_DIGEST: str(image.digest)}
    return tags | {TAG_RESUBMITTED: recipe.original.job}


def _name_of(job: str) -> str:
    return f"{job[:_LONGEST_NAME]}-again-{secrets.token_hex(3)}"


def failed_reproduction(found: Reproduction) -> AmlTrainError | None:
    """Return the error of a repetition that differs; None for one that agrees."""
    if found.state != "different":
        return None
    causes = "; ".join(one.text for one in found.causes[:_MOST_CAUSES])
    what = f"{len(found.metrics)} metrics" if found.metrics else f"{len(found.files)} files"
    return GateFailedError(
        f"The repetition {found.repeated} differs from {found.original} in {what}", hint=f"Likely: {causes}."
    )
