"""Commands of the project that train, as pyproject.toml declares them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from aml_train.cli.scaffold.imports import Code
from aml_train.cli.scaffold.project import Project, TextFile
from aml_train.cli.scaffold.scripts import Script
from aml_train.config import Mark

_TRAINS: Final = re.compile(r"train|fit", re.IGNORECASE)
_OBJECT: Final = re.compile(r"([A-Za-z_][\w.]*)\s*:\s*([A-Za-z_]\w*)\s*(?:\[.*\])?")
"""The syntax of an entry point (PyPA, "Entry points specification"); attributes of objects are left out."""


def entry_points(project: Project) -> list[Script]:
    """Return the commands whose names say that they train, and whose module is here.

    The job does what the installed command does, without an installation: it imports the function, calls it, and ends with its
    result.
    """
    paths = {file.path for file in project.scripts}
    code = Code(paths=paths, read=lambda _path: "")
    found: list[Script] = []
    for file, said in project.pyproject:
        for name, target in _declared(said):
            match = _OBJECT.fullmatch(target)
            if match is None or not (_TRAINS.search(name) or _TRAINS.search(match[2])):
                continue
            root = next((one for one in _roots(file) if code.find(match[1], [one])), None)
            if root is None:
                continue
            call = f"import sys; from {match[1]} import {match[2]}; sys.exit({match[2]}())"
            place = file.first(rf"^[\"']?{re.escape(name)}[\"']?\s*=")
            found.append(
                Script(
                    path=(code.find(match[1], [root]) or ("", ""))[0] or file.path,
                    mark=place[0] if place else Mark(file=file.path, line=1),
                    command=f'python -c "{call}"',
                    code=root or ".",
                    why=f"what the project's command {name} does",
                )
            )
    return found


def _roots(file: TextFile) -> tuple[str, str]:
    return (f"{file.folder}/src" if file.folder else "src", file.folder)


def _declared(said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    tool = said.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    for table in (said.get("project"), poetry):
        scripts = table.get("scripts") if isinstance(table, dict) else None
        for name, target in scripts.items() if isinstance(scripts, dict) else ():
            if isinstance(target, str):
                yield name, target
