"""The example's workflow under act, offline, with `uses: org/aml-train@v1` mapped to this checkout."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scripts.act_demo import run_act
from tests.e2e.azure import Azure
from tests.e2e.conftest import ROOT, Local, edit, line_of
from tests.e2e.oidc import AUDIENCE, Provider
from tests.e2e.test_endings import quick

#: act builds the action's image by the same steps, and finds them.
pytestmark = pytest.mark.usefixtures("action_image")


def failed_with(done: subprocess.CompletedProcess[str]) -> list[int]:
    """Return the exit codes of the containers that failed, in order."""
    lines = [line for line in done.stdout.splitlines() if "exit with `FAILURE`: " in line]
    return [int(line.rpartition(": ")[2]) for line in lines]


def summaries(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the summary of each step that wrote one, in order."""
    return [html.unescape(part.partition("] ⭐")[0]) for part in done.stdout.split("Summary - ")[1:]]


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


@pytest.fixture(params=["local", "azure"])
def anywhere(request: pytest.FixtureRequest) -> Act:
    """Act, once for each target."""
    if request.param == "local":
        local: Local = request.getfixturevalue("local")
        return Act("local", local.which)
    chosen: Act = request.getfixturevalue("in_azure")
    return chosen


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


@pytest.mark.full
def test_a_subject_that_azure_does_not_trust_fails_the_workflow(
    in_azure: Act, github: Provider, digits: Path
) -> None:
    documented(digits, "main.yml")
    github.subject = "repo:octo/digits:ref:refs/heads/feature"
    done = in_azure.run(digits)
    assert done.returncode != 0
    assert failed_with(done) == [8], done.stdout
    assert "::error title=aml-train%3A service-error::Sign-in to Azure failed" in done.stdout
    assert "subject:  repo:octo/digits:ref:refs/heads/feature" in done.stdout
    assert "was trained in" not in done.stdout


STEP = """\
      - uses: org/aml-train@v1
        id: {name}
        if: always()
        with:
          working-directory: {name}
          target: {target}
          client-id: ${{{{ vars.AZURE_CLIENT_ID }}}}
          tenant-id: ${{{{ vars.AZURE_TENANT_ID }}}}
      - name: after-{name}
        if: always()
        env:
          OUTCOME: ${{{{ steps.{name}.outcome }}}}
          STATUS: ${{{{ steps.{name}.outputs.status }}}}
          GATE: ${{{{ steps.{name}.outputs.gate }}}}
        run: echo "after-{name}> outcome=$OUTCOME status=$STATUS gate=$GATE"
"""


def broken_projects(example: Path, folder: Path, target: str) -> Path:
    """Make a repository of four projects, each with another fault, and a workflow that runs them all."""
    repository = folder / "broken"
    names = ("configuration", "test", "job", "gate")
    for name in names:
        project = repository / name
        shutil.copytree(example, project, ignore=shutil.ignore_patterns(".github"))
        edit(project / "aml-train.yml", "tests:", "  repository: digits\ntests:")
    edit(repository / "configuration/aml-train.yml", "pip: requirements.txt", "pipp: requirements.txt")
    (repository / "test/tests/test_broken.py").write_text("def test_sum():\n    assert 1 + 1 == 3\n")
    (repository / "job/src/broken.py").write_text("def load():\n    raise ValueError('no rows left')\n\n\nload()\n")
    quick(repository / "job", "broken-under-act", "python broken.py")
    edit(repository / "gate/aml-train.yml", '">= 0.95"', '">= 1.5"')
    steps = "".join(STEP.format(name=name, target=target) for name in names)
    workflow = repository / ".github/workflows/broken.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text(
        f"on: push\njobs:\n  broken:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v4\n{steps}"
    )
    return repository


@pytest.mark.full
def test_each_failure_ends_its_step_with_code_annotation_and_summary(
    anywhere: Act, digits: Path, tmp_path: Path
) -> None:
    repository = broken_projects(digits, tmp_path, anywhere.target)
    done = anywhere.run(repository)
    assert done.returncode != 0
    assert failed_with(done) == [2, 4, 5, 6], done.stdout

    def place(file: str, text: str) -> str:
        return f"file={file},line={line_of(repository / file, text)}"

    expected = {
        "configuration": ("invalid", "", place("configuration/aml-train.yml", "pipp"), "pipp"),
        "test": ("tests-failed", "", "file=test/tests/test_broken.py,line=2", "test_sum"),
        "job": ("job-failed", "", "file=job/src/broken.py,line=2", "no rows left"),
        "gate": ("gate-failed", "failed", place("gate/aml-train.yml", '">= 1.5"'), "missed by"),
    }
    errors = [line for line in done.stdout.splitlines() if "::error " in line]
    for (name, (status, gate, where, text)), summary in zip(expected.items(), summaries(done), strict=True):
        assert f"after-{name}> outcome=failure status={status} gate={gate}" in done.stdout
        assert any(where in error and text in error for error in errors), errors
        assert status in summary.splitlines()[0]
        assert text in summary, summary
