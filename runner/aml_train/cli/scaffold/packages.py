"""The packages of a project: those it declares, or its code imports. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aml_train.cli.scaffold.imports import Code, Needed, needed_by
from aml_train.cli.scaffold.known_packages import package_for
from aml_train.cli.scaffold.programs import programs
from aml_train.cli.scaffold.project import Project, TextFile, folder_of, nearness
from aml_train.config import Mark

_PATH_LINE: Final = r"^[ \t]*(?:(?:-e|--editable)[ =]\S*|\.{1,2}(?:/\S*|\[[^\]]*\])?[ \t]*$|file:\S+)"
_OPTION: Final = re.compile(r"^\s*-")


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Requirements that a file of the project declares, and their place."""

    mark: Mark
    requirements: tuple[str, ...]


def declared(project: Project, goal: str) -> Declared | None:
    """Return the dependencies of the nearest pyproject.toml, or of setup.cfg."""
    for file, said in sorted(project.pyproject, key=lambda one: nearness(one[0].path, goal)):
        found = _standard(said) or list(_poetry(said))
        if found:
            place = file.first(r"^dependencies\s*=|^\[tool\.poetry\.dependencies\]")
            return Declared(mark=place[0] if place else Mark(file=file.path, line=1), requirements=tuple(found))
    for file in sorted(project.others.values(), key=lambda one: nearness(one.path, goal)):
        name = file.path.rpartition("/")[2]
        pattern = {
            "setup.cfg": r"^install_requires\s*=((?:\s*\n[ \t]+\S.*)+)",
            "setup.py": r"install_requires\s*=\s*\[([^\]]*)\]",
        }
        match = file.first(pattern[name]) if name in pattern else None
        if match is not None:
            listed = (
                re.findall(r"[\"']([^\"']+)[\"']", match[1][1]) if name == "setup.py" else match[1][1].split("\n")
            )
            found = [line.strip() for line in listed if line.strip()]
            if found:
                return Declared(mark=match[0], requirements=tuple(found))
    return None


def without_paths(file: TextFile) -> tuple[Mark, tuple[str, ...]] | None:
    """Return the requirements of a file that installs the project, without it.

    None if there is no such line, or if the rest has options, which a list cannot have. The mark is that of the first line.
    """
    found = file.first(_PATH_LINE)
    if found is None:
        return None
    kept = re.sub(_PATH_LINE, "", file.text, flags=re.MULTILINE)
    lines = [re.sub(r"(^|\s)#.*$", "", line).strip() for line in kept.splitlines()]
    if any(_OPTION.match(line) or line.endswith("\\") for line in lines):
        return None
    return found[0], tuple(line for line in lines if line)


def from_imports(project: Project, command: str, code: str) -> list[tuple[str, Mark]]:
    """Return well-known packages that the command's scripts import, with places.

    Only packages of the tables are named: a module of another name may be anyone's package.
    """
    needed, lead = _needed(project, command, code)
    texts = {one.path: one.text for one in project.scripts}
    whole = Code(paths=texts.keys(), read=texts.__getitem__)
    found: dict[str, Mark] = {}
    for module, (path, line) in needed.modules.items():
        name = package_for(module)
        if name is not None and not whole.has_top(module):
            found.setdefault(name, Mark(file=lead + path, line=line))
    return list(found.items())


def loaded_by(project: Project, command: str, code: str) -> frozenset[str]:
    """Return the Python files of the project that a command loads."""
    needed, lead = _needed(project, command, code)
    return frozenset(lead + path for path in needed.read)


def _needed(project: Project, command: str, code: str) -> tuple[Needed, str]:
    lead = "" if code in ("", ".") else f"{code}/"
    inside = {one.path.removeprefix(lead): one.text for one in project.scripts if one.path.startswith(lead)}
    sources = Code(paths=inside.keys(), read=inside.__getitem__)
    started = programs(command, sources)
    return needed_by(sources, [(one.path, ("", folder_of(one.path), *one.roots)) for one in started]), lead


def inline_conda(listed: object) -> tuple[tuple[str, ...], str | None]:
    """Return pip's names for a job's list of conda packages, and its Python.

    There are no names if pip cannot install all of them.
    """
    found: list[str] = []
    complete, python = True, None
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and isinstance(one.get("pip"), list):
            found += [text for text in one["pip"] if isinstance(text, str)]
        elif isinstance(one, str) and (version := re.match(r"python\s*[=<>~]+\s*(\d\.\d+)", one)):
            python = version[1]
        elif isinstance(one, str) and re.match(r"(?:[\w.-]+::)?(?:python|pip|setuptools|wheel)\b(?!-)", one) is None:
            name = pip_name(one)
            complete = complete and name is not None
            found += [name] if name is not None else []
    return tuple(found) if complete else (), python


def pip_name(conda: str) -> str | None:
    """Return a conda requirement as pip's; None if its name there is unknown."""
    match = re.fullmatch(r"(?:[\w.-]+::)?([\w.-]+)\s*(?:([=<>!~]*)\s*([\w.*,<>=! -]+))?", conda.strip())
    if match is None:
        return None
    name = package_for({"pytorch": "torch"}.get(match[1], match[1]).replace("-", "_")) or package_for(match[1])
    if match[1] == "scikit-learn":
        name = match[1]
    if name is None:
        return None
    version = (match[3] or "").partition("=")[0] if match[2] in ("=", "==") else (match[3] or "")
    if match[2] == "=":
        return f"{name}=={version}" if version.count(".") >= 2 or "*" in version else f"{name}=={version}.*"
    return f"{name}{match[2] or ''}{version}"


def _standard(said: Mapping[str, Any]) -> list[str]:
    project = said.get("project")
    found = project.get("dependencies") if isinstance(project, dict) else None
    return [str(one) for one in found] if isinstance(found, list) else []


def _poetry(said: Mapping[str, Any]) -> Iterator[str]:
    """Yield Poetry's dependencies as PEP 508 has them."""
    tool = said.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    listed = poetry.get("dependencies") if isinstance(poetry, dict) else None
    for name, given in (listed if isinstance(listed, dict) else {}).items():
        version = given.get("version") if isinstance(given, dict) else given
        if (
            name.lower() == "python"
            or not isinstance(version, str)
            or (isinstance(given, dict) and given.get("optional"))
        ):
            continue
        yield f"{name}{_specifier(version)}"


def _specifier(text: str) -> str:
    """Return a version of Poetry's as a specifier of PEP 440."""
    text = text.strip()
    if text == "*":
        return ""
    if caret := re.fullmatch(r"\^\s*(\d+)((?:\.\d+)*)", text):
        parts = [int(part) for part in (caret[1] + caret[2]).split(".")]
        first = next((at for at, part in enumerate(parts) if part), len(parts) - 1)
        upper = [*parts[:first], parts[first] + 1]
        return f">={caret[1]}{caret[2]},<{'.'.join(str(part) for part in upper)}"
    if tilde := re.fullmatch(r"~\s*(\d+)\.(\d+)((?:\.\d+)*)", text):
        return f">={tilde[1]}.{tilde[2]}{tilde[3]},<{tilde[1]}.{int(tilde[2]) + 1}"
    return f"=={text}" if text[0].isdigit() else text
