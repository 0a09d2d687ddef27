"""Run configurations that azureml-core submits: the same pipeline around them, and the same jobs."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import BASE
from tests.support.emulator_process import Emulator, python_of_v1

SECONDS = 900
TRAIN = """\
import json, os, pathlib, sys
print("arguments", sys.argv[1:], os.environ["GREETING"], sorted(os.listdir(".")), flush=True)
pathlib.Path("outputs").mkdir(exist_ok=True)
pathlib.Path("outputs/model.txt").write_text("weights")
pathlib.Path("outputs/report.json").write_text(json.dumps({"accuracy": float(sys.argv[2])}))
sys.exit(int(sys.argv[4]) if len(sys.argv) > 4 else 0)
"""
RUNCONFIG = f"""\
script: train.py
arguments: [--accuracy, 0.9]
target: local-cluster
environment:
  docker: {{baseImage: "{BASE}", shmSize: 256m}}
  python: {{userManagedDependencies: true, interpreterPath: python3}}
  environmentVariables: {{GREETING: a run}}
maxRunDurationSeconds: 3000
"""
CONFIGURATION = """\
runconfig: {file: train, experiment_name: exp-v1, tags: {team: vision}}
sdk: v1
gate:
  accuracy: {file: outputs/report.json, pointer: /accuracy, rules: ">= 0.5"}
