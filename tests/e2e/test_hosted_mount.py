"""Two repositories on one registry, each of them checked out where a hosted runner has every repository: at /github/workspace."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest
import requests

from tests.e2e.conftest import Local
from tests.e2e.hosted_runner import HostedRunner
from tests.integration.conftest import BASE

#: No secrets, although their names hold words of secrets' names, and their values are in names and outputs.
NO_SECRETS = {"AZURE_LOCATION": "eastus", "AZURE_RESOURCE_GROUP": "wine-eastus", "SSH_KEY_NAME": "wine"}
TRAIN = """\
import json, os
os.makedirs('outputs/model', exist_ok=True)
json.dump({'wine/accuracy': 0.5}, open('outputs/report.json', 'w'))
open('outputs/model/weights', 'w').write(os.environ['ABOUT'])
print('trained', os.environ['ABOUT'], 'with wine in eastus as', os.environ['AZUREML_RUN_ID'])
"""


def write_project(folder: Path, about: str, model: str) -> Path:
    """Write a project whose image, job and model have no name of its own but the model's."""
    for name, text in {
        "aml-train.yml": f"""\
job: job.yml
image: {{base: '{BASE}', azureml-mlflow: false, env: {{ABOUT: '{about}'}}}}
tests: {{command: python -c pass, evidence: exit-code}}
gate: {{wine/accuracy: {{file: outputs/report.json, rules: '>= 0.5'}}}}
model: {{name: {model}, path: outputs/model, type: custom_model}}
""",
        "job.yml": "command: python train.py\ncode: src\n",
        "src/train.py": TRAIN,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def digest_of(local: Local, repository: str, tag: str) -> str:
    """Return what *tag* points to in the registry."""
    port = local.environment["AML_TRAIN_EMULATOR_REGISTRY_PORT"]
    accept = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
    with requests.Session() as session:
        session.trust_env = False
        url = f"http://127.0.0.1:{port}/v2/{repository}/manifests/{tag}"
        response = session.head(url, headers={"Accept": accept}, timeout=60)
    assert response.status_code == 200, f"{url}: {response.status_code}"
    return response.headers["Docker-Content-Digest"]


@pytest.mark.full
def test_two_repositories_at_the_hosted_mount_share_nothing_and_outputs_are_exact(
    action_image: str, local: Local, tmp_path: Path
) -> None:
    mark = secrets.token_hex(3)
    runners, found = {}, {}
    for word in ("wine", "beer"):
        repository = f"Octo-{mark}/{word}"
        runner = HostedRunner(action_image, tmp_path / word, {**local.which, **NO_SECRETS}, repository=repository)
        runner.checkout(write_project(tmp_path / f"{word}-project", repository, f"wine-{word}-{mark}"))
        step = runner.run()
        assert step.code == 0, step.log
        runners[word], found[word] = runner, step.outputs

        name, job = f"octo-{mark}/{word}", step.outputs["job-name"]
        digest = digest_of(local, name, "branch-main")
        assert re.fullmatch(rf"octo-{mark}-{word}-[0-9a-f]{{12}}-1", job)
        assert re.fullmatch(rf"[a-z0-9.:-]+/{name}@{digest}", step.outputs["image"])
        assert step.outputs["run-url"].count(job) == 1
        report = json.loads(step.outputs["gate-report"])
        exact = {
            "status": "passed", "job-name": job, "digest": digest, "run-metrics": '{"wine/accuracy": 0.5}', "gate": "passed",
            "model-name": f"wine-{word}-{mark}", "model-version": "1", "model-id": f"wine-{word}-{mark}:1", "baseline": "",
            "attempts": "1",
        }  # fmt: skip
        assert {key: step.outputs[key] for key in exact} == exact
        assert [rule["metric"] for rule in report["rules"]] == ["wine/accuracy"]
        assert f"trained {repository} with wine in eastus as {job}" in step.log
        assert not [value for value in NO_SECRETS.values() if f"::add-mask::{value}" in step.log]
        assert not [one for one in step.annotations if "Altered outputs" in one.text]

    assert found["wine"]["digest"] != found["beer"]["digest"]
    assert digest_of(local, f"octo-{mark}/wine", "branch-main") == found["wine"]["digest"], (
        "the other has moved its own tag"
    )

    # Without these variables, the outputs are the same to the letter.
    runner = runners["wine"]
    runner.environment = dict(local.which)
    followed_none = {"attempts": "", "node-hours": "", "gpu-hours": ""}
    assert runner.run().outputs == {**found["wine"], **followed_none}, "it attaches to the job, which has ended"

    # On a developer's machine, the clone of the repository has the same names, wherever it lies.
    clone = tmp_path / "somewhere-else"
    shutil.copytree(tmp_path / "wine-project", clone)
    url = f"https://token:hidden@github.com/octo-{mark}/wine.git"
    for args in (["init", "-q", "-b", "main"], ["remote", "add", "origin", url]):
        subprocess.run(["git", "-C", str(clone), *args], check=True, capture_output=True)
    ended = local.run(clone, "--no-register")
    assert ended.code == 0, ended.output
    assert ended.only("job-submitted")["job"] == found["wine"]["job-name"]
    assert ended.only("image-ready")["reference"] == found["wine"]["image"]
    assert "hidden" not in ended.output
