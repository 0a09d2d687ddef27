"""Workflow commands for GitHub's runner, and text that cannot act as one.

The runner obeys commands that it reads on standard output.
Source: actions/runner, ``ActionCommand.cs`` (escaping, syntax) and ``ActionCommandManager.cs`` (stop-commands); the
older ``##[command]`` syntax is obeyed anywhere in a line, ``::command::`` only at its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from aml_train.core.text import lines_of

Level = Literal["error", "warning", "notice"]

#: The runner shows this many annotations of each level for one step.
ANNOTATIONS_SHOWN: Final = 10


def escape_data(text: str) -> str:
    """Return *text* escaped as the data of a command."""
    # `%` first, so that nothing is escaped twice.
    return _encodable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def escape_property(text: str) -> str:
    """Return *text* as the value of a command's property."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def _encodable(text: str) -> str:
    """Return *text* without NUL and lone surrogates, which no UTF-8 stream may hold."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\N{SYMBOL FOR NULL}")


def command(name: str, data: str = "", properties: Mapping[str, str] | None = None) -> str:
    """Return the line of a command without line end; empty properties are omitted."""
    given = ",".join(f"{key}={escape_property(value)}" for key, value in (properties or {}).items() if value)
    return f"::{name}{' ' + given if given else ''}::{escape_data(data)}"


def annotation(
    level: Level, message: str, *, file: str | None = None, line: int | None = None, title: str | None = None
) -> str:
    """Return the line that makes an annotation.

    Args:
        level: how it is shown.
        message: the text; may have several lines.
        file: path relative to the repository's root.
        line: one-based.
        title: shown in bold.
    """
    properties = {"file": file or "", "line": str(line) if file and line else "", "title": title or ""}
    return command(level, message, properties)


def harmless_lines(lines: Sequence[str]) -> list[str]:
    """Return the harmless lines of each of *lines*."""
    return [one for line in lines for one in lines_of(line)]


def pieces(text: str, size: int) -> Iterator[str]:
    """Yield *text* in pieces of at most *size* characters; at least one."""
    for start in range(0, max(len(text), 1), size):
        yield text[start : start + size]
