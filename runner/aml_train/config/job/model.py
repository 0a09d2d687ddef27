"""A checked job and its nodes, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

NodeKind = Literal["command", "sweep", "other"]
Place = tuple[str, ...]
"""The keys of a mapping in a job's document, from the outside in."""

MOST_NESTED: Final = 10
"""Most pipelines within each other; the local AzureML has the same bound."""


def mapping_at(document: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the mapping at *place* in a document, itself for no keys."""
    found: Any = document
    for key in place:
        found = found[key]
    mapping: dict[str, Any] = found
    return mapping


def inner_mappings(document: Mapping[str, Any], before: Place = ()) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield a pipeline's nodes and components, or a sweep's trial, by their places."""
    for place in (*(("jobs", name) for name in document.get("jobs") or {}), ("component",), ("trial",)):
        inner = document["jobs"][place[1]] if len(place) > 1 else document.get(place[0])
        if isinstance(inner, dict):
            yield (*before, *place), inner
            yield from inner_mappings(inner, (*before, *place))


@dataclass(frozen=True, kw_only=True)
class JobNode:
    """A node of a pipeline that runs something, or the trial of a sweep job.

    Attributes:
        name: its key below ``jobs``; within a pipeline component ``OUTER/INNER``. Empty for the trial of a sweep job.
        kind: what it is; ``other`` for a kind that is passed on unchecked.
        place: the keys of the mapping in the job's document that has its ``command``, ``code`` and ``environment``;
            empty if the document has none, as for a component of the workspace.
        needs: the nodes whose outputs it reads, by their names.
        code: the folder of its code, or its only file, absolute; None if there is none or it is remote.
        environment: the environment that it names itself; None for none.
        component: the reference of a component of a workspace or registry, which has its own environment.
        own_upload: azure-ai-ml collects and uploads the code: the component has ``additional_includes``.
        where: ``file:line``.
    """

    name: str
    kind: NodeKind
    place: Place = ()
    needs: tuple[str, ...] = ()
    code: Path | None = None
    environment: Any = None
    component: str | None = None
    own_upload: bool = False
    where: str = ""

    @property
    def around(self) -> Place | None:
        """The place of the node around this component; None for the node itself."""
        return self.place[:-1] if len(self.place) > 1 and self.place[-1] in ("component", "trial") else None


@dataclass(frozen=True, kw_only=True)
class RunConfiguration:
    """A run configuration of the SDK v1, read and checked.

    Attributes:
        values: its keys of today, in camelCase.
        command: what it runs, as one shell command.
    """

    values: Mapping[str, Any]
    command: str


@dataclass(frozen=True, kw_only=True)
class Job:
    """A checked job of the AzureML CLI v2: a command, a pipeline or a sweep.

    Attributes:
        document: the whole job as a mapping, overrides applied, for ``azure.ai.ml.load_job``. Keys that the file
            leaves out (``$schema``, ``type``, ``compute``) stay out; environment variables and versions are text,
            counts are integers, and what the service writes (``id``, ``status``, …) is dropped. The files of a
            pipeline's components are in it, in place of their paths.
        directory: the folder that the document's relative paths start from.
        file: the job's YAML file; the aml-train.yml of an inline job.
        code: the folder of a command job's code snapshot, or its only file, absolute; None if there is none or it
            is remote (``azureml:…``, ``git+…``, ``https://…``).
        runconfig: the run configuration that the job was made of.
        nodes: the nodes of a pipeline, or the trial of a sweep; none of a command job.
    """

    document: Mapping[str, Any]
    directory: Path
    file: Path
    code: Path | None
    runconfig: RunConfiguration | None = None
    nodes: tuple[JobNode, ...] = ()

    @property
    def kind(self) -> Literal["command", "pipeline", "sweep"]:
        """The type of the job."""
        kind = str(self.document.get("type") or "command").lower()
        return "pipeline" if kind == "pipeline" else "sweep" if kind == "sweep" else "command"

    def outputs_of(self, node: str | None) -> tuple[str, ...] | None:
        """Return the outputs of the job, or of its *node*; None if they are unknown."""
        if node is None:
            return tuple(self.document.get("outputs") or ())
        found = next((one for one in self.nodes if one.name == node), None)
        if found is None or not found.place:
            return None
        # A component declares the outputs, and the node around it may set them.
        places = (found.place,) if found.around is None else (found.place, found.around)
        outputs = [mapping_at(self.document, place).get("outputs") or () for place in places]
        return tuple(dict.fromkeys(name for names in outputs for name in names))

    def variables(self) -> Iterator[Mapping[str, Any]]:
        """Yield the environment variables of the job, its nodes or its trial."""
        for mapping in (self.document, *(inner for _, inner in inner_mappings(self.document))):
            yield mapping.get("environment_variables") or {}
