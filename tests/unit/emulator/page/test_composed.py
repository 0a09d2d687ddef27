"""The pages of pipelines, sweeps and their children."""

from __future__ import annotations

import json
import re
from typing import Any

from aml_emulator.domain.jobs.pipelines.runs import node_run_id
from aml_emulator.page.view import link
from tests.unit.emulator.page.test_page import HOSTILE, Browser
from tests.unit.emulator.played_pipelines import FOLDER, NODE, Pipelines, literal
from tests.unit.emulator.played_sweeps import Sweeps


def graph(pipelines: Pipelines) -> dict[str, Any]:
    """Return prep → train, and a node that waits for train."""
    prep = pipelines.component("prep", outputs={"clean": FOLDER})
    train = pipelines.component("train", inputs={"data": FOLDER}, outputs={"model": FOLDER})
    jobs = {
        "prep": {**NODE, "componentId": prep, "display_name": HOSTILE},
        "train": {
            **NODE,
            "componentId": train,
            "inputs": {"data": literal("${{parent.jobs.prep.outputs.clean}}")},
        },
        "again": {
            **NODE,
            "componentId": train,
            "inputs": {"data": literal("${{parent.jobs.train.outputs.model}}")},
        },
    }
    return {"jobs": jobs, "settings": {"default_compute": "local-cluster"}, "displayName": HOSTILE}


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


def test_a_reused_node_shows_what_it_reuses(pipelines: Pipelines) -> None:
    given = graph(pipelines)
    pipelines.put("first", **given)
    folder = pipelines.services.artifacts_of(node_run_id("first", "prep"))
    pipelines.blobs.append(folder.container, folder.name_of("user_logs/std_log.txt"), b"prepared 7 rows\n")
    pipelines.store.runs.add_artifact(node_run_id("first", "prep"), "user_logs/std_log.txt", size=16, log=True)
    for node in ("prep", "train", "again"):
        pipelines.end("first", node)
    pipelines.put("second", **given)
    browser = Browser(pipelines)
    browser.site = type(browser.site)(pipelines.services)
    page = browser.text("/ui/runs/second")
    first, second = node_run_id("first", "prep"), node_run_id("second", "prep")
    assert children(page)[0][2] == f"reuses {first}"
    node = browser.text(f"/ui/runs/{second}")
    assert "prepared 7 rows" in node
    assert f'<dt>Reuses</dt><dd><a class="mono" href="{link("runs", first)}">' in node
    assert f'<dt>Part of</dt><dd><a href="{link("runs", "second")}">' in node
    log = browser.text(f"/ui/runs/{second}/log.txt?path=user_logs/std_log.txt")
    assert log == "prepared 7 rows\n"


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


def test_the_list_of_runs_leaves_trials_out_unless_they_are_asked_for(sweeps: Sweeps) -> None:
    trained(sweeps)
    browser = Browser(sweeps)

    def listed(query: str) -> set[str]:
        return set(re.findall(r'<th scope="row"><a href="/ui/runs/([^"]+)"', browser.text(f"/ui/{query}")))

    assert listed("") == {"s"}
    assert listed("?children=yes") == {"s", "s_0", "s_1", "s_2", "s_3"}
    assert listed("?text=s_1") == {"s_1"}
    assert listed("?status=Failed") == set()
