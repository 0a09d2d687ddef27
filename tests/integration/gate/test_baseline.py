"""The baseline of a branch, data versions and `aml-train compare`, over the real interfaces of an emulator whose jobs end at once."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import Emulator

GIT = ("-c", "user.name=t", "-c", "user.email=t@example.com")


@dataclass(frozen=True)
class Project:
    """A repository with a project, and the command line for it."""

    emulator: Emulator
    folder: Path

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *GIT, "-C", str(self.folder), *arguments], check=True, capture_output=True)

    def commit(self, accuracy: float, settings: str = "") -> None:
        """Commit a training that comes to *accuracy*, with more *settings* of the baseline."""
        script = (
            f"metric accuracy 0 0.1\nmetric accuracy 1 {accuracy}\nsay ${{{{inputs.epochs}}}} ${{{{inputs.train}}}}\n"
            f"param rate {accuracy / 10:g}\nparam seed 7\n"
        )
        job = {
            "command": script,
            "environment": {"image": "python:3.11-slim-bookworm"},
            "experiment_name": "compared",
            "environment_variables": {"LEVEL": f"{accuracy:g}", "SAME": "1"},
            "inputs": {
                "epochs": round(accuracy * 100),
                "train": {"type": "uri_file", "path": "azureml:points@latest"},
            },
        }
        (self.folder / "job.yml").write_text(json.dumps(job))
        (self.folder / "aml-train.yml").write_text(
            f"job: job.yml\ntarget: azure\ntargets: {json.dumps({'azure': self.emulator.target()})}\n"
            f"gate: {{accuracy: '>= baseline'}}\nbaseline: {{branch: main, bootstrap: true{settings}}}\n"
        )
        self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", f"{accuracy}")

    def aml_train(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.emulator.python(self.folder, "-m", "aml_train", *arguments, code=code)

    def run(self, code: int = 0, command: str = "run") -> dict[str, Any]:
        """Run, and return the facts that it ends with."""
        events = self.folder.parent / "events.jsonl"
        self.aml_train(command, "--events", str(events), code=code)
        last = json.loads(events.read_text().splitlines()[-1])
        return {**last["facts"], "message": last["message"]}

    def new_data(self, text: str) -> None:
        """Register another version of the data."""
        file = self.folder.parent / "points.csv"
        file.write_text(text)
        self.aml_train("data", "upload", str(file), "--name", "points")


@pytest.fixture
def project(instant: Emulator, tmp_path: Path) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    made = Project(instant, folder)
    made.git("init", "-q", "-b", "main")
    made.git("remote", "add", "origin", "https://x:secret@github.com/owner/name.git")
    return made


@pytest.mark.full
def test_a_pull_request_is_compared_with_the_last_run_of_main_that_passed(project: Project) -> None:
    project.commit(0.9)
    project.new_data("1,2\n")
    first = project.run()
    assert "baseline" not in first

    project.git("checkout", "-q", "-b", "feature")
    project.commit(0.95)
    project.new_data("1,2\n3,4\n")
    better = project.run()
    baseline = better["baseline"]
    assert (baseline["job"], baseline["metrics"], baseline["data"]) == (
        first["job"], {"accuracy": 0.9}, {"train": "points:1"}
    )  # fmt: skip
    assert better["candidate"]["data"] == {"train": "points:2"}
    assert better["different_data"] == ["train"]
    assert better["different_logged_parameters"] == ["rate"]
    assert better["different_environment_variables"] == ["LEVEL"]
    assert baseline["commit"] != better["candidate"]["commit"]

    # A feature's run is no run of main, however good it was.
    project.commit(0.85)
    worse = project.run(code=6)
    assert f"(that of the job {first['job']} (branch main), 0.9)" in worse["message"]
    assert project.run(code=6, command="attach")["job"] == worse["job"]
    shown = json.loads(project.aml_train("jobs", "show", worse["job"], "--json").stdout)
    assert shown["tags"]["aml-train.gate"] == "failed"
    assert json.loads(shown["tags"]["aml-train.verdict.feature"])["repository"] == "github.com/owner/name"
    assert shown["tags"]["aml-train.data.train"] == "points:2", "the job's own tags stay"
    assert shown["logged_parameters"] == {"rate": "0.085", "seed": "7"}
    assert shown["environment_variables"].items() >= {("LEVEL", "0.85"), ("SAME", "1")}
    assert shown["studio"].startswith(f"https://ml.azure.com/runs/{worse['job']}?wsid=")
    found = project.aml_train("jobs", "list", "--experiment", "compared", "--sort", "accuracy", "--json").stdout
    rows = [json.loads(line) for line in found.splitlines()]
    assert [(row["name"], row["metrics"]["accuracy"]) for row in rows] == [
        (better["job"], 0.95),
        (first["job"], 0.9),
        (worse["job"], 0.85),
    ]
    assert all(row["seconds"] >= 0 for row in rows)
    table = project.aml_train("jobs", "list", "-n", "1", "--metric", "accuracy").stdout.splitlines()
    assert "METRICS" in table[0]
    assert "accuracy=0.85" in table[1]
    ending = json.loads(project.aml_train("attach", worse["job"], "--json", code=6).stdout)
    assert (ending["status"], ending["exit_code"], ending["job"]) == ("gate-failed", 6, worse["job"])

    # Data that must be the same, and are not, are told before anything is submitted.
    project.commit(0.99, ", data: fail")
    refused = project.run(code=6)
    assert "job" not in refused
    assert "train is points:2, and was points:1" in refused["message"]

    compared = json.loads(project.aml_train("compare", better["job"], "branch:main", "--json").stdout)
    assert compared["right"]["job"] == first["job"]
    assert compared["metrics"]["accuracy"]["difference"] == 0.05
    assert (compared["different_parameters"], compared["different_logged_parameters"]) == (["epochs"], ["rate"])
    told = project.aml_train("compare", better["job"], "branch:main", "--no-charts").stdout
    assert "env LEVEL    0.95" in told
    assert "SAME" not in told
    assert compared["histories"]["accuracy"] == {"left": [[0, 0.1], [1, 0.95]], "right": [[0, 0.1], [1, 0.9]]}
    assert compared["left"]["parameters"] == {"epochs": "95"}
    assert compared["left"]["seconds"] >= 0
    printed = project.aml_train("compare", better["job"], "baseline").stdout
    assert f"B  the job {first['job']} (branch main, verdict not proved)" in printed
    assert "data train" in printed
    assert "accuracy over steps" in printed
