"""examples/digits-v1, which azureml-core submits, to each of its ends."""

from __future__ import annotations

import dataclasses
import html
import json
import secrets
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Local
from tests.e2e.hosted_runner import HostedRunner
from tests.support.emulator_process import python_of_v1

#: azureml-defaults is hundreds of megabytes.
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def test_the_example_and_its_failing_variants(local: Local, tmp_path: Path) -> None:
    """One test: the variants find the image of the first run."""
    project = tmp_path / "digits-v1"
    shutil.copytree(ROOT / "examples" / "digits-v1", project, ignore=shutil.ignore_patterns("__pycache__", "outputs"))
    v1 = dataclasses.replace(
        local, python=python_of_v1(), environment={**local.environment, "PYTHONPATH": str(ROOT / "runner")}
    )
    first = v1.run(project)
    assert first.code == 0, first.output
    image, job, model = first.only("image-ready"), first.only("job-submitted"), first.only("model-registered")
    assert image["reference"].endswith(f"@{image['digest']}")
    assert first.only("tests-finished")["passed"] == 4
    assert job["job"].startswith("digits-v1-")
    assert (model["model"], model["version"]) == ("digits-v1", "1")
    settled = first.only("metrics-settled")
    assert [step for step, _ in settled["histories"]["val/loss"]] == list(range(20))
    tables = {table["name"]: table for table in settled["tables"]}
    assert tables["confusion"]["head"] == ["actual ╲ predicted", *map(str, range(10))]
    assert sum(int(cell) for row in tables["confusion"]["rows"] for cell in row[1:]) == 450
    assert (tables["end"]["head"], tables["end"]["rows"][0][0]) == (["epoch", "accuracy"], "20")

    again = v1.run(project)
    assert again.code == 0, again.output
    assert (again.only("job-submitted")["job"], again.only("job-submitted")["attached"]) == (job["job"], True)
    assert again.only("image-ready")["digest"] == image["digest"]
    assert again.only("model-registered")["found"]

    worse = v1.run(project, "--set", "job.arguments.3=0.001")
    assert worse.code == 6, worse.output
    assert not worse.of("model-registered")

    failing = v1.run(project, "--set", "job.arguments.1=0")
    assert failing.code == 5, failing.output
    assert "at least one epoch is needed" in failing.output

    by_v2 = v1.run(project, "--set", "sdk=v2")
    assert by_v2.code == 0, by_v2.output
    assert by_v2.only("job-submitted")["job"] != job["job"]
    assert by_v2.only("image-ready")["digest"] == image["digest"]
    metrics = [ended.only("metrics-settled")["metrics"] for ended in (first, by_v2)]
    assert metrics[0] == metrics[1], "both SDKs train the same"


def test_the_action_submits_a_run_configuration_by_the_sdk_v1(
    runner: HostedRunner, local: Local, tmp_path: Path
) -> None:
    """Nobody asks for it: azureml-core is in the action's image."""
    project = tmp_path / "v1"
    mark = secrets.token_hex(4)
    for name, text in {
        "aml-train.yml": f"runconfig: {{file: train, experiment_name: action-{mark}}}\ngate: {{accuracy: {{file: outputs/report.json, rules: '>= 0.5'}}}}\n",
        ".azureml/train.runconfig": "script: train.py\narguments: [0.9]\n"
        "environment: {docker: {baseImage: python:3.11-slim-bookworm}, python: {userManagedDependencies: true}}\n",
        "train.py": "import json, os, sys\nos.makedirs('outputs', exist_ok=True)\n"
        "json.dump({'accuracy': float(sys.argv[1])}, open('outputs/report.json', 'w'))\n",
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    runner.checkout(project)
    step = runner.run()
    assert step.code == 0, step.log
    assert (step.outputs["status"], step.outputs["gate"]) == ("passed", "passed")
    assert "submits the run, because it is a run configuration" in step.log
    assert "The SDK v1, azureml-core" in html.unescape(step.summary)
    requests = [
        json.loads(line) for line in local.command("emulator", "requests", "-n", "1000", "--json").splitlines()
    ]
    assert [one for one in requests if "/execution/" in one["path"] and f"action-{mark}" in one["path"]]

    by_v2 = runner.run({"set": "sdk=v2"})
    assert by_v2.code == 0, by_v2.log
    assert "SDK v1" not in by_v2.log
    assert by_v2.outputs["job-name"] != step.outputs["job-name"]
