"""A pipeline and a sweep by `aml-train run` on the local AzureML: followed, gated, registered."""

from __future__ import annotations

import json
import secrets
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Ended, Local, edit


def example(name: str, job: str, tmp_path: Path) -> Path:
    """Copy an example, with a separate experiment: no test attaches to another's job."""
    project = tmp_path / name
    ignored = shutil.ignore_patterns("__pycache__", "mlruns*", "outputs", ".pytest_cache")
    shutil.copytree(ROOT / "examples" / name, project, ignore=ignored)
    edit(project / job, f"experiment_name: digits-{name}", f"experiment_name: graph-{secrets.token_hex(3)}")
    return project


def nodes(ended: Ended) -> dict[str, tuple[str, bool]]:
    """Return the last status of each node, and whether it was reused."""
    return {event["node"]: (event["status"], event["reused"]) for event in ended.of("node-changed")}


@pytest.mark.full
def test_a_pipeline_is_gated_and_registered_and_its_nodes_are_reused(local: Local, tmp_path: Path) -> None:
    project = example("pipeline", "pipeline.yml", tmp_path)
    ended = local.run(project)
    assert ended.code == 0, ended.output
    assert nodes(ended) == dict.fromkeys(("prep", "train", "evaluate"), ("Completed", False))
    (planned,) = ended.of("graph-planned")
    assert {node["name"]: node["needs"] for node in planned["nodes"]} == {
        "prep": [],
        "train": ["prep"],
        "evaluate": ["prep", "train"],
    }
    metrics = ended.only("metrics-settled")["metrics"]
    assert metrics["evaluate/accuracy"] == metrics["accuracy"] >= 0.95
    model = ended.only("model-registered")
    job, image = ended.only("job-submitted")["job"], ended.only("image-ready")["digest"]
    shown = json.loads(local.command("model", "lineage", f"{model['model']}:{model['version']}", "--json"))
    assert job in json.dumps(shown)
    assert image in json.dumps(shown)

    again = local.run(project)
    assert again.code == 0, again.output
    assert again.only("job-submitted") | {"attached": True} == again.only("job-submitted")
    assert again.only("job-submitted")["job"] == job

    other = local.run(project, "--set", "job.inputs.epochs=12", "--no-register")
    assert other.code == 0, other.output
    assert nodes(other)["prep"] == ("Completed", True)
    assert nodes(other)["train"] == ("Completed", False)


IMAGES = """
images:
  prep:
    base: python:3.11-slim-bookworm
    pip: requirements.txt
    env: {PREPARED_IN: "1"}
    nodes: [prep]
    tests: {command: pytest -q tests -k split}
"""


@pytest.mark.full
def test_each_node_runs_in_the_digest_of_its_image(local: Local, tmp_path: Path) -> None:
    project = example("pipeline", "pipeline.yml", tmp_path)
    with (project / "aml-train.yml").open("a") as file:
        file.write(IMAGES)
    edit(
        project / "src" / "prep.py",
        "def main() -> None:",
        'PREPARED_IN = __import__("os").environ["PREPARED_IN"]\n\n\ndef main() -> None:',
    )
    edit(
        project / "src" / "train.py",
        "def main() -> None:",
        'assert "PREPARED_IN" not in __import__("os").environ\n\n\ndef main() -> None:',
    )
    ended = local.run(project)
    assert ended.code == 0, ended.output
    images = {event["image_name"]: event["digest"] for event in ended.of("image-ready")}
    assert images.keys() == {"", "prep"}
    assert len(set(images.values())) == 2
    assert [event["image_name"] for event in ended.of("tests-finished")] == ["", "prep"]
    assert ended.only("run-finished")["facts"]["images"]["prep"]["digest"] == images["prep"]
    model = ended.only("model-registered")
    shown = local.command("model", "lineage", f"{model['model']}:{model['version']}", "--json")
    assert images[""] in shown

    # prep ran in the same image before: it counts. In another one it runs again.
    other = local.run(project, "--set", "job.inputs.epochs=13", "--no-register")
    assert other.code == 0, other.output
    assert nodes(other)["prep"] == ("Completed", True)
    changed = local.run(project, "--set", "images.prep.env.PREPARED_IN=2", "--no-register")
    assert changed.code == 0, changed.output
    assert nodes(changed)["prep"] == ("Completed", False)


@pytest.mark.full
def test_the_best_trial_of_a_sweep_is_gated_and_registered(local: Local, tmp_path: Path) -> None:
    project = example("sweep", "sweep.yml", tmp_path)
    ended = local.run(project)
    assert ended.code == 0, ended.output
    metrics = ended.only("metrics-settled")["metrics"]
    assert (metrics["trials"] >= 2, metrics["failed-trials"]) == (True, 0)
    assert metrics["val/accuracy"] >= 0.9
    model = ended.only("model-registered")
    shown = local.command("model", "lineage", f"{model['model']}:{model['version']}")
    assert ended.only("job-submitted")["job"] in shown
