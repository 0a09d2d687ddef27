"""Pipelines and sweeps of YAML files: their nodes, code and environments. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aml_train.cli.scaffold.job_environment import joined
from aml_train.cli.scaffold.project import Document, Project
from aml_train.config import MapNode, Mark


@dataclass(frozen=True, kw_only=True)
class Step:
    """A node of a pipeline, or the trial of a sweep.

    Attributes:
        name: the node; empty for a trial.
        node: the mapping of the node in the job's file.
        job: the mapping with command, code and environment: the node itself, or its component's file.
    """

    name: str
    node: Document
    job: Document

    @property
    def has_environment(self) -> bool:
        """Whether the node or its component names an environment."""
        return self.job.node("environment") is not None or self.node.node("environment") is not None

    def outputs(self) -> Iterator[tuple[str, str, Mark]]:
        """Yield name, type and place of each output."""
        for document in (self.job, self.node):
            found = document.node("outputs")
            for name in found.entries if isinstance(found, MapNode) else ():
                yield name, document.said("outputs", name, "type"), document.mark("outputs", name)


def steps_of(project: Project, document: Document) -> tuple[Step, ...]:
    """Return the steps of a pipeline or sweep whose command is in the project."""
    if document.kind == "sweep":
        trial = document.node("trial")
        whole = Document(path=document.path, kind="command", tree=document.tree, text=document.text)
        if not isinstance(trial, MapNode):
            return ()
        inner = Document(path=document.path, kind="command", tree=trial, text=document.text)
        return (Step(name="", node=whole, job=inner),)
    nodes = document.node("jobs")
    found = []
    for name, entry in nodes.entries.items() if isinstance(nodes, MapNode) else ():
        if not isinstance(entry.node, MapNode):
            continue
        node = Document(path=document.path, kind="command", tree=entry.node, text=document.text)
        job = _component(project, node) if node.node("command") is None else node
        if job is not None:
            found.append(Step(name=name, node=node, job=job))
    return tuple(found)


def _component(project: Project, node: Document) -> Document | None:
    """Return the file of a node's component; None if it has no command here."""
    text = node.said("component") or node.said("trial")
    if not text or text.startswith("azureml:"):
        return None
    path = joined(node.folder, text)
    found = next((one for one in project.of("component", "command") if one.path == path), None)
    return found if found is not None and found.said("command") else None


def nodes_to_move(steps: Sequence[Step]) -> str | list[str] | None:
    """Return ``image.nodes`` for steps that name environments; None if none does."""
    named = [step.name for step in steps if step.name and step.has_environment]
    if not named:
        return None
    return "all" if len(named) == len(steps) else [step.name for step in steps if step.name]
