"""examples/release-pipeline under act, with the local AzureML in Azure's place: propose, merge, release, roll back."""

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

from scripts.act_demo import rename_workflows, run_act
from tests.e2e.azure import Azure
from tests.e2e.conftest import ROOT, edit
from tests.e2e.test_act import failed_with
from tests.support.oidc_stand_in import ISSUER, REPOSITORY, Provider

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("action_image")]

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


def release(tag: str) -> dict[str, object]:
    """Return what GitHub tells of a release."""
    return {"action": "published", "release": {"tag_name": tag}}


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
        # What was proposed is what main gets next: it stays in the working tree.
        self.git("reset", "-q", "--soft", "main")
        self.git("checkout", "-q", *(["--detach"] if event == "pull_request" else []), "main")
        self.git("commit", "-qam", f"What the {event} is about", "--allow-empty")
        return run_act(
            self.folder, self.environment, variables=self.variables, capture=True, event=event, payload=payload
        )

    def git(self, *args: str) -> None:
        """Call git in the repository."""
        who = ["-c", "user.name=someone", "-c", "user.email=someone@example.com"]
        subprocess.run(["git", "-C", str(self.folder), *who, *args], check=True)

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
    # The report's job installs aml-train from PyPI and calls GitHub, neither of which is here.
    release_file = folder / ".github/workflows/release.yml"
    release_file.write_text(release_file.read_text().partition("\n  report:\n")[0] + "\n")
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
    made = Repository(folder, model, azure, github, {**way, **github.environment()}, variables)
    rename_workflows(folder, model)
    for args in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "The example"]):
        made.git(*args)
    return made


def failed(done: subprocess.CompletedProcess[str]) -> list[int]:
    """Return the exit codes of the steps of aml-train that failed, where the workflow failed by them."""
    assert done.returncode != 0, done.stdout
    return failed_with(done)


def stages(versions: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the stage of each version."""
    return {version: tags.get("aml-train.stage", "") for version, tags in versions.items()}


# Nine workflows, one after the other.
@pytest.mark.timeout(2400)
def test_a_model_is_proposed_merged_released_and_rolled_back(repository: Repository) -> None:
    def passes(event: str, payload: Mapping[str, object] | None = None) -> str:
        done = repository.happens(event, payload)
        assert done.returncode == 0, done.stdout
        return done.stdout

    name, job = repository.model, repository.folder / "job.yml"

    assert f"the candidate is {name}:1" in passes("push")
    assert f"{name}:1 is in production, after version none" in passes("release", release("v1"))

    # Two ideas. What is proposed is compared with what is in production, and registered when it is merged.
    edit(job, "steps: 300", "steps: 250")
    assert f"the candidate is {name}:2" in passes("push")
    edit(job, "steps: 250", "steps: 300")
    edit(job, "degree: 3", "degree: 4")
    proposed = passes("pull_request", PULL_REQUEST)
    assert f"that of {name} version 1 (stage production)" in proposed
    assert "written, and not registered" in proposed
    assert stages(repository.versions()) == {"1": "production", "2": "candidate"}
    merged = passes("push")
    assert "which has completed" in merged, "the pull request's job is found again"
    assert f"the candidate is {name}:3" in merged
    before = repository.versions()
    assert stages(before) == {"1": "production", "2": "candidate", "3": "candidate"}

    # The newest candidate gets into production; the other one is worse than that.
    assert f"{name}:3 is in production, after version 1" in passes("release", release("v2"))
    refused = repository.happens("release", release("v3"))
    assert failed(refused) == [6]
    assert "version 2 does not meet the gate of production" in refused.stdout
    after = repository.versions()
    assert stages(after) == {"1": "archived", "2": "candidate", "3": "production"}
    lineage = ("aml-train.job", "aml-train.image-digest", "aml-train.commit", "aml-train.model-source")
    for version, tags in before.items():
        assert {tag: tags.get(tag) for tag in lineage} == {tag: after[version].get(tag) for tag in lineage}

    edit(job, "degree: 4", "degree: 1")
    worse = repository.happens("pull_request", PULL_REQUEST)
    assert failed(worse) == [6]
    assert f"that of {name} version 3 (stage production)" in worse.stdout

    back = passes("workflow_dispatch", {"inputs": {"reason": "wrong on Sundays"}})
    assert "rolled-back" in back
    versions = repository.versions()
    assert stages(versions) == {"1": "production", "2": "candidate", "3": "archived"}
    assert versions["1"]["aml-train.promotion-reason"] == "wrong on Sundays"
