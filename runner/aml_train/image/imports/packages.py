"""The distributions that an image gets, as far as its configuration names them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from aml_train.config import Faults, ImageConfig, ListNode, MapNode, ScalarNode, find, parse
from aml_train.core.references import DOCKER_HUB, ImageRef
from aml_train.core.values import dataclass
from aml_train.image.imports.distributions import installed_with
from aml_train.image.requirements_file import logical_lines, simple_name

_PYTHON_IMAGES: Final = frozenset({"python", "library/python"})
"""Repositories of Docker Hub whose images hold Python with pip, and no other package."""

_WITH_PIP: Final = ("pip", "setuptools", "wheel")

_OPTIONS: Final = re.compile(r"\s--(?:hash|config-settings|global-option)[=\s].*$")
"""Options after a requirement in a file."""


@dataclass(frozen=True, kw_only=True)
class Packages:
    """The distributions of an image.

    Attributes:
        names: normalized names of what is listed, and of what that is known to bring.
        unknown: listed ones that may bring any other.
        complete: whether nothing else is installed, apart from what *unknown* brings.
    """

    names: frozenset[str]
    unknown: tuple[str, ...] = ()
    complete: bool = True


def packages_of(image: ImageConfig) -> Packages:
    """Return the distributions of an image, as far as they are known."""
    listed: list[str] = []
    complete = not (image.dockerfile or image.run or image.copy)
    complete = complete and image.base is not None and _is_python(image.base)
    pip = image.pip
    if pip is not None:
        for requirement in pip.packages:
            complete = _add(requirement, listed) and complete
        if pip.requirements is not None:
            complete = _read_requirements(pip.requirements, listed, set()) and complete
    if image.conda is not None:
        complete = _read_conda(image.conda.file, listed) and complete
    if image.azureml_mlflow is not None:
        listed.append("azureml-mlflow")
    if image.azureml_defaults is not None:
        # It brings azureml-core with dozens of others.
        listed.append("azureml-defaults")
    names, unknown = installed_with([*listed, *_WITH_PIP])
    return Packages(names=names, unknown=unknown, complete=complete)


def _is_python(base: object) -> bool:
    return isinstance(base, ImageRef) and base.registry == DOCKER_HUB and base.repository in _PYTHON_IMAGES


def _add(text: str, listed: list[str]) -> bool:
    """Add a requirement's name; return whether it is known what that installs."""
    text = _OPTIONS.sub("", text).strip()
    if (simple := simple_name(text)) is not None:
        listed.append(simple)
        return True
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return False
    listed.append(requirement.name)
    return not requirement.extras and requirement.url is None


def _read_requirements(path: Path, listed: list[str], seen: set[Path]) -> bool:
    """Add the names of a requirements file; return whether these are all."""
    if path in seen:
        return True
    seen.add(path)
    try:
        lines = list(logical_lines(path.read_text(encoding="utf-8-sig")))
    except (OSError, UnicodeDecodeError):
        # The build reports a file that it cannot read; here its contents are unknown.
        return False
    complete = True
    for line in lines:
        if included := re.match(r"(?:-r|--requirement)[=\s]\s*(\S+)", line):
            complete = _read_requirements(path.parent / included[1], listed, seen) and complete
        elif line.startswith(("-e", "--editable")):
            complete = False
        elif not line.startswith("-"):
            complete = _add(line, listed) and complete
    return complete


def _read_conda(path: Path, listed: list[str]) -> bool:
    """Add the names of an environment file; return whether these are all."""
    try:
        tree = parse(path.read_text(encoding="utf-8-sig"), path.name, Faults())
    except (OSError, UnicodeDecodeError):
        return False
    items = find(tree, "dependencies") if isinstance(tree, MapNode) else None
    if not isinstance(items, ListNode):
        return False
    complete = True
    for item in items.items:
        if isinstance(item, ScalarNode):
            name = re.match(r"(?:[\w.-]+::)?([\w.-]+)", item.text)
            if name and name[1] != "python":
                listed.append(name[1])
        elif isinstance(item, MapNode):
            pip = find(item, "pip")
            for one in pip.items if isinstance(pip, ListNode) else ():
                complete = isinstance(one, ScalarNode) and _add(one.text, listed) and complete
    return complete
