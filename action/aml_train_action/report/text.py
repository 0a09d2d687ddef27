"""Foreign text made harmless: what a log, a name or a message may hold, and what of it is shown. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from aml_train.core.text import is_plain

#: Colours and other styles (ECMA-48 "select graphic rendition"): they carry no text.
_STYLE: Final = re.compile(r"\x1b\[[0-9;:]*m")
#: Control characters but the tab, line separators of Unicode, characters that turn or hide text, lone surrogates.
_UNSAFE: Final = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
#: Where the runner begins a new line: .NET's StreamReader.ReadLine knows \r, \n and \r\n.
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)  # the block "Control Pictures" has one for each
    return "␡" if code == 0x7F else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def harmless(text: str) -> str:
    """Return *text* as one line without control characters: each is replaced by a visible sign, styles are dropped."""
    return _UNSAFE.sub(_visible, _STYLE.sub("", text))


def lines_of(text: str) -> list[str]:
    """Return the harmless lines of *text*, split wherever the runner would split it."""
    return [harmless(line) for line in _LINE_END.split(text)]


def harmless_lines(lines: Sequence[str]) -> list[str]:
    """Return the harmless lines of each of *lines*; quick where there is nothing to be done, as mostly."""
    if is_plain("\n".join(lines)):
        return list(lines)
    return [one for line in lines for one in lines_of(line)]


def pieces(text: str, size: int) -> Iterator[str]:
    """Yield *text* in pieces of at most *size* characters; an empty text is one empty piece."""
    for start in range(0, max(len(text), 1), size):
        yield text[start : start + size]