model: {name: v1-model, path: outputs/model.txt}
"""


@dataclass(frozen=True)
class Project:
    """A project with a run configuration; *environment* is what its commands know."""

    folder: Path
    environment: dict[str, str]

    def command(self, *arguments: str) -> str:
        """Run a command that succeeds; return what it said."""
        done = self._done(self.folder / "project", "-m", "aml_train", *arguments, "--target", "azure")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def beside(self, step: str, run: str) -> dict[str, Any]:
        """Have a user's script do one step with azureml-core."""
        known = self.environment
        given = {
            "workspace": known["AML_WORKSPACE"],
            "subscription": known["AZURE_SUBSCRIPTION_ID"],
            "group": known["AML_RESOURCE_GROUP"],
            "folder": str(self.folder),
            "run": run,
        }
        script = str(Path(__file__).with_name("v1_beside.py"))
        done = self._done(self.folder, script, step, json.dumps(given))
        assert done.returncode == 0, done.stdout + done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def run(self, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
        """Run ``aml-train`` with azureml-core installed; return the exit code, the events, and what it said."""
        events = self.folder / "events.jsonl"
        events.unlink(missing_ok=True)
        told = ("--target", "azure", "--events", str(events))
        done = self._done(self.folder / "project", "-m", "aml_train", *arguments, *told)
        lines = events.read_text().splitlines() if events.exists() else []
        return done.returncode, [json.loads(line) for line in lines], done.stdout + done.stderr

    def _done(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python_of_v1(), *arguments],
            cwd=folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


@pytest.fixture(scope="module")
def project(emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("v1")
    for name, text in {
        "aml-train.yml": f"{CONFIGURATION}targets: {{azure: {{push-registry: 'localhost:{emulator.registry_port}'}}}}\n",
        ".azureml/train.runconfig": RUNCONFIG,
        "train.py": TRAIN,
        "notes/left_out.txt": "",
        ".amlignore": "notes/\n",
    }.items():
        (folder / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "project" / name).write_text(text)
    return Project(folder, emulator.workspace_environment(HOME=str(folder)))


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == kind]


@pytest.mark.full
def test_what_azureml_core_logs_is_judged_and_shown(project: Project) -> None:
    code, events, said = project.run("run")
    assert code == 0, said
    name = of(events, "job-submitted")[0]["job"]
    assert project.beside("log", name) == {"list": [3.0, 1.0, 2.0]}
    rules = {"epochs.loss": ["< 0.05", "decreasing"], "fruit.size": ">= 2", "list": "max == 3"}
    code, events, said = project.run("attach", name, "--set", f"gate={json.dumps(rules)}")
    assert code == 0, said
    assert [rule["verdict"] for rule in of(events, "rule-verdict")] == ["met"] * 4
    (settled,) = of(events, "metrics-settled")
    assert settled["metrics"]["epochs.loss"] == 1 / 30
    assert [value for _, value in settled["histories"]["epochs.loss"]][:3] == [1.0, 0.5, 1 / 3]
    tables = {table["name"]: table for table in settled["tables"]}
    assert set(tables) == {"epochs", "fruit", "list", "note", "matrix"}
    assert (tables["epochs"]["head"], tables["epochs"]["total"]) == (["epoch", "loss", "who"], 30)
    assert tables["matrix"]["rows"] == [["cat", "3", "1"], ["dog", "0", "2"]]
    assert tables["list"]["rows"] == [["3", "1", "3", "2"]]
    assert "and 10 more rows" in said
    shown = project.command("jobs", "show", name)
    assert "  actual ╲ predicted  cat  dog" in shown
    assert "note    it works" in shown

    for metric, why in {
        "fruit.name": "its value 1 of 2 is no number",
        "epochs.none": "epochs.epoch, epochs.loss",
    }.items():
        code, events, said = project.run("attach", name, "--set", f"gate={json.dumps({metric: '> 0'})}")
        assert code == 6, said
        assert why in said


@pytest.mark.full
def test_models_of_azureml_core_have_stages(project: Project) -> None:
    """Registered by azureml-core, a baseline by the tag that azureml-core gave, promoted by aml-train, and found by azureml-core."""
    code, events, said = project.run("run")
    assert code == 0, said
    name = of(events, "job-submitted")[0]["job"]
    assert project.beside("register", name) == {"versions": [1, 2], "loose": 1}
    assert json.loads(project.command("model", "list", "by-core", "--json"))["stages"] == {"production": ["1"]}

    baseline = {"model": "by-core", "stage": "production"}
    report = {"accuracy": {"file": "outputs/report.json", "pointer": "/accuracy", "rules": ">= 0.5"}}
    options = ("--set", f"gate={json.dumps(report)}", "--set", f"baseline={json.dumps(baseline)}", "--no-register")
    code, events, said = project.run("attach", name, *options)
    assert code == 0, said
    (compared,) = of(events, "baseline-compared")
    assert (compared["comparison"]["right"]["title"], compared["comparison"]["right"]["job"]) == (
        "by-core version 1 (stage production)",
        name,
    )

    lineage = project.command("model", "lineage", "by-core:2")
    assert "· model       by-core:2  (something else than aml-train registered it; AzureML names its job)" in lineage
    assert f"✓ job         {name}" in lineage
    wanted = ("--to", "production", "--reason", "better", "--allow-foreign", "--yes")
    code, events, said = project.run("promote", "by-core:2", *wanted)
    assert code == 0, said
    shown = project.command("model", "show", "by-core@production", "--json")
    assert json.loads(shown)["version"] == "2"
    seen = project.beside("stages", name)
    assert seen == {"production": [2], "archived": [1], "by us": [1], "reason": "better"}

    code, _, said = project.run("promote", "loose:1", *wanted)
    assert code == 6, said
    assert "no job made it: neither its tags nor AzureML name one" in said


@pytest.mark.full
def test_sdk_v2_submits_the_command_job_that_does_the_same(project: Project) -> None:
    """And nothing of azureml-core is loaded, though it is installed."""
    imports = dataclasses.replace(project, environment={**project.environment, "PYTHONPROFILEIMPORTTIME": "1"})
    code, events, said = imports.run("run", "--set", "sdk=v2")
    assert code == 0, said
    loaded = {line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")}
    assert "azure.ai.ml" in loaded
    assert not [name for name in loaded if name.partition(".")[0] == "azureml"]
    (submitted,) = of(events, "job-submitted")
    assert not submitted["attached"], "what another SDK submits is another job"
    (line,) = [one["text"] for one in of(events, "log-line") if "arguments" in one["text"]]
    assert "['--accuracy', '0.9'] a run" in line
