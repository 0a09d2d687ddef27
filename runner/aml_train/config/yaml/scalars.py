"""The values of unquoted scalars in YAML 1.1, and those that surprise users.

The rules are those of PyYAML, which azure-ai-ml reads its files with: the same file means the same in both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import yaml

from aml_train.config.yaml.nodes import Kind, ScalarNode, shown

_KINDS: Final[dict[str, Kind]] = {
    "tag:yaml.org,2002:null": "null",
    "tag:yaml.org,2002:bool": "bool",
    "tag:yaml.org,2002:int": "int",
    "tag:yaml.org,2002:float": "float",
    "tag:yaml.org,2002:timestamp": "date",
}
_MAX_INTEGER: Final = 2**63
_LONGEST_NUMBER: Final = 100
_constructor = yaml.constructor.SafeConstructor()
_make: Final[dict[str, Callable[[yaml.ScalarNode], Any]]] = {
    "bool": _constructor.construct_yaml_bool,
    "int": _constructor.construct_yaml_int,
    "float": _constructor.construct_yaml_float,
    "date": _constructor.construct_yaml_timestamp,
}


class ScalarError(ValueError):
    """An unquoted value that looks like a number or date to YAML and is none."""


def resolve(text: str) -> tuple[Kind, Any]:
    """Return what an unquoted *text* is, and its Python value.

    Raises:
        ScalarError: if it has the form of a number or a date and no usable value.
    """
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], [])
    for tag, pattern in resolvers:
        kind = _KINDS.get(tag)
        if kind is None or not pattern.match(text):
            continue
        if kind == "null":
            return kind, None
        if len(text) > _LONGEST_NUMBER:
            raise ScalarError("is a number too long to be one")
        try:
            value = _make[kind](yaml.ScalarNode(tag, text))
        except (ValueError, OverflowError, IndexError) as error:
            raise ScalarError("looks like a date and is none" if kind == "date" else "is a broken number") from error
        if kind == "int" and not -_MAX_INTEGER <= value < _MAX_INTEGER:
            raise ScalarError("is a whole number beyond 64 bits")
        return kind, value
    return "text", text


def reading(node: ScalarNode) -> str:
    r"""Describe how YAML reads *node*: ``\`1.10\` as the number 1.1``."""
    written = f"`{shown(node.text)}`"
    match node.kind:
        case "null":
            return "no value at all" if not node.text else f"{written} as no value at all"
        case "bool":
            return f"{written} as the boolean {str(node.value).lower()}"
        case "int" | "float":
            number = str(node.value)
            return f"{written} as a number" if number == node.text else f"{written} as the number {number}"
        case "date":
            return f"{written} as a date"
        case _:
            return f"{written} as text"


def surprise(node: ScalarNode) -> str | None:
    """Return why an unquoted value probably means another one; None if it is clear."""
    text = node.text.lstrip("+-")
    if node.kind in ("int", "float") and ":" in text:
        return f"YAML reads {reading(node)}, in base 60"
    if node.kind == "int" and re.fullmatch(r"0[0-7_]+", text):
        return f"YAML reads {reading(node)}, in base 8"
    if node.kind == "float" and not math.isfinite(node.value):
        return f"`{node.text}` is no finite number"
    if node.kind == "bool" and node.text.lower() not in ("true", "false"):
        return f"YAML reads {reading(node)}"
    return None
