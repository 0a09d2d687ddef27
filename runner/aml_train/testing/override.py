"""A workspace in memory in place of every target, and what promotions read of it."""

from __future__ import annotations

import contextlib
import datetime
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aml_train.api.workspace import Workspace
from aml_train.azure.blob.globs import has_wildcards, select
from aml_train.azure.browse import JobFilter, JobRow
from aml_train.config.sections.targets import ClusterConfig
from aml_train.core.clock import SYSTEM_CLOCK, Clock
from aml_train.core.errors import ServiceError
from aml_train.core.events import Listener
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.spec import ImageSpec, Tested, TestSpec
from aml_train.jobs.pace import Pace
from aml_train.jobs.workspace import JobView, ModelView, no_job, seconds_of
from aml_train.models.catalogue import Catalogue, PassportStore, StoredFile
from aml_train.models.lineage import Tracer
from aml_train.models.promotion.promote import Promoter
from aml_train.pipeline.evaluate import evaluate
from aml_train.pipeline.target import overriding_targets
from aml_train.testing.memory import MemoryService, Training, nothing


@dataclass
class MemoryCatalogue:
    """See :class:`aml_train.models.catalogue.Catalogue`.

    Attributes:
        service: has the jobs and the models.
        images: job → image, of jobs that were not submitted to *service*.
        data: the versions of data assets that there are, as ``NAME:VERSION``.
    """

    service: MemoryService
    images: dict[str, str] = field(default_factory=dict)
    data: Collection[str] = ()

    def names(self) -> Iterator[str]:
        """See :meth:`aml_train.models.catalogue.Catalogue.names`."""
        return iter(sorted({model.name for model in self.service.registered}))

    def version(self, name: str, version: str) -> ModelView | None:
        """See :meth:`aml_train.models.catalogue.Catalogue.version`."""
        return next((one for one in self.service.models(name) if one.version == version), None)

    def change_tags(
        self, name: str, version: str, changes: Mapping[str, str | None], *, guard: Callable[[], None]
    ) -> None:
        """See :meth:`aml_train.models.catalogue.Catalogue.change_tags`."""
        found = self.version(name, version)
        if found is None:
            raise ServiceError(f"Changing the tags of the model {name}:{version}: there is no such version.")
        tags = {key: value for key, value in {**found.tags, **changes}.items() if value is not None}
        if tags == found.tags:
            return
        guard()
        self.service.registered[self.service.registered.index(found)] = replace(found, tags=tags)

    def environment_image(self, job: str, node: str = "") -> str | None:
        """See :meth:`aml_train.models.catalogue.Catalogue.environment_image`."""
        work = self.service.work.get(job)
        environment = work.spec.document.get("environment") if work is not None else None
        image = environment.get("image") if isinstance(environment, Mapping) else None
        return str(image) if image else self.images.get(job)

    def has_data(self, name: str, version: str) -> bool:
        """See :meth:`aml_train.models.catalogue.Catalogue.has_data`."""
        return f"{name}:{version}" in self.data


@dataclass
class MemoryRecords:
    """See :class:`aml_train.models.catalogue.PromotionStore`.

    Attributes:
        contents: the record of each model.
    """

    contents: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def read(self, model: str) -> bytes:
        """See :meth:`aml_train.models.catalogue.PromotionStore.read`."""
        return self.contents.get(model, b"")

    @contextlib.contextmanager
    def hold(self, model: str) -> Iterator[HeldRecord]:
        """See :meth:`aml_train.models.catalogue.PromotionStore.hold`."""
        with self._lock:
            yield HeldRecord(store=self, model=model)


@dataclass
class HeldRecord:
    """See :class:`aml_train.models.catalogue.LockedRecord`; the lock is never lost."""

    store: MemoryRecords
    model: str

    def renew(self) -> None:
        """See :meth:`aml_train.models.catalogue.LockedRecord.renew`."""

    def read(self) -> bytes:
        """See :meth:`aml_train.models.catalogue.LockedRecord.read`."""
        return self.store.read(self.model)

    def write(self, content: bytes) -> None:
        """See :meth:`aml_train.models.catalogue.LockedRecord.write`."""
        self.store.contents[self.model] = content


