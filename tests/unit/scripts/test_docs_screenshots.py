"""Pictures of the page are those of the present page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from scripts.docs import screenshots
from scripts.docs.screenshots import FOLDER, RECORD, SOURCES, sources, stale

ROOT = Path(__file__).parents[3]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a page and one picture of it."""
    for name in ("page/site.py", "page/templates/runs.html", "page/static/page.css", "page/static/vendor/uPlot.js"):
        path = tmp_path / "runner/aml_emulator" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    (folder / "list.png").write_bytes(b"picture")
    return tmp_path


def record(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the pictures without a browser."""
    monkeypatch.setattr("scripts.bootstrap.probes.find_browser", lambda given: "/bin/true")
    monkeypatch.setattr(screenshots, "_take", lambda pictures, folder, browser: None)
    assert screenshots.take(root) == 0


def test_pictures_are_fresh_until_the_page_changes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(root, monkeypatch)
    assert list(stale(root)) == []
    for name in ("site.py", "templates/runs.html", "static/page.css", "static/vendor/uPlot.js"):
        path = root / "runner/aml_emulator/page" / name
        before = path.read_text()
        path.write_text(f"{before} ")
        assert list(stale(root)) == [
            "docs/screenshots shows an earlier page: run `python -m scripts.docs screenshots`"
        ]
        path.write_text(before)
    path.rename(path.with_name("other.js"))
    assert len(list(stale(root))) == 1


def test_pictures_are_those_that_were_taken(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(root, monkeypatch)
    (root / FOLDER / "list.png").write_bytes(b"painted")
    (root / FOLDER / "more.png").write_bytes(b"more")
    assert [problem.split()[0] for problem in stale(root)] == [
        "docs/screenshots/list.png",
        "docs/screenshots/more.png",
    ]
    shutil.rmtree(root / FOLDER)
    (root / FOLDER).mkdir()
    (root / FOLDER / RECORD).write_text('{"sources": "", "pictures": {"list.png": "x"}}')
    assert len(list(stale(root))) == 2


def test_without_a_browser_nothing_is_recorded(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("scripts.bootstrap.probes.find_browser", lambda given: None)
    assert screenshots.take(root) == 1
    assert "Chromium is not installed" in capsys.readouterr().err
    assert not (root / FOLDER / RECORD).exists()


def test_the_pictures_show_the_present_page() -> None:
    assert list(stale(ROOT)) == []
    shown = set(re.findall(r"\]\(screenshots/([^)]+)\)", (ROOT / "docs/page.md").read_text(encoding="utf-8")))
    assert shown == {path.name for path in (ROOT / FOLDER).glob("*.png")}


@pytest.mark.parametrize("pattern", SOURCES)
def test_every_source_is_there(pattern: str) -> None:
    assert list(ROOT.glob(pattern))
    assert len(sources(ROOT)) == 64
