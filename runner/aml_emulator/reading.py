"""Numbers, YAML and private files, within bounds."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import yaml


def write_private(path: Path, content: bytes) -> None:
    """Create or replace a file at once; its owner alone can read it (mode 0600)."""
    temporary = path.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


MAX_DEPTH: Final = 100
MAX_VALUES: Final = 100_000
"""Values in one document; each use of an alias counts with all that it stands for."""

_DIGITS: Final = re.compile(r"[0-9]+")
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def whole(text: str, *, most: int = 18) -> int | None:
    """Return the number that *text* is in ASCII digits; None for any other text.

    ``int`` alone reads digits of other scripts, raises for some characters that ``str.isdigit`` calls digits, such as ``²``, and
    for more than 4300 digits.

    Args:
        most: digits; what has more is no number either. 18 fit in 64 bits.
    """
    return int(text) if len(text) <= most and _DIGITS.fullmatch(text) else None


def read_yaml(text: str) -> Any:
    """Return what a YAML document holds.

    Raises:
        ValueError: it is no YAML, holds a value that Python has not, such as the date 2020-99-99, or is deeper or larger than the bounds:
            PyYAML takes minutes for thousands of open brackets, and aliases of aliases can stand for more than memory holds.
    """
    try:
        _check(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # libyaml places what is missing at the end on the line after the last one.
        place = f"line {min(mark.line, text.count(chr(10))) + 1}: " if mark else ""
        raise ValueError(f"{place}{getattr(error, 'problem', None) or 'it is no YAML'}") from error


def _check(text: str) -> None:
    """Raise ValueError for what is out of bounds, before any value is made."""
    sizes: list[int] = [0]
    anchors: list[str | None] = []
    known: dict[str, int] = {}
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        match event:
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                sizes.append(1)
                anchors.append(event.anchor)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                size, anchor = sizes.pop(), anchors.pop()
                sizes[-1] += size
                if anchor is not None:
                    known[anchor] = size
            case yaml.ScalarEvent():
                sizes[-1] += 1
                if event.anchor is not None:
                    known[event.anchor] = 1
            case yaml.AliasEvent():
                sizes[-1] += known.get(event.anchor or "", 1)
            case _:
                continue  # the ends of the stream and of documents
        if len(anchors) > MAX_DEPTH:
            raise ValueError(f"line {line}: more than {MAX_DEPTH} lists and mappings are inside one another")
        if sizes[-1] > MAX_VALUES:
            raise ValueError(f"line {line}: it has more than {MAX_VALUES} values, those of its aliases included")
