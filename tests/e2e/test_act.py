"""The example's workflow under act, offline, with `uses: org/aml-train@v1` mapped to this checkout."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Act:
    """act, and what a workflow there needs to reach its target."""

    target: str
    environment: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    bundle: Path | None = None

    def run(self, repository: Path) -> subprocess.CompletedProcess[str]:
        """Run the push workflows of *repository*, whose aml-train.yml gets the target in Azure."""
        if self.bundle is not None:
            shutil.copy(self.bundle, repository / "ca-bundle.pem")
            for config in repository.rglob("aml-train.yml"):
                with config.open("a") as file:
                    file.write(f"targets: {json.dumps({'azure': self.settings})}\n")
        return run_act(repository, self.environment, variables=self.variables, capture=True)


@pytest.fixture
def in_azure(azure: Azure, github: Provider, tmp_path: Path) -> Act:
    """A job that may have OIDC tokens, and whose way to Azure leads to the local AzureML."""
    bundle = tmp_path / "bundle.pem"
    # act copies the repository into its containers, and steps start at its root.
    way = azure.variables(bundle, "./ca-bundle.pem")
    info = azure.admin("GET", "info")
    variables = {"AZURE_CLIENT_ID": info["client_id"], "AZURE_TENANT_ID": info["tenant_id"]}
    return Act("azure", {**way, **github.environment()}, variables, azure.target(), bundle)


def documented(project: Path, name: str) -> None:
    """Let *name* of examples/workflows be the only workflow of *project*."""
    workflows = project / ".github/workflows"
    shutil.rmtree(workflows)
    workflows.mkdir()
    shutil.copy(ROOT / "examples/workflows/.github/workflows" / name, workflows)


@pytest.mark.full
def test_the_documented_workflow_trains_in_azure_with_oidc(in_azure: Act, github: Provider, digits: Path) -> None:
    documented(digits, "main.yml")
    done = in_azure.run(digits)
    assert done.returncode == 0, done.stdout
    assert "Job succeeded" in done.stdout
    assert "Signing in to Azure with the OIDC token of the workflow" in done.stdout
    (used,) = [line for line in done.stdout.splitlines() if "was trained in sha256:" in line]
    assert "digits version " in used
    assert set(github.asked) == {AUDIENCE}
    shown = "\n".join(line for line in done.stdout.splitlines() if "::add-mask::" not in line)
    for token in github.issued:
        assert token not in shown
