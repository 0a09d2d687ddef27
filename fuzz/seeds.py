"""Valid inputs of this repository: examples, projects of tests, documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from fuzz.storage import ROOT

_BLOCK: Final = re.compile(r"^( *)```(?P<language>[a-z]+)[^\n]*\n(?P<text>.*?)^ *```", re.MULTILINE | re.DOTALL)


@cache
def files(*patterns: str) -> tuple[str, ...]:
    """Return the texts of the repository's files that match, by path."""
    found = {path for pattern in patterns for path in ROOT.glob(pattern) if path.is_file()}
    return tuple(path.read_text(encoding="utf-8") for path in sorted(found))


@cache
def blocks(language: str) -> tuple[str, ...]:
    """Return the code blocks of the documentation that are in *language*."""
    return tuple(_blocks(language))


def _blocks(language: str) -> Iterator[str]:
    for text in files("docs/**/*.md", "README.md", "examples/**/README.md"):
        for match in _BLOCK.finditer(text):
            if match["language"] == language:
                lines = match["text"].split("\n")
                yield "\n".join(line.removeprefix(match[1]) for line in lines)


@cache
def sections(path: str) -> dict[str, str]:
    """Return the cases of a test's table: ``=== name`` and the lines after it."""
    parts = re.split(r"(?m)^=== ", (ROOT / path).read_text(encoding="utf-8"))[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}
