"""JSON with comments and trailing commas: read it, and change values in its text.

A change replaces the characters of a value, or adds a member; every other character stays as it was, comments and order
included. The grammar is that of VS Code's files: JSON, ``//`` and ``/* */``, and a comma after the last member. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

_COMMENT: Final = r"//[^\r\n]*+|/\*.*?\*/"
_TOKEN: Final = re.compile(rf'"(?:[^"\\]|\\.)*+"|{_COMMENT}|,(?=(?:\s++|{_COMMENT})*+[}}\]])|^\ufeff', re.DOTALL)
_NAME: Final = re.compile(r'\s*,?\s*("(?:[^"\\]|\\.)*+")\s*:\s*', re.DOTALL)


class JsoncError(ValueError):
    """The text is no JSON with comments; the message names the line."""


def parse_jsonc(text: str) -> Any:
    """Return the value of *text*.

    Raises:
        JsoncError: it is no JSON with comments.
    """
    try:
        return json.loads(_blanked(text))
    except json.JSONDecodeError as error:
        raise JsoncError(f"line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise JsoncError("it is nested too deeply") from error


def change_jsonc(text: str, changes: Mapping[Sequence[str], Any]) -> str:
    """Return *text* with values changed, and missing ones added.

    Args:
        text: an object.
        changes: path of names → value. Objects on the path are made if they are missing.

    Raises:
        JsoncError: the text is no JSON with comments, or a path leads through a value that is no object.
    """
    for path, value in changes.items():
        if not isinstance(parse_jsonc(text), dict):
            raise JsoncError("it is no object")
        text = _change(text, tuple(path), value)
    return text


def _blanked(text: str) -> str:
    """Return *text* with spaces in place of what JSON has not, so that all else stays in its place."""
    return _TOKEN.sub(lambda one: one[0] if one[0][0] == '"' else re.sub(r"[^\r\n]", " ", one[0]), text)


def _change(text: str, path: tuple[str, ...], value: Any) -> str:
    plain = _blanked(text)
    start = plain.index("{")
    for depth, name in enumerate(path):
        members = _members(plain, start)
        if name not in members:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _added(text, start, members, name, value)
        start, end = members[name]
        if depth + 1 < len(path) and plain[start] != "{":
            raise JsoncError(f"`{'.'.join(path[: depth + 1])}` is no object")
    old = json.loads(plain[start:end])
    if old == value and type(old) is type(value):
        return text
    line_end = ("\r\n" if "\r\n" in text else "\n") + _indent(text, start)
    return text[:start] + _dumped(value, line_end) + text[end:]


def _members(plain: str, start: int) -> dict[str, tuple[int, int]]:
    """Return where the values of the object at *start* begin and end, by their names."""
    members, at = {}, start + 1
    while (name := _NAME.match(plain, at)) is not None:
        _, at = json.JSONDecoder().raw_decode(plain, name.end())
        members[str(json.loads(name[1]))] = name.end(), at
    return members


def _added(text: str, start: int, members: Mapping[str, object], name: str, value: Any) -> str:
    """Return *text* with a new first member of the object at *start*."""
    outer, rest = _indent(text, start), text[start + 1 :]
    own_lines = not members or re.match(r"[ \t]*[\r\n]", rest)
    inner = re.search(r"[\r\n]([ \t]*)\S", rest)
    indent = inner[1] if members and inner else f"{outer}  "
    line_end = "\r\n" if "\r\n" in text else "\n"
    lead, comma = line_end + indent if own_lines else "", "," if own_lines else ", "
    member = f"{json.dumps(name, ensure_ascii=False)}: {_dumped(value, line_end + indent)}"
    after = comma if members else "" if re.match(r"[^}]*[\r\n]", rest) else line_end + outer
    return f"{text[: start + 1]}{lead}{member}{after}{rest}"


def _dumped(value: Any, line_end: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", line_end)


def _indent(text: str, place: int) -> str:
    """Return the white space that the line of *place* begins with."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]
