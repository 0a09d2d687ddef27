"""The environment that a job names: an image, packages, a Dockerfile. Pure."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from aml_train.cli.scaffold.packages import inline_conda
from aml_train.cli.scaffold.project import Document, Project
from aml_train.config import ListNode, MapNode, Mark, ScalarNode, find


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A job's environment; each part with its place in a file, or None.

    Attributes:
        name: an environment that is registered elsewhere.
        base: an image.
        conda: the path of a conda file in the project.
        inline_conda: conda packages that are listed in the job itself.
        pip: packages that the job lists.
        python: the Python version that the job names.
        dockerfile: the path of a Dockerfile and the folder it is built in.
    """

    name: tuple[Mark, str] | None = None
    base: tuple[Mark, str] | None = None
    conda: tuple[Mark, str] | None = None
    inline_conda: Mark | None = None
    pip: tuple[Mark, tuple[str, ...]] | None = None
    python: tuple[Mark, str] | None = None
    dockerfile: tuple[Mark, str, str] | None = None


def joined(folder: str, path: str) -> str:
    """Return *path*, relative to *folder*, as relative to the project; maybe outside."""
    return posixpath.normpath(posixpath.join(folder, path.removeprefix("file:")))


def environment_of(project: Project, document: Document) -> Environment:
    """Return the environment of a command job's YAML."""
    if isinstance(document.node("environment"), MapNode):
        return described(document, ("environment",))
    text = document.said("environment")
    if not text:
        return Environment()
    mark = document.mark("environment")
    if text.startswith(("file:", ".", "/")) or text.endswith((".yml", ".yaml")):
        path = joined(document.folder, text)
        own = next((one for one in project.of("environment") if one.path == path), None)
        return described(own, ()) if own else Environment(name=(mark, text))
    return named_environment(project, text, mark)


def named_environment(project: Project, text: str, mark: Mark) -> Environment:
    """Return a registered environment, or the file of the project that defines it."""
    name = re.match(r"(?:azureml:)?([^:@/]+)", text)
    own = next((one for one in project.of("environment") if name and one.said("name") == name[1]), None)
    if own is not None:
        return described(own, ())
    if text.startswith(("azureml://", "azureml:/")):
        return Environment(name=(mark, text))
    # The SDK takes `NAME:VERSION` and `NAME@latest` without the prefix that a YAML needs.
    full = text if text.startswith("azureml:") else f"azureml:{text}"
    full = re.sub(r":latest$", "@latest", full)
    return Environment(
        name=(mark, full if re.search(r"[:@][^:@]+$", full.removeprefix("azureml:")) else f"{full}@latest")
    )


def described(document: Document, under: tuple[str, ...]) -> Environment:
    """Read an environment that is defined inline."""
    base, conda = document.said(*under, "image"), document.said(*under, "conda_file")
    build = document.said(*under, "build", "path")
    dockerfile = None
    if build:
        context = joined(document.folder, build)
        inner = document.said(*under, "build", "dockerfile_path") or "Dockerfile"
        dockerfile = (document.mark(*under, "build"), joined(context, inner), context)
    names, python = inline_conda(_listed(document, (*under, "conda_file")))
    inline = document.mark(*under, "conda_file")
    return Environment(
        base=(document.mark(*under, "image"), base) if base else None,
        conda=(document.mark(*under, "conda_file"), joined(document.folder, conda)) if conda else None,
        inline_conda=inline if isinstance(document.node(*under, "conda_file"), MapNode) else None,
        pip=(inline, names) if names else None,
        python=(inline, python) if python else None,
        dockerfile=dockerfile,
    )


def _listed(document: Document, under: tuple[str, ...]) -> list[str | dict[str, list[str]]]:
    """Return the dependencies of conda packages that a YAML lists inline."""
    node = document.node(*under, "dependencies")
    found: list[str | dict[str, list[str]]] = []
    for item in node.items if isinstance(node, ListNode) else ():
        if isinstance(item, ScalarNode):
            found.append(item.text)
        elif isinstance(item, MapNode):
            pip = find(item, "pip")
            inner = pip.items if isinstance(pip, ListNode) else ()
            found.append({"pip": [one.text for one in inner if isinstance(one, ScalarNode)]})
    return found
