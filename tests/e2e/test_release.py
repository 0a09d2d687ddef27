"""examples/release-pipeline under act, with the local AzureML in Azure's place: propose and merge."""

from __future__ import annotations

import json
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.act_demo import run_act
from tests.e2e.azure import Azure
from tests.e2e.conftest import ROOT, edit
from tests.e2e.oidc import ISSUER, REPOSITORY, Provider

#: What GitHub calls whoever asks for a token, by event.
SUBJECTS = {
    "pull_request": f"repo:{REPOSITORY}:pull_request",
    "push": f"repo:{REPOSITORY}:ref:refs/heads/main",
    "release": f"repo:{REPOSITORY}:environment:production",
    "workflow_dispatch": f"repo:{REPOSITORY}:environment:production",
}
PULL_REQUEST = {
    "number": 7,
    "pull_request": {"number": 7, "head": {"ref": "better"}, "base": {"ref": "main"}},
}
#: A script of a user, who asks azure-ai-ml.
MODELS = """\
import json, sys
from azure.ai.ml import MLClient
from azure.identity import DefaultAzureCredential
client = MLClient(DefaultAzureCredential(), *sys.argv[1:4])
print(json.dumps({model.version: model.tags for model in client.models.list(sys.argv[4])}))
"""


@dataclass(frozen=True)
class Repository:
    """The example's repository, whose workflows run when something happens to it."""

    folder: Path
    model: str
    azure: Azure
    github: Provider
    environment: Mapping[str, str]
    variables: Mapping[str, str]

    def happens(self, event: str, payload: Mapping[str, object] | None = None) -> subprocess.CompletedProcess[str]:
        """Let *event* happen; return how act ended."""
        self.github.subject = SUBJECTS[event]
        return run_act(
            self.folder, self.environment, variables=self.variables, capture=True, event=event, payload=payload
        )

    def versions(self) -> dict[str, dict[str, str]]:
        """Return the tags of each version of the model, as azure-ai-ml tells them."""
        where = self.azure.target()
        told = shlex.split(self.azure.local.command("emulator", "env"))
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                MODELS,
                where["subscription-id"],
                where["resource-group"],
                where["workspace"],
                self.model,
            ],
            env={**self.azure.local.environment, **dict(word.split("=", 1) for word in told if "=" in word)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        versions: dict[str, dict[str, str]] = json.loads(done.stdout)
        return versions

    def stages(self) -> dict[str, str]:
        """Return the stage of each version."""
        return {version: tags.get("aml-train.stage", "") for version, tags in self.versions().items()}


@pytest.fixture
def repository(azure: Azure, github: Provider, tmp_path: Path) -> Repository:
    """The example, in a workspace that trusts its pull requests, its main branch and its environment ``production``."""
    model = f"moons-{secrets.token_hex(3)}"
    folder = tmp_path / "release-pipeline"
    shutil.copytree(
        ROOT / "examples/release-pipeline", folder, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache")
    )
    for file in (folder / "aml-train.yml", *folder.glob(".github/workflows/*.yml")):
        file.write_text(file.read_text().replace("model: moons", f"model: {model}"))
    edit(folder / "aml-train.yml", "name: moons", f"name: {model}")
    edit(folder / "job.yml", "experiment_name: moons", f"experiment_name: {model}")
    config = folder / "aml-train.yml"
    start, _, _ = config.read_text().partition("targets:")
    config.write_text(f"{start}targets: {json.dumps({'azure': azure.target()})}\n")
    for subject in SUBJECTS.values():
        azure.admin("POST", "federated-credentials", issuer=ISSUER, subject=subject, keys=github.keys)
    way = azure.variables(folder / "ca-bundle.pem", "./ca-bundle.pem")
    info = azure.admin("GET", "info")
    variables = {"AZURE_CLIENT_ID": info["client_id"], "AZURE_TENANT_ID": info["tenant_id"]}
    return Repository(folder, model, azure, github, {**way, **github.environment()}, variables)


def test_a_proposed_model_is_gated_and_a_merged_one_is_registered(repository: Repository) -> None:
    merged = repository.happens("push")
    assert merged.returncode == 0, merged.stdout
    assert f"the candidate is {repository.model}:1" in merged.stdout
    assert repository.stages() == {"1": "candidate"}

    edit(repository.folder / "job.yml", "degree: 3", "degree: 4")
    proposed = repository.happens("pull_request", PULL_REQUEST)
    assert proposed.returncode == 0, proposed.stdout
    assert "written, and not registered" in proposed.stdout
    assert repository.stages() == {"1": "candidate"}
