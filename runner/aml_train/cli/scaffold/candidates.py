"""Candidate jobs: command jobs, else run configurations, else scripts. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass, field
from typing import Literal

from aml_train.cli.scaffold.draft import Item
from aml_train.cli.scaffold.project import Document, Project, TextFile
from aml_train.config import ListNode, MapNode, Mark, ScalarNode

_MAIN = re.compile(r"""^if __name__ == ["']__main__["']""", re.MULTILINE)
_TRAINING = re.compile(r"train\w*\.py|\w*_?train(ing)?\.py|main\.py|fit\.py")


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
class Candidate:
    """A job that the configuration may be for.

    Attributes:
        path: the file that defines it.
        what: its command, in short.
        code: the folder of its code.
    """

    path: str
    kind: Literal["command", "runconfig", "script"]
    mark: Mark
    what: str
    code: str
    environment: Environment = field(default_factory=Environment)
    document: Document | None = None


def candidates(project: Project) -> list[Candidate]:
    """Return the jobs to choose from: those of the most certain kind that exists."""
    jobs = [_command(project, document) for document in project.of("command")]
    if jobs:
        return jobs
    configurations = [_runconfig(document) for document in project.of("runconfig")]
    return configurations or [_script(file) for file in project.scripts if is_training(file)]


def named(project: Project, path: str) -> Candidate | None:
    """Return the job of a file, of any kind, or None."""
    wanted = posixpath.normpath(path)
    for document in project.of("command", "runconfig"):
        if document.path == wanted:
            return _command(project, document) if document.kind == "command" else _runconfig(document)
    return next((_script(file) for file in project.scripts if file.path == wanted), None)


def is_training(file: TextFile) -> bool:
    """Return whether a script looks like one that is run to train."""
    name = file.path.rpartition("/")[2]
    runs = _MAIN.search(file.text) is not None or (name == "train.py" and "ArgumentParser" in file.text)
    return _TRAINING.fullmatch(name) is not None and runs


def job_item(candidate: Candidate, *, asked: bool) -> Item:
    """Return the key ``job`` or ``runconfig`` for a candidate."""
    if candidate.kind == "command":
        why = "the job that --job names" if asked else "the only command job here"
        return Item(key="job", value=candidate.path, why=why, origin=candidate.mark)
    if candidate.kind == "script" or candidate.document is None:
        return Item(
            key="job",
            why="no job exists yet; this one runs the script",
            origin=candidate.mark,
            value=[
                Item(key="command", value=candidate.what, why="add the script's arguments"),
                Item(key="code", value=candidate.code or "."),
                Item(
                    key="compute",
                    value="azureml:cpu-cluster",
                    why="a guess: the name of your cluster; `local` needs none",
                ),
            ],
        )
    why = "the run configuration that --job names" if asked else "the only run configuration of SDK v1 here"
    return Item(key="runconfig", value=candidate.path, why=why, origin=candidate.mark)


def joined(folder: str, path: str) -> str:
    """Return *path*, relative to *folder*, as relative to the project; maybe outside."""
    return posixpath.normpath(posixpath.join(folder, path.removeprefix("file:")))


# Command jobs


def _command(project: Project, document: Document) -> Candidate:
    code = document.said("code")
    local = code and not re.match(r"[a-z+]+:(?!\d)", code.removeprefix("file:"))
    return Candidate(
        path=document.path,
        kind="command",
        mark=document.mark("command"),
        what=" ".join(document.said("command").split())[:80],
        code=joined(document.folder, code) if local else document.folder or ".",
        environment=_environment(project, document),
        document=document,
    )


def _environment(project: Project, document: Document) -> Environment:
    node = document.node("environment")
    if isinstance(node, MapNode):
        return _described(document, ("environment",))
    text = document.said("environment")
    if not text:
        return Environment()
    mark = document.mark("environment")
    if text.startswith(("file:", ".", "/")) or text.endswith((".yml", ".yaml")):
        path = joined(document.folder, text)
        own = next((one for one in project.of("environment") if one.path == path), None)
        return _described(own, ()) if own else Environment(name=(mark, text))
    name = re.match(r"azureml:([^:@/]+)", text)
    own = next((one for one in project.of("environment") if name and one.said("name") == name[1]), None)
    return _described(own, ()) if own else Environment(name=(mark, text))


def _described(document: Document, under: tuple[str, ...]) -> Environment:
    """Read an environment that is defined inline."""
    base, conda = document.said(*under, "image"), document.said(*under, "conda_file")
    build = document.said(*under, "build", "path")
    dockerfile = None
    if build:
        context = joined(document.folder, build)
        inner = document.said(*under, "build", "dockerfile_path") or "Dockerfile"
        dockerfile = (document.mark(*under, "build"), joined(context, inner), context)
    return Environment(
        base=(document.mark(*under, "image"), base) if base else None,
        conda=(document.mark(*under, "conda_file"), joined(document.folder, conda)) if conda else None,
        inline_conda=document.mark(*under, "conda_file")
        if isinstance(document.node(*under, "conda_file"), MapNode)
        else None,
        dockerfile=dockerfile,
    )


# Run configurations of SDK v1


def _runconfig(document: Document) -> Candidate:
    # SDK v1 keeps them in `.azureml` or `aml_config` of the folder that it sends.
    folder = document.folder
    last = folder.rpartition("/")[2]
    code = folder.rpartition("/")[0] if last in (".azureml", "aml_config") else folder
    conda = document.said("environment", "python", "condaDependenciesFile")
    base = document.said("environment", "docker", "baseImage")
    key = "script" if document.said("script") else "command"
    return Candidate(
        path=document.path,
        kind="runconfig",
        mark=document.mark(key),
        what=_v1_command(document),
        code=code or ".",
        environment=Environment(
            base=(document.mark("environment", "docker", "baseImage"), base) if base else None,
            conda=(document.mark("environment", "python", "condaDependenciesFile"), joined(code, conda))
            if conda
            else None,
        ),
        document=document,
    )


def _v1_command(document: Document) -> str:
    words = [text for _, text in document.items("command")] or [document.said("command")]
    if any(words):
        return " ".join(words)
    arguments = document.node("arguments")
    given = (
        [item.text for item in arguments.items if isinstance(item, ScalarNode)]
        if isinstance(arguments, ListNode)
        else []
    )
    return shlex.join(["python", document.said("script"), *given])


# Scripts


def _script(file: TextFile) -> Candidate:
    found = file.first(_MAIN.pattern)
    return Candidate(
        path=file.path,
        kind="script",
        mark=found[0] if found else Mark(file=file.path, line=1),
        what=shlex.join(["python", file.path.rpartition("/")[2]]),
        code=file.folder or ".",
    )
