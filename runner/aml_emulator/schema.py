"""The types of request bodies: JSON within limits. Pure.

A handler gets its body from `aml_emulator.api.routing.Call.json` alone, and names the types of the fields that it reads; a body
with another type is the client's mistake, which is answered with 400. Null is taken for a field that was not sent; fields
that a handler does not name are left alone.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_DEPTH = 100
"""Levels of lists and objects. Clients send ten at most; the interpreter would fail at some hundreds."""

LARGEST = 2**63 - 1
"""The range of whole numbers in SQLite, .NET and protobuf."""

LAST_MILLISECOND = 253_402_300_799_999
"""The end of the year 9999, in milliseconds since the epoch: the last time that ISO 8601 writes with four digits."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


class BodyError(ValueError):
    """A body that is not what its route takes; the message names the field."""


class Shape(ABC):
    """The type of a field."""

    @abstractmethod
    def check(self, value: Any, where: str) -> None:
        """Return if *value*, which is not null, is of this type.

        Raises:
            BodyError: it is not; the message begins with *where*.
        """


@dataclass(frozen=True, kw_only=True)
class _Plain(Shape):
    """A value of one of some types. True and false are no numbers."""

    types: tuple[type, ...]

    def check(self, value: Any, where: str) -> None:
        if type(value) not in self.types:
            raise _wrong(where, " or ".join(_NAMES[one] for one in self.types), value)


@dataclass(frozen=True, kw_only=True)
class Whole(Shape):
    """A whole number, also as text, which is how protobuf's JSON has those of 64 bits."""

    low: int = -LARGEST - 1
    high: int = LARGEST

    def check(self, value: Any, where: str) -> None:
        if (isinstance(value, str) and _WHOLE.fullmatch(value)) or (isinstance(value, float) and value.is_integer()):
            value = int(value)
        if type(value) is not int:
            raise _wrong(where, _NAMES[int], value)
        if not self.low <= value <= self.high:
            raise BodyError(f"{where}: a number from {self.low} to {self.high} is expected, not {value}")


@dataclass(frozen=True, kw_only=True)
class _Number(Shape):
    """A number, also as text, such as ``NaN``."""

    def check(self, value: Any, where: str) -> None:
        if type(value) is str:
            try:
                value = float(value)
            except ValueError:
                raise _wrong(where, _NAMES[float], value) from None
        if type(value) not in (int, float):
            raise _wrong(where, _NAMES[float], value)


@dataclass(frozen=True)
class ListOf(Shape):
    """A list, whose items are not null."""

    item: Shape

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, list):
            raise _wrong(where, _NAMES[list], value)
        for number, item in enumerate(value):
            _check_given(self.item, item, f"{where}[{number}]")


@dataclass(frozen=True)
class MapOf(Shape):
    """An object with any names; its values may be null."""

    item: Shape

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, _NAMES[dict], value)
        for name, item in value.items():
            if item is not None:
                self.item.check(item, _joined(where, name))


@dataclass(frozen=True)
class Fields(Shape):
    """An object with some fields of known types, of which *required* are there."""

    fields: Mapping[str, Shape] = field(default_factory=dict)
    required: tuple[str, ...] = ()

    def check(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, _NAMES[dict], value)
        for name in self.required:
            if value.get(name) is None:
                raise BodyError(f"{_joined(where, name)}: it is missing")
        for name, shape in self.fields.items():
            if value.get(name) is not None:
                shape.check(value[name], _joined(where, name))


@dataclass(frozen=True)
class Either(Shape):
    """A value of one of two types."""

    first: Shape
    second: Shape

    def check(self, value: Any, where: str) -> None:
        try:
            self.first.check(value, where)
        except BodyError:
            self.second.check(value, where)


@dataclass(frozen=True)
class Tree(Shape):
    """A tree: an object whose field *children* holds objects of the same kind."""

    fields: Mapping[str, Shape]
    children: str

    def check(self, value: Any, where: str) -> None:
        Fields(self.fields).check(value, where)
        below = value.get(self.children)
        if below is not None:
            MapOf(Fields()).check(below, _joined(where, self.children))
            for name, child in below.items():
                _check_given(self, child, _joined(where, f"{self.children}.{name}"))


ANYTHING = _Plain(types=tuple(_NAMES))
TEXT = _Plain(types=(str,))
FLAG = _Plain(types=(bool,))
WORD = _Plain(types=(str, int, float, bool))
"""A value that is stored as text, whether a client sends it as text or not."""

LIST = _Plain(types=(list,))
OBJECT = _Plain(types=(dict,))
WHOLE = Whole()
MILLISECONDS = Whole(low=0, high=LAST_MILLISECOND)
NUMBER = _Number()
WORDS = MapOf(WORD)
"""Tags and properties."""


def read_json(data: bytes, *, not_finite: bool = False) -> Any:
    """Return what a body holds.

    Args:
        data: the body; not empty.
        not_finite: whether NaN and infinite numbers may be in it, which JSON has not and Python's clients send.

    Raises:
        BodyError: it is not JSON, or beyond what any client sends.
    """
    try:
        value = json.loads(
            data,
            parse_int=_integer,
            parse_float=float if not_finite else _finite,
            parse_constant=float if not_finite else _refuse_constant,
        )
    except BodyError:
        raise
    except (ValueError, RecursionError) as error:
        raise BodyError(f"The request's body is not JSON: {error}") from error
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH or b"\\u" in data:
        _check_tree(value)
    return value


def check(shape: Shape, value: Any) -> None:
    """Return if a body is of its route's type.

    Raises:
        BodyError: it is not; the message names the field.
    """
    _check_given(shape, value, "")


def _check_given(shape: Shape, value: Any, where: str) -> None:
    if value is None:
        raise BodyError(f"{where or 'The body'}: it is null")
    shape.check(value, where)


def _check_tree(value: Any) -> None:
    """Refuse too many levels, and text that is no Unicode: halves of surrogate pairs."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [below for one in level for below in _below(one)]
        if not level:
            return
    raise BodyError(f"The request's body has more than {MAX_DEPTH} levels.")


def _below(value: Any) -> Iterator[Any]:
    """Yield what is in a value, after its own text was checked."""
    texts = [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []
    if any(_SURROGATE.search(text) for text in texts):
        raise BodyError("The request's body has half of a surrogate pair, which is no text.")
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) > LARGEST:
        raise BodyError(f"The request's body has a whole number of more than 64 bits: {text[:24]}")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BodyError(f"The request's body has a number that is too large: {text[:24]}")
    return value


def _refuse_constant(text: str) -> float:
    raise BodyError(f"The request's body is not JSON: {text}")


def _joined(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _wrong(where: str, expected: str, value: Any) -> BodyError:
    found = "null" if value is None else _NAMES[type(value)]
    return BodyError(f"{where or 'The body'}: {expected} is expected, not {found}")
