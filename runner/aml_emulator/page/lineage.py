"""The origin of a model version: its job, and the job's image, data and code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.context import Context
from aml_emulator.domain import AssetId, DomainError, JobOutput, parse_location
from aml_emulator.page.gate import texts
from aml_emulator.page.graphs import Drawing, Step, draw_graph
from aml_emulator.page.view import link
from aml_emulator.store import AssetVersion, Run

TAG_IMAGE: Final = "aml-train.image"
TAG_DIGEST: Final = "aml-train.image-digest"
TAG_BASE: Final = "aml-train.base"
TAG_COMMIT: Final = "aml-train.commit"
TAG_REPOSITORY: Final = "aml-train.repository"
TAG_BRANCH: Final = "aml-train.branch"
TAG_DATA: Final = "aml-train.data."
TAG_NODE_RUN: Final = "aml-train.node-run"

INPUTS: Final = 30
"""Inputs of a job that are shown; a digest of hundreds helps no one."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One thing that a model comes from, and what that comes from.

    Attributes:
        kind: ``model``, ``job``, ``image``, ``base``, ``data``, ``code`` or ``commit``.
        detail: its state or place, in short.
        address: its page, empty if it has none.
    """

    kind: str
    name: str
    detail: str = ""
    address: str = ""
    parts: tuple[Origin, ...] = ()

    def walk(self) -> Iterator[Origin]:
        """Yield what it comes from, each after its own origins, and itself last."""
        for part in self.parts:
            yield from part.walk()
        yield self


def lineage_of(context: Context, model: AssetVersion, *, stage: str) -> Origin:
    """Return where a model version comes from, as far as it is recorded."""
    tags = texts(model.properties.get("tags"))
    name = str(model.properties.get("jobName") or "")
    return Origin(
        kind="model",
        name=f"{model.name}:{model.version}",
        detail=stage,
        parts=(_job(context, name, tags),) if name else (),
    )


def draw_lineage(origin: Origin) -> Drawing:
    """Return the graph of an origin: what something comes from is above it."""
    steps: dict[Origin, Step] = {}
    for one in origin.walk():
        steps.setdefault(
            one,
            Step(
                name=f"{len(steps)}",
                label=one.name,
                kind=one.kind,
                status=one.detail,
                address=one.address,
                links=tuple((steps[part].name, part.kind, part.kind) for part in one.parts),
            ),
        )
    return draw_graph(tuple(steps.values()))


def environment_of(context: Context, job: Mapping[str, Any]) -> AssetVersion | None:
    """Return the environment of a job, None if it is not a version of the workspace's."""
    name, _, version = str(job.get("environmentId") or "").partition("/environments/")[2].partition("/versions/")
    return context.store.assets.version("environments", name, version) if version else None


def _job(context: Context, name: str, tags: Mapping[str, str]) -> Origin:
    """Return a job with its origins; of a pipeline, those that the model's tags have."""
    run = context.store.runs.get(name)
    if run is None:
        return Origin(kind="job", name=name, detail="no longer there", parts=tuple(_tagged(tags)))
    job, known = run.job or {}, {**run.tags, **tags}
    parts = [*_image(context, job, known), *_inputs(context, job, known), *_code(context, job, known)]
    node = context.store.runs.get(tags.get(TAG_NODE_RUN, "")) if TAG_NODE_RUN in tags else None
    if node is not None and node.id != run.id:
        parts.append(_run(node, kind="node"))
    return _run(run, kind="job", parts=tuple(dict.fromkeys(parts)))


def _run(run: Run, *, kind: str, parts: tuple[Origin, ...] = ()) -> Origin:
    return Origin(
        kind=kind, name=run.display_name or run.id, detail=run.status, address=link("runs", run.id), parts=parts
    )


def _tagged(tags: Mapping[str, str]) -> Iterator[Origin]:
    """Yield the origins in the tags of a model whose job is gone."""
    if image := tags.get(TAG_IMAGE) or tags.get(TAG_DIGEST):
        yield Origin(kind="image", name=image, parts=_base(tags))
    for tag, value in tags.items():
        if tag.startswith(TAG_DATA):
            yield Origin(kind="data", name=value, detail=tag.removeprefix(TAG_DATA))
    yield from _commit(tags)


def _image(context: Context, job: Mapping[str, Any], tags: Mapping[str, str]) -> Iterator[Origin]:
    environment = environment_of(context, job)
    image = str(environment.properties.get("image") or "") if environment else ""
    name = image or tags.get(TAG_IMAGE) or tags.get(TAG_DIGEST) or ""
    if environment is not None:
        address = link("assets", "environments", environment.name, environment.version)
        title = f"{environment.name}:{environment.version}"
        yield Origin(kind="image", name=name or title, detail=title, address=address, parts=_base(tags))
    elif name:
        yield Origin(kind="image", name=name, parts=_base(tags))


def _base(tags: Mapping[str, str]) -> tuple[Origin, ...]:
    return (Origin(kind="base", name=tags[TAG_BASE]),) if tags.get(TAG_BASE) else ()


def _inputs(context: Context, job: Mapping[str, Any], tags: Mapping[str, str]) -> Iterator[Origin]:
    """Yield the inputs of a job that are files: assets, outputs of jobs, others."""
    given = [(name, one) for name, one in sorted((job.get("inputs") or {}).items()) if isinstance(one, Mapping)]
    for name, one in [item for item in given if item[1].get("uri")][:INPUTS]:
        yield _input(context, name, str(one["uri"]), tags.get(f"{TAG_DATA}{name}", ""))


def _input(context: Context, name: str, uri: str, tag: str) -> Origin:
    try:
        place = parse_location(uri)
    except DomainError:
        # The job has run with it: it is shown as it was given.
        place = None
    if isinstance(place, AssetId):
        found = context.asset_version(place, "data")
        if found is not None:
            address = link("assets", "data", found.name, found.version) if place.registry is None else ""
            return Origin(kind="data", name=f"{found.name}:{found.version}", detail=name, address=address)
    run = context.store.runs.get(place.job) if isinstance(place, JobOutput) else None
    if run is not None:
        return Origin(
            kind="data", name=f"output of {run.display_name or run.id}", detail=name, address=link("runs", run.id)
        )
    return Origin(kind="data", name=tag or uri.partition("?")[0], detail=name)


def _code(context: Context, job: Mapping[str, Any], tags: Mapping[str, str]) -> Iterator[Origin]:
    name, _, version = str(job.get("codeId") or "").partition("/codes/")[2].partition("/versions/")
    if version and context.store.assets.version("codes", name, version) is not None:
        yield Origin(kind="code", name=f"{name}:{version}", address=link("assets", "codes", name, version))
    yield from _commit(tags)


def _commit(tags: Mapping[str, str]) -> Iterator[Origin]:
    if commit := tags.get(TAG_COMMIT):
        place = ", ".join(tags[tag] for tag in (TAG_REPOSITORY, TAG_BRANCH) if tags.get(tag))
        yield Origin(kind="commit", name=commit, detail=place)
