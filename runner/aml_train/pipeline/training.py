"""Read the evidence of a training: settings, files and metrics."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from aml_train.core.answers import Answer
from aml_train.core.clock import Clock
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.references import ImageRef
from aml_train.core.tags import TAG_SOURCE, TAG_TESTED
from aml_train.image import any_record, read_packages
from aml_train.jobs import JobView, ModelView, data_of, settle_metrics
from aml_train.models import Desk, StoredFile, Training, asset_of, hash_files

if TYPE_CHECKING:
    from aml_train.azure import AzureV2
    from aml_train.image import Registry

#: Data of more files are compared by one digest over their names, sizes and checksums.
_MOST_NAMED: Final = 2000


@dataclass(frozen=True, kw_only=True)
class TrainingReader:
    """Reads trainings of one workspace.

    Attributes:
        service: its jobs.
        desk: its files, data assets and registries.
        clock: time.
        pause: seconds between two readings of metrics.
    """

    service: AzureV2
    desk: Desk
    clock: Clock
    pause: float = 0.5

    def read(self, job: str, model: ModelView, *, metrics: Sequence[str] = ()) -> Training:
        """Return the evidence of *job*, which trained *model* or is to repeat that.

        Args:
            metrics: names that the job should have logged.

        Raises:
            InvalidError: the model's files are at no place that its job names.
            ServiceError: the job or its files are gone, or the service does not answer.
            ImageError: the image's list of packages is damaged.
        """
        found = self.service.find_job(job)
        if found is None:
            raise ServiceError(f"There is no job {job} any more.")
        properties = found.at("properties")
        view = self.service.view_of(job, properties)
        files = hash_files(self.desk.store.model_files(replace(model, path=place_of(model, job))))
        began = self.service.details(job).started
        contents: dict[str, str] = {}
        changed: list[str] = []
        for name, value in data_of(view.tags, view.inputs).items():
            facts, entries = self._contents(name, value)
            contents |= facts
            late = (one for one in entries if began is not None and one.modified is not None and one.modified > began)
            changed += (f"{value}: {one.path}" for one in late)
        values, _ = settle_metrics(self.service, job, metrics, clock=self.clock, pause=lambda: self.pause)
        return Training(
            job=job,
            files=dict(files.digests),
            metrics=values,
            facts={
                **facts_of(properties, view),
                **self._image(view),
                **{f"code.{path}": digest for path, digest in self._code(job).items()},
                **contents,
            },
            changed_data=tuple(changed),
        )

    def _code(self, job: str) -> Mapping[str, str]:
        files = self.desk.store.code_files(job)
        return {} if files is None else hash_files(files).digests

    def _contents(self, name: str, value: str) -> tuple[dict[str, str], list[StoredFile]]:
        """Return facts of an input's contents, and its files.

        Of data elsewhere, the fact is why they are not read.
        """
        address = address_of(value)
        if address is None:
            return {}, []
        try:
            files = list(self.desk.store.data_files(address))
        except (InvalidError, ServiceError) as error:
            if isinstance(error, ServiceError) and error.transient:
                raise
            return {f"data.{name}/": f"not read: {error.message}"}, []
        return dict(contents_of(name, files)), files

    def _image(self, view: JobView) -> Mapping[str, str]:
        """Return the image, by its digest if it has one, and the versions of its packages."""
        text = self.desk.catalogue.environment_image(view.name)
        if text is None:
            return {}
        try:
            reference = ImageRef.parse(text)
        except ValueError:
            return {"image": text}
        packages = image_packages(self.desk.registry, reference, view.tags.get(TAG_TESTED, "")) or {}
        named = {f"package.{name}": version for name, version in packages.items()}
        return {"image": reference.digest or text, **named}


def image_packages(
    registry: Callable[[str], Registry | None], image: ImageRef, tested: str
) -> Mapping[str, str] | None:
    """Return the packages of an image by their list, else by the record of its tests.

    Args:
        registry: opens the registry of that host; None for one that cannot be reached.
        image: the image, by its digest.
        tested: the key of the record; empty, or a sentence, for none.

    Returns:
        ``pip:numpy`` → version; None if the image has no digest, or its registry cannot be reached.

    Raises:
        ImageError: the registry refuses, or the list is damaged.
    """
    opened = registry(image.registry) if image.digest is not None else None
    if opened is None or image.digest is None:
        return None
    with opened:
        found = read_packages(opened, image.repository, image.digest)
        if found or not tested or " " in tested:
            return found
        record = any_record(opened, image.repository, image.digest, tested)
        return {} if record is None else record.packages


def address_of(value: str) -> str | None:
    """Return the address of a job's data in its workspace; None for other data. Pure."""
    if value.startswith("azureml://datastores/"):
        return value
    return f"azureml:{value}" if asset_of(value) else None


def place_of(model: ModelView, job: str) -> str:
    """Return the address of *model* in the outputs of *job*. Pure.

    Raises:
        InvalidError: it is not known where in its job's outputs the model is.
    """
    beginning = f"azureml://jobs/{model.origin}/outputs/"
    source = model.tags.get(TAG_SOURCE, model.path)
    if not source.startswith(beginning):
        raise InvalidError(
            f"The files of {model.name}:{model.version} are at no output of its job, so they cannot be compared.",
            hint="aml-train writes the place down when it registers a model; see `model.path` of the configuration.",
        )
    return f"azureml://jobs/{job}/outputs/{source.removeprefix(beginning)}"


def facts_of(properties: Answer, view: JobView) -> dict[str, str]:
    """Return what a job ran with, by the names that the comparison knows. Pure."""
    place = view.placement
    facts: Mapping[str, object] = {
        "image": properties.optional_text("environmentId"),
        "command": properties.optional_text("command"),
        "compute": place.compute if place is not None else None,
        "size": place.size if place is not None else None,
        "nodes": place.nodes if place is not None else None,
        "processes": properties.mapping("distribution").get("processCountPerInstance"),
        **{f"data.{name}": value for name, value in data_of(view.tags, view.inputs).items()},
        **{f"parameter.{name}": value for name, value in view.parameters.items()},
        **{f"variable.{name}": value for name, value in view.variables.items()},
    }
    return {name: str(value) for name, value in facts.items() if value is not None}


def contents_of(name: str, files: Sequence[StoredFile]) -> Iterator[tuple[str, str]]:
    """Yield the storage's checksums of an input's files as facts. Pure.

    There is a fact for each file, or a single one for many files.
    """
    marks = [(one.path, f"{one.md5 or 'no checksum'}, {one.size} bytes") for one in files]
    if len(marks) <= _MOST_NAMED:
        yield from ((f"data.{name}/{path}", mark) for path, mark in marks)
        return
    lines = itertools.chain.from_iterable((path, "\0", mark, "\n") for path, mark in sorted(marks))
    whole = hashlib.sha256()
    for line in lines:
        whole.update(line.encode(errors="surrogatepass"))
    yield f"data.{name}/", f"{len(marks)} files, {whole.hexdigest()}"
