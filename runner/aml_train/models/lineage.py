"""A model's lineage, looked up: model → job → image → tests → base, commit, data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from aml_train.core.errors import DamagedError, ImageError, ServiceError
from aml_train.core.references import ImageRef
from aml_train.core.tags import Tag
from aml_train.image.records import load_record, places_of
from aml_train.image.spec import TestRecord
from aml_train.jobs.inputs import data_of, shown_data
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView, Workspace, wrote
from aml_train.models.catalogue import Catalogue
from aml_train.models.register import changed_tag

if TYPE_CHECKING:
    from aml_train.image.registry.client import Registry

State = Literal["verified", "recorded", "unknown", "broken"]
"""``verified``: looked up, and as it is written down. ``recorded``: written down, and nothing here can confirm it.
``unknown``: it could not be looked up. ``broken``: it is not there, or is something else."""

_ARTIFACTS: Final = "/outputs/artifacts/paths/"
_ASSET: Final = re.compile(r"(?P<name>[^/:@]+):(?P<version>[^/:@]+)")


@dataclass(frozen=True, kw_only=True)
class LineageStep:
    """One step of a lineage, and the steps that it rests on.

    Attributes:
        kind: ``model``, ``files``, ``job``, ``environment``, ``image``, ``tests``, ``base``, ``commit`` or ``data``.
        name: what it is.
        state: what became of looking it up.
        detail: what was found, or why not.
        parts: the steps below.
    """

    kind: str
    name: str
    state: State
    detail: str = ""
    parts: tuple[LineageStep, ...] = ()

    def walk(self) -> Iterator[LineageStep]:
        """Yield this step and all below, from the top down."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def broken(self) -> tuple[str, ...]:
        """What is broken, and why."""
        return tuple(f"{step.kind} {step.name}: {step.detail}" for step in self.walk() if step.state == "broken")

    @property
    def summary(self) -> str:
        """How many steps are in which state."""
        states = [step.state for step in self.walk()]
        return ", ".join(f"{states.count(state)} {state}" for state in get_args(State) if state in states)

    def facts(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        own: dict[str, Any] = {"kind": self.kind, "name": self.name, "state": self.state, "detail": self.detail}
        return own | {"parts": [part.facts() for part in self.parts]}


def render_lineage(step: LineageStep) -> Iterator[str]:
    """Yield a lineage as the lines of a tree, without colours."""
    marks = {"verified": "✓", "recorded": "·", "unknown": "?", "broken": "✗"}
    yield f"{marks[step.state]} {step.kind:<11} {step.name}" + (f"  ({step.detail})" if step.detail else "")
    for index, part in enumerate(step.parts):
        last = index == len(step.parts) - 1
        lines = render_lineage(part)
        yield ("└─ " if last else "├─ ") + next(lines)
        for line in lines:
            yield ("   " if last else "│  ") + line


@dataclass(frozen=True, kw_only=True)
class Tracer:
    """Traces lineages, by the services that have what they name.

    Attributes:
        service: the workspace's jobs.
        catalogue: its environments and data assets.
        registry: opens the registry of that host; None for one that cannot be reached.
    """

    service: Workspace
    catalogue: Catalogue
    registry: Callable[[str], Registry | None]

    def open(self, host: str) -> Registry:
        """Open the registry of *host*. Raises ServiceError if it cannot be reached."""
        registry = self.registry(host)
        if registry is None:
            raise ServiceError(f"the registry {host} cannot be reached from here")
        return registry

    def trace(self, model: ModelView) -> LineageStep:
        """Return the lineage of *model*, looked up.

        Raises:
            ServiceError: the workspace refuses or does not answer. A registry that does so makes steps unknown, and no error.
        """
        name = f"{model.name}:{model.version}"
        if (changed := changed_tag(model)) is not None:
            return _broken("model", name, changed)
        if (origin := model.properties.get(Tag.COPY_OF)) is not None:
            return self._trace_copy(model, origin)
        job = model.origin
        if job is None:
            why = "no job made it: neither its tags nor AzureML name one"
            return _broken("model", name, why)
        view = self.service.find(job)
        parts = (self._files(model, job, view), self._job(model, job, view))
        if Tag.JOB not in model.tags:
            detail = "something else than aml-train registered it; AzureML names its job"
            return LineageStep(kind="model", name=name, state="recorded", detail=detail, parts=parts)
        return LineageStep(kind="model", name=name, state="verified", detail=model.path, parts=parts)

    def copied_files(self, model: ModelView) -> LineageStep:
        """Return the step of the files of a copy."""
        return LineageStep(kind="files", name=model.path, state="recorded")

    def _trace_copy(self, model: ModelView, origin: str) -> LineageStep:
        """Return the lineage of a copy: what is in this workspace is looked up; its job is in that of *origin*, where it was looked up."""
        workspace, _, source = origin.partition("/workspaces/")[2].partition("/models/")
        what = f"{source.replace('/versions/', ':')} of the workspace {workspace}"
        wanted, digest = model.tags.get(Tag.IMAGE), model.tags.get(Tag.DIGEST)
        parts = self._image(wanted, digest, model.tags) if wanted and digest else ()
        data = (
            LineageStep(kind="data", name=f"{name.removeprefix(Tag.DATA)} = {value}", state="recorded")
            for name, value in sorted(model.tags.items())
            if name.startswith(Tag.DATA)
        )
        job = LineageStep(
            kind="job",
            name=model.origin or "",
            state="recorded",
            detail=f"in the workspace {workspace}",
            parts=(*parts, *self._commit(model.tags), *data),
        )
        name, files = f"{model.name}:{model.version}", self.copied_files(model)
        return LineageStep(kind="model", name=name, state="verified", detail=f"a copy of {what}", parts=(files, job))

    def trace_job(self, job: JobView) -> LineageStep:
        """Return the lineage of a *job* that no model names, looked up.

        Raises:
            ServiceError: the workspace refuses or does not answer.
        """
        parts = (self._environment(job, ""), *self._commit(job.tags), *self._data(job))
        return LineageStep(kind="job", name=job.name, state="verified", detail=job.status.value, parts=parts)

    def _files(self, model: ModelView, job: str, view: JobView | None) -> LineageStep:
        source, run = model.tags.get(Tag.SOURCE, ""), model.tags.get(Tag.NODE_RUN, job)
        ours = run == job or (view is not None and wrote(self.service, job, run))
        if source and not (ours and source.startswith(f"azureml://jobs/{run}/")):
            why = f"they are another job's than {job}, which the model names"
            return _broken("files", source, why)
        name = source.removeprefix(f"azureml://jobs/{run}/outputs/") or model.path
        if view is None or _ARTIFACTS not in source:
            return LineageStep(kind="files", name=name, state="recorded")
        path = source.partition(_ARTIFACTS)[2]
        if self.service.has_artifact(run, path):
            return LineageStep(kind="files", name=path, state="verified", detail="among the job's artefacts")
        return _broken("files", path, "they are not among the job's artefacts any more")

    def _job(self, model: ModelView, job: str, view: JobView | None) -> LineageStep:
        if view is None:
            return _broken("job", job, "there is no such job any more")
        if view.status is not JobStatus.COMPLETED:
            return _broken("job", job, f"it is {view.status.value}, and not Completed")
        for tag in (Tag.DIGEST, Tag.COMMIT) if Tag.JOB in model.tags else ():
            ours, its = model.tags.get(tag), view.tags.get(tag)
            if ours != its:
                why = f"its tag {tag} is {its or 'missing'}, and the model's {ours or 'missing'}"
                return _broken("job", job, why)
        parts = (self._environment(view, model.tags.get(Tag.NODE, "")), *self._commit(view.tags), *self._data(view))
        return LineageStep(kind="job", name=job, state="verified", detail=_experiment(view), parts=parts)

    def _environment(self, job: JobView, node: str) -> LineageStep:
        wanted, digest = job.tags.get(Tag.IMAGE), job.tags.get(Tag.DIGEST)
        found = self.catalogue.environment_image(job.name, node)
        if wanted is None or digest is None:
            detail = job.tags.get(Tag.TESTED, "nothing is written down of its image")
            return LineageStep(
                kind="environment", name=found or "the job's own environment", state="recorded", detail=detail
            )
        if found is None or not found.endswith(f"@{digest}"):
            why = f"the job's environment has {found or 'no image'}, and not {digest}"
            return _broken("environment", wanted, why)
        return LineageStep(
            kind="environment",
            name=found,
            state="verified",
            detail="the job ran in exactly this image",
            parts=self._image(wanted, digest, job.tags),
        )

    def _image(self, image: str, digest: str, tags: Mapping[str, str]) -> tuple[LineageStep, ...]:
        steps: list[LineageStep] = []
        try:
            reference = ImageRef.parse(image)
        except ValueError as error:
            return (_broken("image", digest, f"the job's tag {Tag.IMAGE} is damaged: {error}"),)
        try:
            with self.open(reference.registry) as registry:
                steps += [
                    self._manifest(registry, reference.repository, digest),
                    self._tests(registry, reference, digest, tags),
                ]
        except (ImageError, ServiceError) as error:
            steps.append(LineageStep(kind="image", name=digest, state="unknown", detail=error.message))
        base = tags.get(Tag.BASE)
        if base is not None:
            steps.append(
                LineageStep(kind="base", name=base, state="recorded", detail="what the image was built from")
            )
        return tuple(steps)

    def _manifest(self, registry: Registry, repository: str, digest: str) -> LineageStep:
        if registry.head_manifest(repository, digest) is None:
            why = f"{registry.host}/{repository} does not have it any more"
            return _broken("image", digest, why)
        return LineageStep(kind="image", name=digest, state="verified", detail=f"in {registry.host}/{repository}")

    def _tests(self, registry: Registry, reference: ImageRef, digest: str, tags: Mapping[str, str]) -> LineageStep:

        key = tags.get(Tag.TESTED, "")
        if not key or " " in key:
            return LineageStep(kind="tests", name=key or "none", state="recorded")
        # A proposal tests a released image again if its tests differ; it cannot write into the repository of the image.
        records = (tests_in(registry, place, digest, key) for place in places_of(reference.repository))
        first = record = next(records)
        if isinstance(first, str):
            record = next((one for one in records if not isinstance(one, str)), first)
        if isinstance(record, str):
            return _broken("tests", key, record)
        counts = "they passed" if record.passed is None else f"{record.passed} passed, {record.skipped or 0} skipped"
        detail = f"{counts}, {record.at}"
        if record is first:
            return LineageStep(kind="tests", name=record.command, state="verified", detail=detail)
        return LineageStep(kind="tests", name=record.command, state="recorded", detail=f"by a proposal: {detail}")

    def _commit(self, tags: Mapping[str, str]) -> Iterator[LineageStep]:
        commit = tags.get(Tag.COMMIT)
        if commit is not None:
            more = [tags[tag] for tag in (Tag.REPOSITORY, Tag.BRANCH, Tag.RUN_URL) if tag in tags]
            yield LineageStep(kind="commit", name=commit, state="recorded", detail=", ".join(more))

    def _data(self, job: JobView) -> Iterator[LineageStep]:
        if changed := job.tags.get(Tag.DATA_CHANGED):
            why = "changed after the job was submitted: not reproducible"
            yield LineageStep(kind="data", name=changed, state="recorded", detail=why)
        shown = shown_data(job)
        for key, value in data_of(job.tags, job.inputs).items():
            given = f"{key} = {shown[key]}"
            asset = asset_of(value)
            if asset is None:
                yield LineageStep(kind="data", name=given, state="recorded", detail="no version of a data asset")
            elif self.catalogue.has_data(*asset):
                yield LineageStep(kind="data", name=given, state="verified", detail="the data asset is registered")
            else:
                yield _broken("data", given, "there is no such data asset any more")


def tests_in(registry: Registry, repository: str, digest: str, key: str) -> TestRecord | str:
    """Return the record of the tests *key* in an image, or why there is none that counts."""
    try:
        record = load_record(registry, repository, digest, key)
    except DamagedError as error:
        return error.message
    return record or "the registry has no record of these tests in this image"


def asset_of(value: str) -> tuple[str, str] | None:
    """Return name and version of the data asset *value*; None for other data."""
    match = _ASSET.fullmatch(value)
    return None if match is None or match["name"] == "sha256" else (match["name"], match["version"])


def _broken(kind: str, name: str, why: str) -> LineageStep:
    return LineageStep(kind=kind, name=name, state="broken", detail=why)


def _experiment(job: JobView) -> str:
    return f"experiment {job.experiment}, Completed" if job.experiment else "Completed"
