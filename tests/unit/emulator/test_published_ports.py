"""Examples and documentation publish ports on loopback: a port without an address is open to the whole network.

GitHub's runner hands the ports of a service to ``docker create -p`` as they are written (ContainerInfo.cs and
DockerCommandManager.cs of actions/runner), so that an address may be before them there as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("docs", "examples", "runner", ".github", "action")
NAMES = ("*.md", "*.yml", "*.yaml", "Dockerfile*", "*.sh")

_FLAG = re.compile(r"(?:-p|--publish)[ =]([^\s`]*\d+:\d+)")
_ITEM = re.compile(r"^\s*-\s+[\"']?((?:[\w.${}:\-\[\]]+:)?[\w${}:\-]*\d+\}?:\d+)[\"']?\s*$")


def published() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each published port."""
    files = [file for folder in FOLDERS for name in NAMES for file in (ROOT / folder).rglob(name)]
    for file in sorted({*files, *ROOT.glob("*.md")}):
        if "node_modules" in file.parts:
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            found = [*_FLAG.findall(line), *_ITEM.findall(line)]
            yield from ((f"{file.relative_to(ROOT)}:{number}", text) for text in found)


def test_every_published_port_is_on_loopback() -> None:
    found = list(published())
    assert len(found) >= 8, found
    assert [(place, text) for place, text in found if not text.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("line", ["docker run -p 7380:7380 x", "docker run --publish=7380:7380 x", '  - "7380:7380"'])
def test_one_that_is_not_is_found(line: str) -> None:
    assert [*_FLAG.findall(line), *_ITEM.findall(line)] == ["7380:7380"]
