"""Pictures of the local AzureML's page, from an emulator with generated runs."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

FOLDER: Final = Path("docs/screenshots")
RUNS: Final = 60
COMPARED: Final = 5
WIDTH: Final = 1280
HEIGHT: Final = 800
_QUERY: Final = "metric=val/accuracy&metric=val/loss&sort=metric.val/accuracy&order=desc"


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
        page.locator("figure").first.wait_for()
        page.screenshot(path=pictures / "compare.png")
        page.goto(f"{base}runs/{names[0]}")
        page.screenshot(path=pictures / "run.png")
        opened.close()
