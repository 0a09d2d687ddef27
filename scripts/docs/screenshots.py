"""Pictures of the local AzureML's page, from an emulator with generated runs.

docs/screenshots/sources.json has the digest of the files that the pictures show, and that of each picture. A test compares
both with what is present: after a change of the page, `python -m scripts.docs screenshots` takes them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path("docs/screenshots")
RECORD: Final = "sources.json"
SOURCES: Final = (
    "runner/aml_emulator/page/*.py",
    "runner/aml_emulator/page/templates/*",
    "runner/aml_emulator/page/static/**/*",
    "tests/support/page_runs.py",
    "scripts/docs/screenshots.py",
)
"""The files that the pictures show: templates, styles, scripts, and the generated runs."""

RUNS: Final = 60
COMPARED: Final = 5
WIDTH: Final = 1280
HEIGHT: Final = 800
_QUERY: Final = "sort=metrics.val/accuracy&order=desc&" + "&".join(
    f"column={name}"
    for name in (
        "metrics.val/accuracy",
        "metrics.val/loss",
        "params.learning_rate",
        "params.optimizer",
        "branch",
        "gate",
        "model",
        "stage",
        "duration",
    )
)


def take(root: Path) -> int:
    """Take all pictures; return 0, or 1 without a browser."""
    from scripts.bootstrap.probes import find_browser

    browser = find_browser(os.environ.get("AML_TRAIN_BROWSER"))
    if not browser:
        print(
            "Chromium is not installed: run `make bootstrap`, or set AML_TRAIN_BROWSER to a Chrome or Chromium",
            file=sys.stderr,
        )
        return 1
    (root / FOLDER).mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        _take(root / FOLDER, Path(folder), browser)
    names = sorted(path.name for path in (root / FOLDER).glob("*.png"))
    record = {"sources": sources(root), "pictures": {name: _digest(root / FOLDER / name) for name in names}}
    (root / FOLDER / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"{FOLDER}: {', '.join(names)}", file=sys.stderr)
    return 0


def _take(pictures: Path, folder: Path, browser: str) -> None:
    """Start an emulator over generated runs, and take the pictures of its pages."""
    from playwright.sync_api import sync_playwright

    from aml_emulator.store.store import Store
    from tests.support.emulator_process import Emulator, running
    from tests.support.page_runs import SteppingClock, fill

    emulator = Emulator(folder)
    emulator.start()
    emulator.stop()
    clock = SteppingClock()
    store = Store(folder / "data" / "store.db", clock=clock)
    fill(store, clock, RUNS)
    store.close()
    with running(emulator), sync_playwright() as playwright:
        # Chromium's sandbox needs rights that containers and root do not have; nothing foreign is opened here.
        opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", reduced_motion="reduce", locale="en-GB"
        )
        base = f"http://127.0.0.1:{emulator.port}/ui/"
        page.goto(f"{base}?{_QUERY}&experiment=digits")
        marks = page.locator("input[name=run]")
        names = [str(marks.nth(at).get_attribute("value")) for at in range(COMPARED)]
        for at in range(COMPARED):
            marks.nth(at).check()
        page.screenshot(path=pictures / "list.png")
        page.get_by_role("button", name="Compare").click()
        page.locator("figure .u-legend").first.wait_for()
        page.screenshot(path=pictures / "compare.png")
        page.goto(f"{base}runs/{names[0]}")
        page.screenshot(path=pictures / "run.png")
        opened.close()


def sources(root: Path) -> str:
    """Return the digest of the files that the pictures show, by path and content."""
    found = hashlib.sha256()
    for path in sorted({path for pattern in SOURCES for path in root.glob(pattern) if path.is_file()}):
        found.update(f"{path.relative_to(root).as_posix()} {_digest(path)}\n".encode())
    return found.hexdigest()


def stale(root: Path) -> Iterator[str]:
    """Yield what is wrong with the pictures: older than the page, other ones, missing."""
    folder = root / FOLDER
    record: Mapping[str, Any] = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    if record["sources"] != sources(root):
        yield f"{FOLDER} shows an earlier page: run `python -m scripts.docs screenshots`"
    present = {path.name: _digest(path) for path in folder.glob("*.png")}
    for name in sorted({*present, *record["pictures"]}):
        if present.get(name) != record["pictures"].get(name):
            yield f"{FOLDER / name} is not the picture that the command has taken"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
