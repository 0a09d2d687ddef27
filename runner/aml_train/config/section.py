"""Sections of aml-train.yml: frozen dataclasses whose fields have a grammar.

A field that is declared with :func:`key` is a key of the file: the field's name with ``-`` for ``_``, the shape that its
value is checked against, its line in docs/configuration.md, and its default. :func:`record` returns the grammar of a
section, :func:`make` builds the section from checked values. To add a key, add a field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast, dataclass_transform

import pathspec

from aml_train.config.yaml.nodes import Faults, MapNode, Mark, find, place, shown, value_mark
from aml_train.config.yaml.shapes import Shape, Text, Variable
from aml_train.config.yaml.source import absolute, kind_of
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table

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


T = TypeVar("T")


def key(
    shape: Shape,
    text: str,
    *,
    default: Any = MISSING,
    factory: Callable[[], Any] | None = None,
    name: str = "",
    required: bool = True,
    rendered: bool = False,
) -> Any:
    """Declare a field that is a key of the file.

    Args:
        shape: what its value must look like.
        text: its line in docs/configuration.md.
        default: the value without the key; the key is required if there is neither this nor *factory*.
        factory: makes the default.
        name: the key's name, if it is not the field's.
        required: False for a field without default whose value is derived if the key is missing.
        rendered: the value goes into the Dockerfile that aml-train renders.
    """
    needed = required and default is MISSING and factory is None
    metadata = {"key": Key(shape, text, required=needed), "name": name, "rendered": rendered}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(key, field))
def section(cls: type[T]) -> type[T]:
    """Make a class a section: a frozen dataclass with keyword arguments."""
    return dataclass(frozen=True, kw_only=True)(cls)


def _keyed(cls: type) -> dict[str, Any]:
    """Return the fields that are keys, by the key's name."""
    return {
        one.metadata["name"] or one.name.replace("_", "-"): one
        for one in fields(cast("Any", cls))
        if "key" in one.metadata
    }


def keys_of(cls: type) -> dict[str, Key]:
    """Return the grammar of a section's keys, by their names."""
    return {name: one.metadata["key"] for name, one in _keyed(cls).items()}


def rendered_keys(cls: type) -> frozenset[str]:
    """Return the keys whose values go into the rendered Dockerfile."""
    return frozenset(name for name, one in _keyed(cls).items() if one.metadata["rendered"])


def record(cls: type, *, noun: str, one_of: tuple[str, ...] = (), hints: Mapping[str, str] | None = None) -> Record:
    """Return the grammar of a section."""
    return Record(noun=noun, keys=keys_of(cls), one_of=one_of, hints=hints or {}, section=cls)


def make(cls: type[T], values: Mapping[str, Any], /, **others: Any) -> T:
    """Build a section.

    Args:
        cls: its class.
        values: the checked values of its keys; a single value of a field whose default is a tuple becomes a tuple.
        others: fields that are no keys, or whose values need more than the grammar.
    """
    found: dict[str, Any] = {}
    for name, one in _keyed(cls).items():
        if name in values and one.name not in others:
            value = _made(one.metadata["key"].shape, values[name])
            if isinstance(one.default, tuple):
                value = tuple(value) if isinstance(value, list | tuple) else (value,)
            found[one.name] = value
        elif one.metadata["key"].required:
            found[one.name] = None  # its absence is a fault
    return cls(**{**found, **others})


def _made(shape: Shape, value: Any) -> Any:
    """Return a checked value with the sections in it as dataclasses."""
    if isinstance(shape, Either):
        parts = shape.keys if isinstance(value, dict) else shape.items if isinstance(value, list | tuple) else None
        return value if parts is None else _made(parts, value)
    if isinstance(shape, Record) and shape.section is not None:
        return make(shape.section, value)
    if isinstance(shape, Items):
        return [_made(shape.item, one) for one in value]
    if isinstance(shape, Table):
        return {name: _made(shape.value, one) for name, one in value.items()}
    return value


@dataclass(frozen=True, kw_only=True)
class CheckedTree:
    """An aml-train.yml with a checked grammar, from which the sections are made.

    Attributes:
        tree: the file.
        values: its checked values; a value with a fault is missing.
        directory: the project folder, absolute.
        faults: takes faults that concern several keys.
        at: the keys of the part that is read; the keys of all methods start there.
    """

    tree: MapNode
    values: Mapping[str, Any]
    directory: Path
    faults: Faults
    at: tuple[str, ...] = ()

    def within(self, *keys: str) -> CheckedTree:
        """Return a part of the file."""
        return replace(self, at=(*self.at, *keys))

    def has(self, *keys: str) -> bool:
        """Return whether the file has the key, with or without a fault."""
        return find(self.tree, *self.at, *keys) is not None

    def section(self, name: str) -> Mapping[str, Any]:
        """Return the checked values of a section; empty if it is missing."""
        return self.values.get(name) or {}

    def place(self, *keys: str) -> Mark:
        """Return the place of the last of *keys* that exists."""
        return place(self.tree, *self.at, *keys)

    def mark(self, *keys: str) -> Mark:
        """Return the place of a single value, or of the last of *keys* that exists."""
        return value_mark(self.tree, *self.at, *keys)

    def fault(self, what: str, *keys: str, why: str = "", remedy: str = "") -> None:
        """Add a fault at the place of a value, or of the last of *keys* that exists."""
        self.faults.add(self.mark(*keys), what, why=why, remedy=remedy)

    def path(
        self, text: str | None, *keys: str, item: str = "", kinds: tuple[str, ...] = ("file",), remedy: str = ""
    ) -> Path | None:
        """Return a path that the build needs, absolute; None without *text*.

        None also after a fault.

        Args:
            text: the path as it is written, relative to the project.
            keys: its keys, for faults.
            item: the rest of its name, such as ``.0.from``, if *keys* name a list.
            kinds: what it may be, ``file`` or ``folder``.
            remedy: what to write instead of a path that is neither.
        """
        if text is None:
            return None
        path = absolute(self.directory / text)
        what = f"`{'.'.join((*self.at, *keys))}{item}` names `{shown(text)}`"
        found, why = kind_of(path)
        if found not in kinds:
            remedy = remedy or f"name a {' or a '.join(kinds)}"
            self.fault(what, *keys, why=why or f"it is a {found}", remedy=remedy)
            return None
        if not path.resolve().is_relative_to(self.directory.resolve()):
            why = f"it is copied into the image from `{self.directory}`"
            remedy = f"move it into the project's {'folder' if 'file' in kinds else 'tree'}"
            self.fault(f"{what}, which is outside the project", *keys, why=why, remedy=remedy)
            return None
        return path
