"""Pictures of the local AzureML's page, from an emulator with generated runs."""

from __future__ import annotations

import math
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Final

from aml_emulator.store.metrics import Metric
from aml_emulator.store.store import Store

FOLDER: Final = Path("docs/screenshots")
RUNS: Final = 60
COMPARED: Final = 5
WIDTH: Final = 1280
HEIGHT: Final = 800
_QUERY: Final = "metric=val/accuracy&metric=val/loss&sort=metric.val/accuracy&order=desc"
#: Of the first run, in seconds since the epoch; the others follow half an hour apart.
_BEGIN: Final = 1_793_000_000.0
_STEPS: Final = 60


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

    from tests.support.emulator_process import Emulator, running

    emulator = Emulator(folder)
    emulator.start()
    emulator.stop()
    fill(folder / "data" / "store.db")
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


def fill(database: Path) -> None:
    """Store runs that have ended, the same ones each time, with parameters, tags and curves."""
    chance, now = random.Random(20261120), _BEGIN  # noqa: S311 - the same runs each time
    store = Store(database, clock=lambda: now)
    for number in range(RUNS):
        now = _BEGIN + number * 1_800
        experiment = chance.choice(("digits", "digits", "forecast"))
        rate, depth, speed = 10 ** chance.uniform(-4, -1.5), chance.choice((2, 3, 4, 6)), chance.uniform(6, 14)
        reached = 0.99 - 0.05 * abs(math.log10(rate) + 2.7) - 0.01 * abs(depth - 4) - chance.uniform(0, 0.02)
        status = chance.choices(("Completed", "Failed", "Canceled"), (88, 8, 4))[0]
        gate = {"aml-train.gate": "passed" if reached > 0.93 else "failed"} if status == "Completed" else {}
        name = f"{experiment}-{chance.getrandbits(48):012x}"
        with store.transaction():
            store.runs.create(
                run_id=name,
                experiment_id=store.runs.ensure_experiment(experiment).id,
                display_name=f"{experiment} {number + 1}",
                status="Running",
                tags={"aml-train.branch": chance.choice(("main", "feature/augment")), **gate},
                properties={},
                job={
                    "jobType": "Command",
                    "command": f"python train.py --rate {rate:.6f} --depth {depth}",
                    "computeId": "/computes/local-cluster",
                    "environmentId": f"{experiment}:3",
                    "experimentName": experiment,
                },
                started=now + 20,
            )
            store.metrics.set_params(name, [("depth", str(depth)), ("learning_rate", f"{rate:.6f}")])
            for step in range(_STEPS):
                left, noise = math.exp(-step / speed), chance.gauss(0, 0.01)
                values = {
                    "val/accuracy": reached * (1 - 0.85 * left) + noise * 0.6,
                    "val/loss": 2.3 * left + 0.05 + abs(noise),
                }
                at = int(1000 * (now + 25 + step * 5))
                metrics = [Metric(key=key, value=value, timestamp=at, step=step) for key, value in values.items()]
                store.metrics.log(name, metrics)
            now += 40 + _STEPS * 5 + chance.uniform(0, 200)
            store.runs.finish(name, status, code="UserError" if status == "Failed" else None, exit_code=0)
    store.close()
