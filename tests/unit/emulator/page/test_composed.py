"""The pages of pipelines, sweeps and their children."""

from __future__ import annotations

import json
import re

from tests.unit.emulator.page.test_page import Browser
from tests.unit.emulator.played_sweeps import Sweeps


def rows(page: str) -> list[list[str]]:
    """Return the cells of the rows of a page's tables, as text."""
    found = []
    for row in re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL):
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        found.append([re.sub(r"<[^>]+>", "", cell).strip() for cell in cells])
    return found


def children(page: str) -> list[list[str]]:
    """Return the rows of the table of children."""
    table = page[page.index('id="children"') :]
    return rows(table[: table.index("</section>")])[1:]


def trained(sweeps: Sweeps) -> None:
    """Run a sweep of four trials; the second has the best value, and the last one none."""
    sweeps.put("s", limits={"maxTotalTrials": 4, "maxConcurrentTrials": 4}, displayName="my sweep")
    for number, value in enumerate((0.5, 0.9, 0.7)):
        sweeps.log(f"s_{number}", 0.1, value)
    for number in range(4):
        sweeps.end(f"s_{number}", "Failed" if number == 3 else "Completed")


def test_a_sweep_shows_its_trials_and_marks_the_best(sweeps: Sweeps) -> None:
    trained(sweeps)
    page = Browser(sweeps).text("/ui/runs/s")
    body = children(page)
    assert ["best" in row[0] for row in body] == [False, True, False, False]
    assert [row[1] for row in body] == ["Completed", "Completed", "Completed", "Failed"]
    assert [row[2] for row in body] == ["0.5", "0.9", "0.7", "—"]
    values = json.loads(sweeps.store.runs.require("s_1").properties["hyperparameters"])
    assert body[1][3] == f"lr = {values['lr']}, k = {values['k']}"
