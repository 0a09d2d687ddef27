"""The built action under the hosted runner's own contract, with the local AzureML as its target."""

from __future__ import annotations

import html
import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import edit, line_of
from tests.e2e.hosted_runner import RUNNER_UID, HostedRunner


@pytest.mark.full
def test_the_docker_client_speaks_what_current_engines_take(action_image: str) -> None:
    """Engines 29.0 to 29.2 refuse API versions below 1.44 (moby/moby#52067)."""
    command = ["docker", "run", "--rm", "--entrypoint=docker", action_image]
    # Without an engine the client says its own version, and ends with 1.
    asked = [*command, "version", "--format={{.Client.DefaultAPIVersion}}"]
    spoken = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()[0]
    assert tuple(map(int, spoken.split("."))) >= (1, 44)
    buildx = subprocess.run([*command, "buildx", "version"], capture_output=True, text=True, check=True)
    assert "buildx" in buildx.stdout


@pytest.mark.full
def test_the_image_carries_what_the_local_azureml_is_built_from(action_image: str) -> None:
    program = (
        "from pathlib import Path; from aml_train.local.image import SOURCES, find_package, write_context;"
        " folder = Path('/tmp/context'); write_context(find_package(), folder); print((folder / SOURCES / 'Dockerfile').is_file())"
    )
    command = [
        "docker",
        "run",
        "--rm",
        "--entrypoint=/opt/aml-train/bin/python",
        action_image,
        "-I",
        "-B",
        "-c",
        program,
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


def test_a_step_passes_and_its_outputs_can_be_used(runner: HostedRunner, digits: Path) -> None:
    runner.checkout(digits)
    step = runner.run()
    assert step.code == 0, step.log
    outputs = step.outputs
    assert outputs["status"] == "passed"
    assert outputs["gate"] == "passed"
    assert outputs["image"].endswith(f"@{outputs['digest']}")
    assert json.loads(outputs["run-metrics"])["val/accuracy"] >= 0.95
    assert outputs["model-name"] == "digits"
    assert outputs["model-version"].isdecimal()
    assert "passed" in step.summary
    assert "val/accuracy" in step.summary
    assert outputs["digest"] in html.unescape(step.summary)
    assert not step.errors()
    foreign = [path for path in runner.workspace.rglob("*") if path.stat().st_uid != RUNNER_UID]
    assert not foreign, f"left in the workspace by another user: {foreign}"

    again = runner.run()
    assert again.code == 0, again.log
    assert again.outputs["job-name"] == outputs["job-name"]
    assert again.outputs["model-version"] == outputs["model-version"]


def test_a_fault_of_the_configuration_is_annotated_on_its_line(runner: HostedRunner, digits: Path) -> None:
    edit(digits / "aml-train.yml", "pip: requirements.txt", "pipp: requirements.txt")
    runner.checkout(digits)
    step = runner.run({"command": "validate"})
    assert step.code == 2, step.log
    assert step.outputs["status"] == "invalid"
    (error,) = [error for error in step.errors() if "file" in error.properties]
    assert (error.properties["file"], error.properties["line"]) == (
        "aml-train.yml",
        str(line_of(digits / "aml-train.yml", "pipp")),
    )
    assert "pip" in error.text
