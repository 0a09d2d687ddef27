"""Shapes of values that several sections of aml-train.yml share."""

from __future__ import annotations

import re
from typing import Final

import pathspec

from aml_train.config.yaml.nodes import shown
from aml_train.config.yaml.shapes import Text, Variable
from aml_train.config.yaml.structures import Table

_UNITS: Final = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
SIZE_PATTERN: Final = "[1-9][0-9]{0,11}[kmgtKMGT]?[bB]?"
VARIABLE_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"


def check_pattern(text: str) -> None:
    """Raise ValueError if *text* is no gitignore pattern, such as ``[z-a]``."""

    try:
        pathspec.GitIgnoreSpec.from_lines([text])
    except (ValueError, re.error) as error:
        raise ValueError(f"`{shown(text)}` is none: {error}") from error


def inside(text: str) -> None:
    """Raise ValueError if a path leads out of the folder that it starts from."""
    if text.startswith("/") or ".." in text.split("/"):
        raise ValueError(f"`{shown(text)}` leads outside")


def size_in_bytes(text: str) -> int:
    """Return a size as Docker writes it: ``512m`` are mebibytes, a number alone bytes."""
    number = text.lower().rstrip("b")
    unit = number[-1:] if number[-1:].isalpha() else ""
    return int(number.removesuffix(unit)) << _UNITS[unit]


def size(noun: str) -> Text:
    """Return the shape of a size such as `512m`; its value is in bytes."""
    return Text(noun=noun, pattern=SIZE_PATTERN, convert=size_in_bytes, remedy="use the units k, m, g")


PATH: Final = Text(noun="a path")
PATTERN: Final = Text(noun="a glob pattern", rule=check_pattern)
"""A pattern of gitignore(5)."""
VARIABLES: Final = Table(
    value=Variable(),
    noun="a mapping of names to text",
    key=Text(noun="letters, digits and `_`", pattern=VARIABLE_NAME),
)
