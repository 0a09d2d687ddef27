"""The jobs to choose from: of YAML files, else of scripts; each with its code and its environment. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from aml_train.cli.scaffold.draft import Item
from aml_train.cli.scaffold.project import Document, Project, is_submitter
from aml_train.cli.scaffold.scripts import Read, Script, rank, script_of, training_scripts
from aml_train.config.yaml.nodes import MapNode, Mark


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A job's environment; each part with its place in a file, or None.

    Attributes:
        name: an environment that is registered elsewhere.
        base: an image.
        conda: the path of a conda file in the project.
        inline_conda: conda packages that are listed in the job itself.
        dockerfile: the path of a Dockerfile and the folder it is built in.
    """

    name: tuple[Mark, str] | None = None
    base: tuple[Mark, str] | None = None
    conda: tuple[Mark, str] | None = None
    inline_conda: Mark | None = None
    dockerfile: tuple[Mark, str, str] | None = None


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
            yield from outputs_of(document)


def outputs_of(document: Document) -> Iterator[tuple[str, str, Mark]]:
    """Yield name, type and place of each output of a job."""
    found = document.node("outputs")
    for name in found.entries if isinstance(found, MapNode) else ():
        yield name, document.said("outputs", name, "type"), document.mark("outputs", name)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A job that the configuration may be for.

    Attributes:
        path: the file that defines it.
        noun: its kind in words.
        what: its command, in short.
        code: the folder of its code.
        items: the job's keys, if no YAML has them.
        reads: files that its script reads.
        notes: findings that the user should know.
        steps: the nodes of a pipeline, or the trial of a sweep.
    """

    path: str
    noun: Literal["command job", "pipeline job", "sweep job", "run configuration of SDK v1", "script"]
    mark: Mark
    what: str
    code: str
    environment: Environment = field(default_factory=Environment)
    document: Document | None = None
    items: Sequence[Item] = ()
    reads: tuple[Read, ...] = ()
    notes: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()


def candidates(project: Project) -> list[Candidate]:
    """Return the jobs to choose from: those of the most certain kind that exists."""
    for found in (project.of("command"), project.of("pipeline", "sweep"), project.of("runconfig")):
        if found:
            return [_of_document(project, document) for document in found]
    return _scripts(project)


def others_than(project: Project, chosen: Candidate) -> list[Candidate]:
    """Return the jobs of any kind other than one, the most certain first."""
    found = [
        *(_of_document(project, one) for one in project.of("command")),
        *(_of_document(project, one) for one in project.of("pipeline", "sweep", "runconfig")),
        *(_script(script_of(project, file)) for file in sorted(training_scripts(project), key=rank)),
    ]
    return [one for one in found if one.path != chosen.path]


def named(project: Project, path: str) -> list[Candidate]:
    """Return the job of a file, of any kind; none if it has none."""
    wanted = posixpath.normpath(path)
    for document in project.of("command", "pipeline", "sweep", "runconfig"):
        if document.path == wanted:
            return [_of_document(project, document)]
    files = (one for one in project.scripts if one.path == wanted and not is_submitter(one))
    return [_script(script_of(project, file)) for file in files]


def job_item(candidate: Candidate, *, asked: bool) -> Item:
    """Return the key ``job`` or ``runconfig`` for a candidate."""
    if candidate.noun == "script":
        why = "no job exists yet; this one runs the script"
        return Item(key="job", why=why, origin=candidate.mark, value=list(candidate.items))
    why = "the job that --job names" if asked else f"the only {candidate.noun} here"
    key = "runconfig" if candidate.noun.startswith("run configuration") else "job"
    return Item(key=key, value=candidate.path, why=why, origin=candidate.mark)


def _of_document(project: Project, document: Document) -> Candidate:
    if document.kind == "command":
        return _command(project, document)
    return _runconfig(document) if document.kind == "runconfig" else _graph(project, document)


# Command jobs


def joined(folder: str, path: str) -> str:
    """Return *path*, relative to *folder*, as relative to the project; maybe outside."""
    return posixpath.normpath(posixpath.join(folder, path.removeprefix("file:")))


def _code(document: Document) -> str:
    """Return the folder of a job's code; that of its file if the code is elsewhere."""
    code = document.said("code")
    local = code and not re.match(r"[a-z+]+:(?!\d)", code.removeprefix("file:"))
    return joined(document.folder, code) if local else document.folder or "."


def _command(project: Project, document: Document) -> Candidate:
    return Candidate(
        path=document.path,
        noun="command job",
        mark=document.mark("command"),
        what=" ".join(document.said("command").split())[:80],
        code=_code(document),
        environment=environment_of(project, document),
        document=document,
    )


def environment_of(project: Project, document: Document) -> Environment:
    """Return the environment of a command job's YAML."""
    if isinstance(document.node("environment"), MapNode):
        return _described(document, ("environment",))
    text = document.said("environment")
    if not text:
        return Environment()
    mark = document.mark("environment")
    is_file = text.startswith(("file:", ".", "/")) or text.endswith((".yml", ".yaml"))
    name = re.match(r"(?:azureml:)?([^:@/]+)", text)
    for own in project.of("environment"):
        if own.path == joined(document.folder, text) if is_file else name and own.said("name") == name[1]:
            return _described(own, ())
    if is_file or text.startswith(("azureml://", "azureml:/")):
        return Environment(name=(mark, text))
    full = re.sub(r":latest$", "@latest", text if text.startswith("azureml:") else f"azureml:{text}")
    versioned = re.search(r"[:@][^:@]+$", full.removeprefix("azureml:"))
    return Environment(name=(mark, full if versioned else f"{full}@latest"))