@contextlib.contextmanager
def memory_workspace(training: Training = nothing, service: MemoryService | None = None) -> Iterator[MemoryService]:
    """Use a workspace in memory in place of every target, and give it.

    While the block lasts, runs, reads, comparisons and promotions of this process use it, whatever target is configured. No image is
    built, no service is contacted, and nothing waits::

        def training(job):
            job.log_metric("val/accuracy", 0.97)
            job.write("outputs/model/weights.txt", b"1")
            yield

        def test_my_release():
            with memory_workspace(training) as workspace:
                release()
                assert [model.version for model in workspace.registered] == ["1"]

    Args:
        training: what each job does, up to each ``yield`` at one look at it.
        service: a workspace that has jobs and models; *training* does not count then.
    """
    service = MemoryService(training=training, any_compute=True) if service is None else service
    with overriding_targets(MemoryTarget(service=service)):
        yield service


@dataclass
class MemoryTarget:
    """See :class:`aml_train.pipeline.target.TargetOverride`. Its runs have no images: nothing is built."""

    service: MemoryService
    records: MemoryRecords = field(default_factory=MemoryRecords)
    pace: Pace = field(default_factory=lambda: Pace(shortest=0.0, longest=0.0, log=0.0))

    def ensure_image(self, spec: ImageSpec, tests: TestSpec | None, *, force: bool, commit: str | None) -> Tested:
        """See :class:`aml_train.pipeline.target.Target`.

        Raises:
            ServiceError: always, since there is no registry.
        """
        raise _no_registry()

    def ensure_compute(self, cluster: ClusterConfig, clock: Clock) -> None:
        """See :class:`aml_train.pipeline.target.Target`."""
        self.service.computes.setdefault(cluster.name, cluster)

    def find_image(self, spec: ImageSpec) -> Tested | None:
        """See :class:`aml_train.pipeline.target.Target`."""
        return None

    def find_build(self, spec: ImageSpec, tests: TestSpec | None, known: Tested, digest: str) -> Tested | None:
        """See :class:`aml_train.pipeline.target.Target`."""
        return None

    def image_registry(self) -> RegistryLocation:
        """See :class:`aml_train.pipeline.target.Target`.

        Raises:
            ServiceError: always, since there is no registry.
        """
        raise _no_registry()

    def registry(self, host: str) -> Registry | None:
        """See :class:`aml_train.pipeline.target.Target`."""
        return None

    def workspace(self) -> Workspace:
        """See :class:`aml_train.pipeline.target.TargetOverride`."""
        return MemoryWorkspace(service=self.service)

    def promoter(self, emit: Listener) -> Promoter:
        """Return a promoter; lineages end at images, as there is no registry."""
        catalogue = MemoryCatalogue(self.service)
        return Promoter(
            service=self.service,
            catalogue=catalogue,
            store=self.records,
            tracer=Tracer(service=self.service, catalogue=catalogue, registry=lambda _host: None),
            evaluate=evaluate,
            clock=SYSTEM_CLOCK,
            listener=emit,
            prove=lambda _model, _policy: "",
        )


def _no_registry() -> ServiceError:
    return ServiceError("A workspace in memory has no registry.")


