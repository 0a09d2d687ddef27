"""The code of notebooks, with the line numbers of their files. Pure."""

from __future__ import annotations

import json
import re
from typing import Final

_SOURCE: Final = re.compile(r'^\s*"source"\s*:\s*\[(\s*\])?')
_CELL: Final = re.compile(r'^\s*"cell_type"\s*:\s*"(\w+)"')
_MAGIC: Final = re.compile(r"^\s*[%!?]|^.*\?\s*$|^\s*\w+\s*=\s*[%!]")


def code_of_notebook(text: str) -> str:
    """Return the code cells of a notebook; every other line is empty.

    Jupyter writes one line of a cell on one line of the file, so that a line of the result has the number that an editor shows.
    A cell that begins with ``%%`` is no Python, and commands of notebooks are left out.

    Args:
        text: the notebook's file, as Jupyter writes it (nbformat 4: keys in alphabetical order, indented).
    """
    found: list[str] = []
    cell, inside, foreign = "", False, False
    for line in text.splitlines():
        code = ""
        if inside and line.strip().startswith('"'):
            code = _decoded(line)
            foreign = foreign or code.startswith("%%")
            code = "" if foreign or _MAGIC.match(code) else code
        elif inside and line.strip().startswith("]"):
            inside = False
        elif kind := _CELL.match(line):
            cell = kind[1]
        elif (start := _SOURCE.match(line)) and cell == "code":
            inside, foreign = start[1] is None, False
        found.append(code)
    return "\n".join(found)


def _decoded(line: str) -> str:
    """Return the text of one line, or nothing if it is no JSON string."""
    try:
        value = json.loads(line.strip().rstrip(","))
    except (ValueError, RecursionError):
        return ""
    return value.rstrip("\n") if isinstance(value, str) else ""