def _described(document: Document, under: tuple[str, ...]) -> Environment:
    """Read the environment that a mapping of a file defines."""
    base, conda = document.said(*under, "image"), document.said(*under, "conda_file")
    build = document.said(*under, "build", "path")
    dockerfile = None
    if build:
        context = joined(document.folder, build)
        inner = document.said(*under, "build", "dockerfile_path") or "Dockerfile"
        dockerfile = (document.mark(*under, "build"), joined(context, inner), context)
    mark = document.mark(*under, "conda_file")
    return Environment(
        base=(document.mark(*under, "image"), base) if base else None,
        conda=(mark, joined(document.folder, conda)) if conda else None,
        inline_conda=mark if isinstance(document.node(*under, "conda_file"), MapNode) else None,
        dockerfile=dockerfile,
    )


# Pipelines and sweeps


def _graph(project: Project, document: Document) -> Candidate:
    """Return a pipeline or sweep, with the code and environment of one of its steps."""
    steps = _steps(project, document)
    with_code = [step for step in steps if step.job.said("code")]
    chosen = next((step.job for step in with_code), steps[0].job if steps else document)
    first = next((step for step in steps if step.has_environment), None)
    where = chosen
    if first is not None:
        where = first.job if first.job.node("environment") is not None else first.node
    names = ", ".join(step.name for step in steps if step.name)
    return Candidate(
        path=document.path,
        noun="pipeline job" if document.kind == "pipeline" else "sweep job",
        mark=document.mark("jobs" if document.kind == "pipeline" else "trial"),
        what=(f"{len(steps)} nodes: {names}" if names else " ".join(chosen.said("command").split()))[:80],
        code=_code(chosen),
        environment=environment_of(project, where),
        document=chosen,
        steps=steps,
    )


def _steps(project: Project, document: Document) -> tuple[Step, ...]:
    """Return the steps of a pipeline or sweep whose command is in the project."""

    def part(tree: MapNode) -> Document:
        return Document(path=document.path, kind="command", tree=tree, text=document.text)

    trial, nodes = document.node("trial"), document.node("jobs")
    if isinstance(trial, MapNode):
        return (Step(name="", node=part(document.tree), job=part(trial)),)
    found = []
    for name, entry in nodes.entries.items() if isinstance(nodes, MapNode) else ():
        if isinstance(entry.node, MapNode):
            node = part(entry.node)
            job = _component(project, node) if node.node("command") is None else node
            found += [] if job is None else [Step(name=name, node=node, job=job)]
    return tuple(found)


def _component(project: Project, node: Document) -> Document | None:
    """Return the file of a node's component; None if it has no command here."""
    text = node.said("component") or node.said("trial")
    if not text or text.startswith("azureml:"):
        return None
    path = joined(node.folder, text)
    found = next((one for one in project.of("component", "command") if one.path == path), None)
    return found if found is not None and found.said("command") else None


# Run configurations of SDK v1


def _runconfig(document: Document) -> Candidate:
    # SDK v1 keeps them in `.azureml` or `aml_config` of the folder that it sends.
    folder, _, last = document.folder.rpartition("/")
    code = folder if last in (".azureml", "aml_config") else document.folder
    image, packages = ("environment", "docker", "baseImage"), ("environment", "python", "condaDependenciesFile")
    base, conda = document.said(*image), document.said(*packages)
    return Candidate(
        path=document.path,
        noun="run configuration of SDK v1",
        mark=document.mark("script" if document.said("script") else "command"),
        what=_v1_command(document),
        code=code or ".",
        environment=Environment(
            base=(document.mark(*image), base) if base else None,
            conda=(document.mark(*packages), joined(code, conda)) if conda else None,
        ),
        document=document,
    )


def _v1_command(document: Document) -> str:
    words = [text for _, text in document.items("command")] or [document.said("command")]
    if any(words):
        return " ".join(words)
    return shlex.join(["python", document.said("script"), *(text for _, text in document.items("arguments"))])


# Scripts


def _scripts(project: Project) -> list[Candidate]:
    """Return the likeliest training script if one is, else all of them."""
    files = training_scripts(project)
    ranks = sorted(rank(file) for file in files)
    if len(files) < 2 or ranks[0] == ranks[1]:
        return [_script(script_of(project, file)) for file in files]
    chosen = min(files, key=rank)
    others = ", ".join(file.path for file in files if file is not chosen)
    note = f"{chosen.path}: a guess: it trains by its name; name another with --job: {others}"
    return [_script(script_of(project, chosen), (note,))]


def _script(script: Script, notes: tuple[str, ...] = ()) -> Candidate:
    why = "a guess: the name of your cluster; the target `local` needs none"
    items = [
        Item(key="command", value=script.command, why=script.why),
        Item(key="code", value=script.code),
        Item(key="compute", value="azureml:cpu-cluster", why=why),
    ]
    if script.inputs:
        items.append(Item(key="inputs", value=list(script.inputs)))
    if script.python_path:
        value = [Item(key="PYTHONPATH", value=script.python_path, why="the script imports from it")]
        items.append(Item(key="environment_variables", value=value))
    return Candidate(
        path=script.path,
        noun="script",
        mark=script.mark,
        what=script.command,
        code=script.code,
        items=items,
        reads=script.reads,
        notes=(*notes, *script.notes),
    )
