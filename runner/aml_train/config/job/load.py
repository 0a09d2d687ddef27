"""The job: read its YAML, check its grammar, then its paths and references."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from aml_train.config.job.grammar import ENVIRONMENT, JOB, REMOTE_SCHEMES
from aml_train.config.job.references import check_command
from aml_train.config.overrides import Override, apply
from aml_train.config.yaml.nodes import Faults, MapNode, Mark, ScalarNode, find, shown, value_mark
from aml_train.config.yaml.source import absolute, kind_of, read_text
from aml_train.config.yaml.structures import Key
from aml_train.config.yaml.tree import parse
from aml_train.core.boundary import why_not_sent
from aml_train.core.values import dataclass

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_ENVIRONMENT_KEY: Final = JOB.keys["environment"]
_JOB_WITH_ENVIRONMENT: Final = replace(
    JOB, keys={**JOB.keys, "environment": Key(_ENVIRONMENT_KEY.shape, _ENVIRONMENT_KEY.text, required=True)}
)


@dataclass(frozen=True, kw_only=True)
class RunConfiguration:
    """A run configuration of the SDK v1: read and checked, or made of a command job.

    Attributes:
        values: its keys of today, in camelCase.
        command: what it runs, as one shell command.
    """

    values: Mapping[str, Any]
    command: str


@dataclass(frozen=True, kw_only=True)
class CommandJob:
    """A checked command job in the grammar of the AzureML CLI v2.

    Attributes:
        document: the whole job as a mapping, overrides applied, for ``azure.ai.ml.load_job``. Keys that the file
            leaves out (``$schema``, ``type``, ``compute``) stay out; environment variables and versions are text,
            counts are integers, and what the service writes (``id``, ``status``, …) is dropped.
        directory: the folder that the document's relative paths start from.
        file: the job's YAML file; the aml-train.yml of an inline job.
        code: the folder of the code snapshot, or its only file, absolute; None if there is none or it is remote
            (``azureml:…``, ``git+…``, ``https://…``).
        runconfig: the run configuration that the job was made of, or that the SDK v1 submits for it.
    """

    document: Mapping[str, Any]
    directory: Path
    file: Path
    code: Path | None
    runconfig: RunConfiguration | None = None


@dataclass(frozen=True, kw_only=True)
class JobSource:
    """A job's tree, before it is checked.

    Attributes:
        tree: what was read.
        file: the file that holds it.
        directory: the folder that its relative paths start from.
        prefix: the dotted name of the job in its file: ``job`` if it is inline, else empty.
    """

    tree: MapNode
    file: Path
    directory: Path
    prefix: str = ""


def read_tree(path: Path, mark: Mark, file: str, faults: Faults) -> MapNode | None:
    """Read a YAML file whose top is a mapping; None after a fault.

    Args:
        path: the file.
        mark: the place that names it, for a file that cannot be read.
        file: its name in faults.
        faults: takes the faults.
    """
    text = read_text(path, mark, file, faults)
    if text is None:
        return None
    before = len(faults)
    node = parse(text, file, faults)
    if node is None and len(faults) > before:
        return None
    top = Mark(file=file, line=1)
    if node is None or (isinstance(node, ScalarNode) and node.kind == "null"):
        faults.add(top, "the file is empty")
        return None
    if not isinstance(node, MapNode):
        faults.add(top, "the file must be a mapping of keys to values", remedy="write it as `key: value` lines")
        return None
    return MapNode(mark=top, entries=node.entries)


def check_job(
    source: JobSource, overrides: Sequence[Override], *, has_image: bool, project: Path, faults: Faults
) -> CommandJob | None:
    """Check a job.

    Args:
        source: where it was read from.
        overrides: changes of ``--set job.…``.
        has_image: an image of ours replaces the environment.
        project: the folder that files are named from in faults.
        faults: takes the faults.

    Returns:
        The job; None if it is too wrong to check further.
    """
    tree = apply(source.tree, overrides, faults)
    shape = JOB if has_image else _JOB_WITH_ENVIRONMENT
    kind = find(tree, "type")
    if isinstance(kind, ScalarNode) and kind.text.lower() != "command" and kind.kind == "text":
        # Another kind of job has other keys: a fault for each of them would hide the reason.
        shape.keys["type"].shape.check(kind, _name(source, "type"), faults)
        return None
    document: dict[str, Any] = shape.check(tree, source.prefix, faults)
    code = _check_code(tree, document, source, project, faults)
    _check_inputs(tree, document, source, project, faults)
    _check_environment(tree, source, project, faults)
    check_command(tree, source.prefix, faults)
    return CommandJob(document=document, directory=source.directory, file=source.file, code=code)


def _name(source: JobSource, name: str) -> str:
    return f"{source.prefix}.{name}" if source.prefix else name


def _remote(text: str) -> bool:
    return not text.startswith("file:") and _SCHEME.match(text) is not None


def _resolve(directory: Path, text: str) -> Path:
    return Path(directory, text.removeprefix("file:"))


def _check_code(
    tree: MapNode, document: dict[str, Any], source: JobSource, project: Path, faults: Faults
) -> Path | None:
    text, mark = document.get("code"), value_mark(tree, "code")
    if not isinstance(text, str):
        return None
    name = _name(source, "code")
    if text.startswith(("git+", "https://", "http://")):
        return None
    if text.startswith("azureml:"):
        if not re.fullmatch(r"azureml:(?://\S+|/subscriptions/\S+|[^\s/:@]+[:@][^\s/:@]+)", text):
            why = f"it is `{shown(text)}`"
            faults.add(mark, f"`{name}` must name a version", why=why, remedy="write azureml:NAME:VERSION")
        return None
    if text.startswith("file:"):
        remedy = f"write `{shown(text.removeprefix('file:'))}`"
        faults.add(
            mark, f"`{name}` must be a path or an address", why="azure-ai-ml takes no `file:` here", remedy=remedy
        )
        return None
    path = _resolve(source.directory, text)
    found, why = kind_of(path)
    if found not in ("file", "folder"):
        _not_there(mark, name, text, why, "write the folder of the code, relative to this file", faults)
        return None
    may_be_sent(mark, name, source.directory, text, project, faults)
    return absolute(path)


def may_be_sent(mark: Mark, name: str, directory: Path, text: str, project: Path, faults: Faults) -> bool:
    """Check that a local path that the job sends does not lead out of the repository."""
    why = why_not_sent(directory, text, project)
    if why:
        faults.add(mark, f"`{name}` names `{shown(text)}`", why=why, remedy="name the place itself, or copy it")
    return not why


def _check_inputs(tree: MapNode, document: dict[str, Any], source: JobSource, project: Path, faults: Faults) -> None:
    inputs = document.get("inputs")
    for key, value in (inputs or {}).items():
        if not isinstance(value, dict) or not isinstance(value.get("path"), str):
            continue
        text, mark, name = value["path"], value_mark(tree, "inputs", key, "path"), _name(source, f"inputs.{key}.path")
        if _remote(text):
            scheme = text.split(":", 1)[0].lower()
            if scheme not in REMOTE_SCHEMES:
                known = ", ".join(f"`{word}:`" for word in REMOTE_SCHEMES)
                what = f"`{name}` starts with `{shown(scheme)}:`, which AzureML does not read from"
                faults.add(mark, what, remedy=f"known are {known} and local paths")
            continue
        found, why = kind_of(_resolve(source.directory, text))
        wanted = {"uri_file": "file", "uri_folder": "folder", "mltable": "folder"}.get(str(value.get("type")).lower())
        if found not in ("file", "folder"):
            _not_there(mark, name, text, why, "write a path relative to this file", faults)
        elif wanted and found != wanted:
            why = f"`{shown(text)}` is a {found}"
            other = "uri_folder" if found == "folder" else "uri_file"
            remedy = f"write `type: {other}`, or name a {wanted}"
            faults.add(mark, f"`{name}` must be a {wanted}, as its type is {value['type']}", why=why, remedy=remedy)
        else:
            may_be_sent(mark, name, source.directory, text.removeprefix("file:"), project, faults)


def _check_environment(tree: MapNode, source: JobSource, project: Path, faults: Faults) -> None:
    node = find(tree, "environment")
    name, directory = _name(source, "environment"), source.directory
    if isinstance(node, ScalarNode) and node.kind == "text" and node.text.startswith("file:"):
        path = _resolve(directory, node.text)
        if not may_be_sent(node.mark, name, directory, node.text.removeprefix("file:"), project, faults):
            return
        inner = read_tree(path, node.mark, name_of(path, project), faults)
        if inner is None:
            return
        ENVIRONMENT.check(inner, "", faults)
        node, name, directory = inner, "", path.parent
    if not isinstance(node, MapNode):
        return
    for keys, wanted in ((("conda_file",), "file"), (("build", "path"), "folder")):
        inner_node = find(node, *keys)
        if not isinstance(inner_node, ScalarNode) or inner_node.kind != "text" or _remote(inner_node.text):
            continue
        full = ".".join((name, *keys) if name else keys)
        path = _resolve(directory, inner_node.text)
        found, why = kind_of(path)
        if found != wanted:
            why = why or f"it is a {found}"
            _not_there(inner_node.mark, full, inner_node.text, why, f"name a {wanted}, relative to this file", faults)
        else:
            may_be_sent(inner_node.mark, full, directory, inner_node.text.removeprefix("file:"), project, faults)


def _not_there(mark: Mark, name: str, text: str, why: str, remedy: str, faults: Faults) -> None:
    faults.add(mark, f"`{name}` names `{shown(text)}`", why=why, remedy=remedy)


def name_of(path: Path, directory: Path) -> str:
    """Return a path for messages: relative to *directory* if it is inside."""
    absolute = Path(directory, path)
    return str(absolute.relative_to(directory)) if absolute.is_relative_to(directory) else str(path)
