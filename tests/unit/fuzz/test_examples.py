"""Inputs on which a parser failed once: python -m fuzz wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.limits import bounded
from fuzz.storage import EXAMPLES, decode
from fuzz.target import load

FILES = sorted(path for path in EXAMPLES.glob("*/*") if path.suffix in (".txt", ".json"))
#: Loaded before the guards of unit tests.
TARGETS = {name: load(name) for name in sorted({path.parent.name for path in FILES})}


def test_there_are_examples() -> None:
    assert FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_what_failed_once_is_read(file: Path) -> None:
    target = TARGETS[file.parent.name]
    bounded(target.check, decode(file.read_bytes(), target.kind))
