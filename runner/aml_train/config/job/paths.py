"""The local paths of a job: code, inputs, and the files of an environment."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from aml_train.config.job.grammar import ENVIRONMENT, REMOTE_SCHEMES
from aml_train.config.job.source import JobSource, name_of, read_tree
from aml_train.config.yaml.nodes import Faults, MapNode, Mark, ScalarNode, find, shown, value_mark
from aml_train.config.yaml.source import absolute, kind_of
from aml_train.core.boundary import why_not_sent

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_REFERENCE: Final = re.compile(r"\$\{\{[^}]*\}\}")
"""A reference of a pipeline's node, such as ``${{parent.inputs.data}}``."""


def _remote(text: str) -> bool:
    return not text.startswith("file:") and _SCHEME.match(text) is not None


def _resolve(directory: Path, text: str) -> Path:
    return Path(directory, text.removeprefix("file:"))


def is_local(value: object) -> bool:
    """Return whether a value is a local path, not an address, asset or reference."""
    if not isinstance(value, str) or not value:
        return False
    if value.startswith("file:"):
        return True
    return "://" not in value and not value.startswith(("azureml:", "git+", "${{"))


def change_paths(document: dict[str, Any], change: Callable[[str], str]) -> None:
    """Change the local paths of a node, a component or a trial in place.

    Args:
        document: its mapping; code, data and environment are changed.
        change: returns a path's replacement; ``file:`` before it stays.
    """

    def changed(mapping: object, key: str, prefix: str = "") -> None:
        value = mapping.get(key) if isinstance(mapping, dict) else None
        if isinstance(mapping, dict) and isinstance(value, str) and is_local(value) and value.startswith(prefix):
            lead = "file:" if value.startswith("file:") else ""
            mapping[key] = lead + change(value.removeprefix("file:"))

    changed(document, "code")
    if includes := document.get("additional_includes"):
        document["additional_includes"] = [change(one) if is_local(one) else one for one in includes]
    for given in (document.get("inputs") or {}).values():
        changed(given, "path")
    changed(document, "environment", "file:")
    environment = document.get("environment")
    if isinstance(environment, dict):
        changed(environment, "conda_file")
        changed(environment.get("build"), "path")


def check_code(
    tree: MapNode, document: dict[str, Any], source: JobSource, project: Path, faults: Faults
) -> Path | None:
    """Check the code of a job; return its folder or file, None for remote code."""
    text, mark = document.get("code"), value_mark(tree, "code")
    if not isinstance(text, str):
        return None
    name = source.name("code")
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


def check_inputs(tree: MapNode, document: dict[str, Any], source: JobSource, project: Path, faults: Faults) -> None:
    """Check the local paths among a job's inputs."""
    inputs = document.get("inputs")
    for key, value in (inputs or {}).items():
        if not isinstance(value, dict) or not isinstance(value.get("path"), str):
            continue
        text, mark, name = value["path"], value_mark(tree, "inputs", key, "path"), source.name(f"inputs.{key}.path")
        if _REFERENCE.fullmatch(text):
            continue
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


def check_environment(tree: MapNode, source: JobSource, project: Path, faults: Faults) -> None:
    """Check the files that a job's environment names."""
    node = find(tree, "environment")
    name, directory = source.name("environment"), source.directory
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
