"""The pictures of the page are those that the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.docs import screenshots
from scripts.docs.screenshots import FOLDER

ROOT = Path(__file__).parents[3]


def test_without_a_browser_no_picture_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("scripts.bootstrap.probes.find_browser", lambda given: None)
    assert screenshots.take(tmp_path) == 1
    assert "Chromium is not installed" in capsys.readouterr().err


def test_the_page_has_the_pictures_that_there_are() -> None:
    shown = set(re.findall(r"\]\(screenshots/([^)]+)\)", (ROOT / "docs/emulator.md").read_text(encoding="utf-8")))
    assert shown == {path.name for path in (ROOT / FOLDER).glob("*.png")}
