"""The example's workflow under act, offline, with `uses: org/aml-train@v1` mapped to this checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.act_demo import run_act
from tests.e2e.azure import Azure
from tests.e2e.conftest import ROOT, Local
from tests.support.oidc_stand_in import AUDIENCE, Provider

#: act builds the action's image by the same steps, and finds them.
pytestmark = pytest.mark.usefixtures("action_image")


def failed_with(done: subprocess.CompletedProcess[str]) -> list[int]:
    """Return the exit codes of the containers that failed, in order."""
    lines = [line for line in done.stdout.splitlines() if "exit with `FAILURE`: " in line]
    return [int(line.rpartition(": ")[2]) for line in lines]


@pytest.mark.full
def test_the_examples_workflow_passes_and_a_later_step_uses_the_outputs(local: Local, digits: Path) -> None:
    done = run_act(digits, local.which, capture=True)
    assert done.returncode == 0, done.stdout
    assert "Job succeeded" in done.stdout
    (used,) = [line for line in done.stdout.splitlines() if "was trained in sha256:" in line]
    assert "digits version " in used


@pytest.mark.full
def test_the_documented_workflow_trains_in_azure_with_oidc(azure: Azure, github: Provider, digits: Path) -> None:
    workflows = digits / ".github/workflows"
    shutil.rmtree(workflows)
    workflows.mkdir()
    shutil.copy(ROOT / "examples/workflows/.github/workflows/main.yml", workflows)
    # act copies the repository into its containers, and steps start at its root.
    way = azure.variables(digits / "ca-bundle.pem", "./ca-bundle.pem")
    with (digits / "aml-train.yml").open("a") as file:
        file.write(f"targets: {json.dumps({'azure': azure.target()})}\n")
    info = azure.admin("GET", "info")
    variables = {"AZURE_CLIENT_ID": info["client_id"], "AZURE_TENANT_ID": info["tenant_id"]}
    done = run_act(digits, {**way, **github.environment()}, variables=variables, capture=True)
    assert done.returncode == 0, done.stdout
    assert "Job succeeded" in done.stdout
    assert "Signing in to Azure with the OIDC token of the workflow" in done.stdout
    (used,) = [line for line in done.stdout.splitlines() if "was trained in sha256:" in line]
    assert "digits version " in used
    assert set(github.asked) == {AUDIENCE}
    shown = "\n".join(line for line in done.stdout.splitlines() if "::add-mask::" not in line)
    for token in github.issued:
        assert token not in shown
