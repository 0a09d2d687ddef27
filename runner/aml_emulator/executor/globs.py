"""Wildcards of an input's path: ``*``, ``?`` and, across folders, ``**``. Pure.

The command sees the files that match, below the last folder before the first wildcard. These are the patterns that
azureml-fsspec and MLTable take: https://learn.microsoft.com/azure/machine-learning/how-to-access-data-interactive.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_WILD = re.compile(r"[*?]")


def split_glob(path: str) -> tuple[str, str | None]:
    """Return the folder before the first wildcard, and the pattern below it or None."""
    parts = path.split("/")
    first = next((at for at, part in enumerate(parts) if _WILD.search(part)), None)
    if first is None:
        return path, None
    return "/".join(parts[:first]), "/".join(parts[first:])


def matcher(pattern: str | None) -> Callable[[str], bool]:
    """Return a function that matches relative paths; all match without *pattern*."""
    if pattern is None:
        return lambda _path: True
    parts = [_part(part) for part in pattern.split("/")]
    regex = re.compile("".join(parts[:-1]) + _last(pattern.rpartition("/")[2]))
    return lambda path: regex.fullmatch(path) is not None


def _part(part: str) -> str:
    return r"(?:[^/]+/)*" if part == "**" else _name(part) + "/"


def _last(part: str) -> str:
    return r".+" if part == "**" else _name(part)


def _name(part: str) -> str:
    return "".join({"*": "[^/]*", "?": "[^/]"}.get(letter, re.escape(letter)) for letter in part)
