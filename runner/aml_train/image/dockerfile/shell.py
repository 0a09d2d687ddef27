"""Text that is safe in a Dockerfile: words for the shell, values for ENV."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_PLAIN: Final = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def quote(word: str) -> str:
    """Quote *word* for the shell. Double quotes where it has single ones: linters do not parse ``'"'"'``.

    Raises:
        ValueError: if it has a line break or NUL.
    """
    check(word)
    if _PLAIN.fullmatch(word):
        return word
    if "'" not in word:
        return f"'{word}'"
    return '"' + re.sub(r'([\\"$`])', r"\\\1", word) + '"'


def words(items: Iterable[str], *, indent: str = "        ") -> str:
    """Return *items* quoted for the shell, one a line, the last without a continuation."""
    return " \\\n".join(f"{indent}{quote(item)}" for item in items)


def env_value(value: str) -> str:
    """Quote *value* for ENV: inside double quotes backslash, quote and dollar keep their plain meaning.

    Raises:
        ValueError: if it has a line break or NUL.
    """
    check(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def check(text: str) -> None:
    """Raise ValueError if *text* cannot stand in a Dockerfile."""
    if any(character in text for character in "\r\n\0"):
        raise ValueError(f"{text!r} has a line break or NUL, which a Dockerfile cannot carry")
