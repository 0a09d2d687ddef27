"""JSON with comments and trailing commas: read it, and change values in its text.

A change replaces the characters of a value, or adds a member; every other character stays as it was, comments and order
included. The grammar is that of VS Code's files: JSON, ``//`` and ``/* */``, and a comma after the last member. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_BLANK: Final = re.compile(r"(?:[ \t\r\n\ufeff]++|//[^\r\n]*+|/\*.*?\*/)*+", re.DOTALL)
_LINE_END: Final = re.compile(r"(?:[ \t]++|/\*[^\r\n]*?\*/)*+(?://[^\r\n]*+)?(?=[\r\n])")
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORD: Final = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")
_MOST_DEPTH: Final = 100


class JsoncError(ValueError):
    """The text is no JSON with comments; the message names the line."""


@dataclass(frozen=True, kw_only=True)
class _Node:
    """A value and its place in the text.

    Attributes:
        members: of an object; None for other values.
        comma: the place after the comma that follows the last member, if there is one.
    """

    start: int
    end: int
    value: Any
    members: Mapping[str, _Node] | None = field(default=None)
    comma: int | None = None


def parse_jsonc(text: str) -> Any:
    """Return the value of *text*.

    Raises:
        JsoncError: it is no JSON with comments, or has a name twice in one object.
    """
    return _read(text).value


def change_jsonc(text: str, changes: Mapping[Sequence[str], Any]) -> str:
    """Return *text* with values changed, and missing ones added.

    Args:
        text: an object.
        changes: path of names → value. Objects on the path are made if they are missing.

    Raises:
        JsoncError: the text is no JSON with comments, or a path leads through a value that is no object.
    """
    for path, value in changes.items():
        text = _change(text, tuple(path), value)
    return text


def _change(text: str, path: tuple[str, ...], value: Any) -> str:
    node = _read(text)
    for depth, name in enumerate(path):
        if node.members is None:
            raise JsoncError(f"{_where(text, node.start)}: `{'.'.join(path[:depth])}` is no object")
        if name not in node.members:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _added(text, node, name, value)
        node = node.members[name]
    if node.value == value and type(node.value) is type(value):
        return text
    return text[: node.start] + _dumped(value, _indent(text, node.start), text) + text[node.end :]


def _added(text: str, node: _Node, name: str, value: Any) -> str:
    """Return *text* with a new last member of an object."""
    members = list((node.members or {}).values())
    outer = _indent(text, node.start)
    newline = _newline(text)
    if not members:
        inner = outer + "  "
        place = node.start + 1
        body = text[place : node.end - 1]
        after = "" if "\n" in body else newline + outer
        return f"{text[:place]}{newline}{inner}{_member(name, value, inner, text)}{after}{text[place:]}"
    last = members[-1]
    if "\n" not in text[node.start : last.start]:  # all in one line
        end, comma = (node.comma, " ") if node.comma is not None else (last.end, ", ")
        return f"{text[:end]}{comma}{_member(name, value, outer, text)}{text[end:]}"
    inner = _indent(text, last.start)
    rest = text[last.end :] if node.comma is None else text[node.comma :]
    before = f"{text[: last.end]}," if node.comma is None else text[: node.comma]
    same_line = _LINE_END.match(rest)  # a comment behind the last member stays with it
    comment, rest = (rest[: same_line.end()], rest[same_line.end() :]) if same_line else ("", rest)
    trailing = "," if node.comma is not None else ""
    line = f"{newline}{inner}{_member(name, value, inner, text)}{trailing}"
    return f"{before}{comment}{line}{rest if same_line else newline + outer + rest.lstrip()}"


def _member(name: str, value: Any, indent: str, text: str) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}: {_dumped(value, indent, text)}"


def _dumped(value: Any, indent: str, text: str) -> str:
    lines = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent(text: str, place: int) -> str:
    """Return the white space that the line of *place* begins with."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


def _where(text: str, place: int) -> str:
    return f"line {text.count(chr(10), 0, place) + 1}"


def _read(text: str) -> _Node:
    place = _skipped(text, 0)
    node = _value(text, place, 0)
    end = _skipped(text, node.end)
    if end != len(text):
        raise JsoncError(f"{_where(text, end)}: there is more after the value")
    return node


def _skipped(text: str, place: int) -> int:
    """Return the first place from *place* on that is no white space and no comment."""
    found = _BLANK.match(text, place)
    return found.end() if found is not None else place


def _value(text: str, place: int, depth: int) -> _Node:
    if depth > _MOST_DEPTH:
        raise JsoncError(f"{_where(text, place)}: it is nested more than {_MOST_DEPTH} levels deep")
    if text[place : place + 1] == "{":
        return _object(text, place, depth)
    if text[place : place + 1] == "[":
        items, end, _ = _items(text, place, "]", lambda at: _value(text, at, depth + 1))
        return _Node(start=place, end=end, value=[item.value for item in items])
    found = _STRING.match(text, place) or _WORD.match(text, place)
    if found is None:
        raise JsoncError(f"{_where(text, place)}: a value is expected")
    return _Node(start=place, end=found.end(), value=_literal(text, found))


def _literal(text: str, found: re.Match[str]) -> Any:
    try:
        return json.loads(found[0])
    except ValueError:
        raise JsoncError(f"{_where(text, found.start())}: `{found[0][:40]}` is no value") from None


def _object(text: str, place: int, depth: int) -> _Node:
    members: dict[str, _Node] = {}

    def member(at: int) -> _Node:
        name = _STRING.match(text, at)
        if name is None:
            raise JsoncError(f"{_where(text, at)}: a name in quotes is expected")
        key = str(_literal(text, name))
        if key in members:
            raise JsoncError(f"{_where(text, at)}: the name `{key}` is there twice")
        colon = _skipped(text, name.end())
        if text[colon : colon + 1] != ":":
            raise JsoncError(f"{_where(text, colon)}: a colon is expected after `{key}`")
        members[key] = _value(text, _skipped(text, colon + 1), depth + 1)
        return members[key]

    _, end, comma = _items(text, place, "}", member)
    values = {name: node.value for name, node in members.items()}
    return _Node(start=place, end=end, value=values, members=members, comma=comma)


def _items(text: str, place: int, close: str, item: Callable[[int], _Node]) -> tuple[list[_Node], int, int | None]:
    """Read what is between brackets: items, the place after, that after a last comma."""
    items: list[_Node] = []
    comma: int | None = None
    at = _skipped(text, place + 1)
    while text[at : at + 1] != close:
        if items and comma is None:
            raise JsoncError(f"{_where(text, at)}: a comma or `{close}` is expected")
        items.append(item(at))
        comma = None
        at = _skipped(text, items[-1].end)
        if text[at : at + 1] == ",":
            comma = at + 1
            at = _skipped(text, comma)
    return items, at + 1, comma
