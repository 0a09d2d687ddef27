"""The generated pages and pictures are those that the code makes now; the parts that make them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.docs import recording, reference

ROOT = Path(__file__).parents[3]
PAGES = reference.generated(ROOT)


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_a_generated_page_is_what_the_code_says(path: Path) -> None:
    written = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""
    assert written == PAGES[path], f"{path} is old: run `.venv/bin/python -m scripts.docs write`"


RECORDINGS = sorted((ROOT / "docs/recordings").glob("*.ansi"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_picture_shows_its_recording(path: Path) -> None:
    picture = path.with_suffix(".svg").read_text(encoding="utf-8")
    assert picture == recording.drawn(path), "run `.venv/bin/python -m scripts.docs write`"
    # GitHub shows no picture that loads something from another site. An address may be part of the text.
    assert not re.search(r"\b(?:href|src)=|@import|url\([^#)]", picture)
