"""The files of the project that an image names, and what they name in turn: read, and refused where the build could not follow.

No service is asked: ``aml-train validate`` reads them, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from aml_train.config.sections.image import DockerfileConfig
from aml_train.core.errors import Fault, InvalidError
from aml_train.core.temporary import temporary_folder
from aml_train.image.dockerfile.own import ParsedDockerfile, parse_dockerfile
from aml_train.image.inputs import LARGE_PINS, REQUIREMENTS
from aml_train.image.requirements_file import (
    NamedFile,
    large_pins,
    normalised_requirements,
    read_requirements,
)


def read_file(path: Path) -> bytes:
    """Return a file's contents.

    Raises:
        InvalidError: if it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidError([Fault(where=str(path), what="cannot be read", why=str(error.strerror))]) from error


def requirement_files(path: Path, project: Path) -> tuple[str, dict[str, bytes], dict[str, str]]:
    """Return the place in the context of a requirements file, all files of it, and where each package is required.

    The contents are normalised (:mod:`aml_train.image.requirements_file`): the build gets what the address covers. Next to them is a file of the large packages that they pin, if there are any.

    Raises:
        InvalidError: if a file cannot be read, is outside the project, or names a local package.
    """
    found: dict[Path, bytes] = {}
    packages: dict[Path, dict[str, int]] = {}
    required = {path}  # what `-r` leads to; the others are constraints
    waiting, faults = [path], []
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = read_file(file)
        named, packages[file] = _read(file, _relative(file, project))
        for one in named:
            if one.kind not in ("requirements", "constraints"):
                faults.append(_unusable(one, f"{_relative(file, project)}:{one.line}"))
                continue
            inner = Path(os.path.normpath(file.parent / one.path))
            where, what = f"{_relative(file, project)}:{one.line}", f"`{one.path}` is outside the project"
            if not inner.resolve().is_relative_to(project.resolve()):
                faults.append(Fault(where=where, what=what, remedy="move it into the project's folder"))
                continue
            if not inner.is_file():
                faults.append(Fault(where=where, what=f"there is no `{one.path}`", remedy="correct the path"))
                continue
            waiting.append(inner)
            if one.kind == "requirements" and file in required:
                required.add(inner)
    if faults:
        raise InvalidError(faults)
    places: dict[str, str] = {}
    for file in sorted(found, key=lambda one: one not in required):
        for name, line in packages[file].items():
            places.setdefault(name, f"{_relative(file, project)}:{line}")
    found = {file: normalised_requirements(content) for file, content in found.items()}
    large = large_pins(found[file] for file in found if file in required)
    large_files = {} if large is None else {LARGE_PINS: large}
    if len(found) == 1:
        return REQUIREMENTS, {REQUIREMENTS: found[path], **large_files}, places
    names = {file: f"requirements/{_relative(file, project)}" for file in found}
    return names[path], {**{names[file]: content for file, content in found.items()}, **large_files}, places


def _read(file: Path, where: str) -> tuple[list[NamedFile], dict[str, int]]:
    try:
        return read_requirements(file)
    except ValueError as error:
        raise InvalidError([Fault(where=where, what="cannot be read", why=str(error))]) from error


def _unusable(one: NamedFile, where: str) -> Fault:
    """Return the fault of a line that the build could not follow."""
    text = f"`{one.text[:60]}`"
    if one.kind == "unreadable":
        return Fault(where=where, what=f"pip cannot read {text}", why=one.why, remedy="correct the line")
    if one.kind == "package":
        why, remedy = (
            "only the requirements are in the build",
            "install it by `copy` and `run`, or let the job's code bring it",
        )
        return Fault(where=where, what=f"{text} is a file of the project", why=why, remedy=remedy)
    remedy = "write its lines here, or name it by `image.pip`"
    return Fault(where=where, what=f"{text} names a file", why="only this file is in the build", remedy=remedy)


def constraints_file(file: Path, project: Path) -> bytes:
    """Return the normalised contents of a constraints file, which names no other file."""
    name = _relative(file, project)
    content = read_file(file)
    if faults := [_unusable(one, f"{name}:{one.line}") for one in _read(file, name)[0]]:
        raise InvalidError(faults)
    return normalised_requirements(content)


def conda_file(file: Path, project: Path) -> bytes:
    """Return a conda file, whose lines for pip name no file of this machine."""
    content, name = read_file(file), _relative(file, project)
    try:
        document = yaml.compose(content, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidError([Fault(where=name, what="it is no YAML", why=str(error).partition("\n")[0])]) from error
    lines = [
        line
        for dependencies in _values(document, "dependencies")
        for entry in _items(dependencies)
        for pip in _values(entry, "pip")
        for line in _items(pip)
    ]
    with temporary_folder("conda") as folder:
        (folder / "pip.txt").write_text("".join(f"{str(line.value).strip()}\n" for line in lines), encoding="utf-8")
        found, _ = _read(folder / "pip.txt", name)
    if found:
        raise InvalidError([_unusable(one, f"{name}:{lines[one.line - 1].start_mark.line + 1}") for one in found])
    return content


def _items(node: yaml.Node) -> Sequence[yaml.Node]:
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _values(node: yaml.Node | None, key: str) -> Iterator[yaml.Node]:
    """Yield the values of *key* in a mapping."""
    if isinstance(node, yaml.MappingNode):
        yield from (value for name, value in node.value if name.value == key)


def _relative(path: Path, project: Path) -> str:
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)


def parsed_dockerfile(config: DockerfileConfig, platform: str) -> ParsedDockerfile:
    """Read a user's Dockerfile."""
    text = read_file(config.file).decode("utf-8", "replace")
    return parse_dockerfile(text, args=config.args, target=config.target, platform=platform, name=config.file.name)