@dataclass(frozen=True, kw_only=True)
class MemoryWorkspace(Workspace):
    """A workspace in memory, to read."""

    service: MemoryService  # type: ignore[assignment]

    @property
    def _catalogue(self) -> Catalogue:
        return MemoryCatalogue(self.service)

    @property
    def _passports(self) -> PassportStore:
        return MemoryPassports()

    def _rows(self, wanted: JobFilter) -> Iterator[JobRow]:
        for view in reversed(list(self.service.jobs.values())):
            row = _row(view)
            if wanted.takes(row):
                yield row

    def _results(self, rows: Sequence[JobRow]) -> tuple[list[JobRow], tuple[str, int]]:
        found = []
        for row in rows:
            view = self.service.jobs[row.name]
            seconds = seconds_of(view, datetime.datetime.now(datetime.UTC))
            found.append(replace(row, seconds=seconds, metrics=dict(self.service.last_metrics(row.name))))
        return found, ("", 0)

    def describe(self, job: str) -> dict[str, Any]:
        """See :meth:`aml_train.api.workspace.Workspace.describe`."""
        view = self.service.find(job)
        if view is None:
            raise no_job(self.service.tagged_jobs, job)
        fields: dict[str, Any] = {
            "name": view.name,
            "status": view.status.value,
            "error": view.error,
            "experiment": view.experiment,
            "inputs": {**view.inputs, **view.parameters},
            "logged_parameters": dict(self.service.logged_parameters(job)),
            "metrics": dict(self.service.last_metrics(job)),
            "tags": dict(view.tags),
        }
        return {name: value for name, value in fields.items() if value not in (None, "", {}, [])}

    def download(self, job: str, to: str | Path, *patterns: str, outputs: Sequence[str] = ()) -> Path:
        """See :meth:`aml_train.api.workspace.Workspace.download`."""
        folder = Path(to)
        work = self.service.work.get(job)
        if work is None:
            raise no_job(self.service.tagged_jobs, job)
        for output in outputs or ("",):
            files = work.outputs.get(output, {}) if output else {**work.logs, **work.artifacts}
            base = folder / output if len(outputs) > 1 else folder
            for pattern in patterns or ("",):
                _write(base, _matching(files, pattern), f"{job}: {pattern or output or 'default'}")
        return folder

    def _fetch(self, model: ModelView, folder: Path) -> None:
        title, place = f"{model.name}:{model.version}", model.path.partition("azureml://jobs/")[2]
        job, _, path = place.partition("/outputs/")
        output, _, inner = path.partition("/paths/")
        work = self.service.work.get(job)
        if work is None:
            raise ServiceError(f"There is nothing at {title}: the job {job} is not in the workspace.")
        files = work.artifacts if output == "artifacts" else work.outputs.get(output, {})
        below = {
            name.removeprefix(inner).lstrip("/"): content for name, content in files.items() if _below(name, inner)
        }
        _write(folder, below, title)


class MemoryPassports:
    """See :class:`aml_train.models.catalogue.PassportStore`; no model has a passport."""

    def model_files(self, model: ModelView) -> Iterator[StoredFile]:
        """See :class:`aml_train.models.catalogue.PassportStore`."""
        return iter(())

    def code_files(self, job: str) -> Iterator[StoredFile] | None:
        """See :class:`aml_train.models.catalogue.PassportStore`."""
        return None

    def read(self, model: str, version: str, name: str) -> bytes:
        """See :class:`aml_train.models.catalogue.PassportStore`."""
        return b""

    def write(self, model: str, version: str, name: str, content: bytes) -> None:
        """See :class:`aml_train.models.catalogue.PassportStore`.

        Raises:
            ServiceError: always: passports are not kept here.
        """
        raise ServiceError("A workspace in memory keeps no passports.")


def _row(view: JobView) -> JobRow:
    return JobRow(
        name=view.name,
        status=view.status,
        type=str(view.kind or "Command"),
        display_name=view.name,
        experiment=view.experiment or "",
        compute=(view.placement.compute if view.placement else None) or "",
        created=view.created.isoformat() if view.created else "",
        tags=view.tags,
    )


def _below(name: str, folder: str) -> bool:
    return not folder or name == folder or name.startswith(f"{folder}/")


def _matching(files: dict[str, bytes], pattern: str) -> dict[str, bytes]:
    if not pattern:
        return dict(files)
    if not has_wildcards(pattern):
        return {name: content for name, content in files.items() if _below(name, pattern.strip("/"))}
    selection = select(pattern)
    return {name: content for name, content in files.items() if selection.relative(name) is not None}


def _write(folder: Path, files: dict[str, bytes], title: str) -> None:
    if not files:
        raise ServiceError(f"There is nothing at {title}.")
    for name, content in files.items():
        path = folder / (name or title.partition(":")[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
