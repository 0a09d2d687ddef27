"""The pages of pipelines, sweeps and their children."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from aml_emulator.domain.jobs.pipelines.runs import node_run_id
from aml_emulator.page.view import link
from tests.unit.emulator.page.test_page import HOSTILE, Browser
from tests.unit.emulator.played_pipelines import FOLDER, NODE, Pipelines, end_trial, literal, sweep_node, train
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


def test_a_pipeline_shows_its_graph_and_its_children(pipelines: Pipelines) -> None:
    pipelines.put("p", **graph(pipelines))
    pipelines.end("p", "prep")
    page = Browser(pipelines).text("/ui/runs/p")
    assert HOSTILE not in page
    drawing = page[page.index("<svg") : page.index("</svg>")]
    states = dict(re.findall(r'aria-label="(\w+): ([^"]+)"', drawing))
    assert states == {"prep": "Completed", "train": "Starting"}
    assert f'href="{link("runs", node_run_id("p", "train"))}"' in drawing
    assert "not begun" in drawing
    assert re.findall(r"<title>(\w+ → [^<]+)</title>", drawing) == [
        "prep → train: clean as data",
        "train → again: model as data",
    ]
    children = [row for row in rows(page) if len(row) == 5][1:]
    assert [(row[1], row[2]) for row in children] == [("Completed", "no"), ("Starting", "no")]
    assert children[1][0] == "train"


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
    assert page.count("Completed · reused") >= 3
    first, second = node_run_id("first", "prep"), node_run_id("second", "prep")
    assert [row[2] for row in rows(page) if len(row) == 5][1] == first
    node = browser.text(f"/ui/runs/{second}")
    assert "prepared 7 rows" in node
    assert f'<dt>Reuses</dt><dd><a class="mono" href="{link("runs", first)}">' in node
    assert f'<dt>Pipeline</dt><dd><a href="{link("runs", "second")}">' in node
    log = browser.text(f"/ui/runs/{second}/log.txt?path=user_logs/std_log.txt")
    assert log == "prepared 7 rows\n"
    assert "never began" not in page


def test_a_reused_sweep_shows_the_trials_of_the_earlier_one(pipelines: Pipelines) -> None:
    given = {"settings": {"default_compute": "local-cluster"}, "jobs": {"tune": sweep_node(train(pipelines))}}
    pipelines.put("first", **given)
    for number, loss in enumerate((0.5, 0.2, 0.9)):
        end_trial(pipelines, node_run_id("first", "tune"), number, loss)
    pipelines.put("second", **given)
    second = node_run_id("second", "tune")
    page = Browser(pipelines).text(f"/ui/runs/{second}")
    assert [row[:3] for row in trials(page, columns=5)[1:]] == [
        ["0", "Completed", "0.5"],
        ["1 ★ best", "Completed", "0.2"],
        ["2", "Completed", "0.9"],
    ]
    assert f'href="{link("runs", second, sort="metric", order="asc")}#trials"'.replace("&", "&amp;") in page


def test_a_pipeline_that_failed_shows_what_never_began(pipelines: Pipelines) -> None:
    pipelines.put("p", **graph(pipelines))
    pipelines.end("p", "prep", "Failed")
    page = Browser(pipelines).text("/ui/runs/p")
    assert page.count("never began") == 2
    assert 'class="node node-Failed"' in page


def trained(sweeps: Sweeps) -> None:
    """Run a sweep of four trials; the second has the best value, and the last one none."""
    sweeps.put("s", limits={"maxTotalTrials": 4, "maxConcurrentTrials": 4}, displayName="my sweep")
    for number, value in enumerate((0.5, 0.9, 0.7)):
        sweeps.log(f"s_{number}", 0.1, value)
    for number in range(4):
        sweeps.end(f"s_{number}", "Failed" if number == 3 else "Completed")


def trials(page: str, *, columns: int = 6) -> list[list[str]]:
    """Return the rows of the table of trials."""
    table = page[page.index('id="trials"') :]
    return [row for row in rows(table[: table.index("</section>")]) if len(row) == columns]


def test_a_sweep_shows_its_trials_and_marks_the_best(sweeps: Sweeps) -> None:
    trained(sweeps)
    page = Browser(sweeps).text("/ui/runs/s")
    head, *body = trials(page)
    assert head == ["Trial ▲", "Status", "accuracy", "lr", "k", "Duration"]
    assert [row[0] for row in body] == ["0", "1 ★ best", "2", "3"]
    assert [row[2] for row in body] == ["0.5", "0.9", "0.7", "—"]
    values = json.loads(sweeps.store.runs.require("s_1").properties["hyperparameters"])
    assert body[1][3:5] == [f"{values['lr']:.6g}", values["k"]]
    drawing = page[page.index('<svg class="parallel"') :]
    drawing = drawing[: drawing.index("</svg>")]
    assert len(re.findall(r'<path class="trial', drawing)) == 4
    assert 'class="trial trial-best"' in drawing
    assert "4 trials; the best has accuracy 0.9" in drawing
    assert re.findall(r'<text class="name"[^>]*>([^<]+)<title>', drawing) == ["lr", "k", "accuracy"]
    assert "Best trial: <a href=" in page


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sort=metric&order=desc", [1, 2, 0, 3]),
        ("sort=metric&order=asc", [0, 2, 1, 3]),
        ("sort=trial&order=desc", [3, 2, 1, 0]),
        ("sort=status", [0, 1, 2, 3]),
        ("sort=surprise&order=%27", [0, 1, 2, 3]),
    ],
)
def test_trials_are_sorted_by_a_link(sweeps: Sweeps, query: str, expected: list[int]) -> None:
    trained(sweeps)
    body = trials(Browser(sweeps).text(f"/ui/runs/s?{query}"))[1:]
    assert [int(row[0].split()[0]) for row in body] == expected


@pytest.mark.parametrize("name", ["lr", "k"])
def test_trials_are_sorted_by_each_hyperparameter(sweeps: Sweeps, name: str) -> None:
    trained(sweeps)
    found = {
        number: json.loads(sweeps.store.runs.require(f"s_{number}").properties["hyperparameters"])[name]
        for number in range(4)
    }
    page = Browser(sweeps).text(f"/ui/runs/s?sort=p.{name}")
    body = trials(page)[1:]
    assert [found[int(row[0].split()[0])] for row in body] == sorted(found.values())
    assert re.search(rf'aria-sort="ascending"><a href="[^"]*sort=p\.{name}&amp;order=desc#trials">{name}</a>', page)


def test_the_best_trial_so_far_is_marked_while_a_sweep_runs(sweeps: Sweeps) -> None:
    sweeps.put("s", limits={"maxTotalTrials": 4, "maxConcurrentTrials": 2})
    browser = Browser(sweeps)
    assert "No trial that has completed has logged accuracy yet" in browser.text("/ui/runs/s")
    sweeps.log("s_0", 0.5)
    sweeps.log("s_1", 0.9)
    sweeps.end("s_0")
    assert [row[0] for row in trials(browser.text("/ui/runs/s"))[1:]] == ["0 ★ best", "1", "2"]


def test_a_trial_shows_its_values_and_its_sweep(sweeps: Sweeps) -> None:
    trained(sweeps)
    page = Browser(sweeps).text("/ui/runs/s_1")
    assert f'<dt>Sweep</dt><dd><a href="{link("runs", "s")}">my sweep</a></dd>' in page
    assert "Sampled values of the trial" in page


def test_the_list_of_runs_leaves_trials_out_unless_they_are_asked_for(sweeps: Sweeps) -> None:
    trained(sweeps)
    browser = Browser(sweeps)

    def listed(query: str) -> set[str]:
        return set(re.findall(r'<th scope="row"><a href="/ui/runs/([^"]+)"', browser.text(f"/ui/{query}")))

    assert listed("") == {"s"}
    assert listed("?children=yes") == {"s", "s_0", "s_1", "s_2", "s_3"}
    assert listed("?text=s_1") == {"s_1"}
    assert listed("?status=Failed") == set()


def test_hostile_hyperparameters_are_only_text(sweeps: Sweeps) -> None:
    sweeps.put(
        "s",
        searchSpace={"lr": ["choice", [[HOSTILE, 7]]], "k": ["choice", [[HOSTILE]]]},
        objective={"goal": "Maximize", "primaryMetric": HOSTILE},
    )
    sweeps.log("s_0", 0.5, name=HOSTILE)
    sweeps.end("s_0")
    for path in ("s", "s_0"):
        assert HOSTILE not in Browser(sweeps).text(f"/ui/runs/{path}")
    sweeps.store.runs.tag(
        "s_1", {}, properties={"hyperparameters": '{"lr": [1e999, NaN], "k": NaN, "z": 1' + "0" * 400 + "}"}
    )
    assert HOSTILE not in Browser(sweeps).text("/ui/runs/s?sort=p.k")
    sweeps.store.runs.tag("s_1", {}, properties={"hyperparameters": "no JSON"})
    assert Browser(sweeps).text("/ui/runs/s_1")


def test_five_hundred_trials_are_shown_sorted(sweeps: Sweeps) -> None:
    space = {f"p{number}": ["uniform", [0, 1]] for number in range(6)}
    trial = {"command": " ".join(f"${{{{search_space.p{number}}}}}" for number in range(6))}
    limits = {"maxTotalTrials": 500, "maxConcurrentTrials": 500}
    sweeps.put("s", searchSpace=space, trial={**trial, "environmentId": sweeps.environment()}, limits=limits)
    for number in range(500):
        sweeps.store.runs.advance(f"s_{number}", "Running")
        sweeps.log(f"s_{number}", number / 500)
    browser = Browser(sweeps)
    browser.text("/ui/runs/s")
    page = browser.text("/ui/runs/s?sort=metric&order=desc")
    assert len(re.findall(r'<path class="trial', page)) == 500
    shown = re.findall(r'<th scope="row"><a href="[^"]*/runs/s_(\d+)', page)
    assert shown == [str(number) for number in reversed(range(500))]
