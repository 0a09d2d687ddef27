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


@pytest.mark.full
def test_a_pull_request_moves_no_tag_and_gives_main_no_image(action_image: str, local: Local, tmp_path: Path) -> None:
    """It asks for every tag of main's images, and builds what main builds after the merge."""
    mark = secrets.token_hex(3)
    name = f"octo-{mark}/wine"
    runner = HostedRunner(action_image, tmp_path, local.which, repository=name)
    runner.checkout(write_project(tmp_path / "project", name, f"wine-{mark}"))
    first = runner.run()
    assert first.code == 0, first.log
    config = runner.workspace / "aml-train.yml"
    written, released = config.read_text(), digests_of(local, name)
    assert {f"git-{runner.commit}", "branch-main"} <= released.keys()

    def proposed(tags: str) -> str:
        """Commit another image with *tags*, as pull request 7."""
        image = f"env: {{ABOUT: '{name}', NEW: '1'}}, tags: {tags}}}"
        config.write_text(written.replace(f"env: {{ABOUT: '{name}'}}}}", image))
        assert config.read_text() != written
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "safe.directory=*"]
        where = ["git", "-C", str(runner.workspace), *identity]
        subprocess.run([*where, "commit", "-q", "-a", "-m", "propose"], check=True, capture_output=True)
        head = subprocess.run([*where, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        return head.stdout.strip()

    main, event = runner.commit, dict(runner.environment)
    pull = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/7/merge"}
    runner.commit = proposed(f"[branch-main, 'git-{main}']")
    runner.environment = {**event, **pull}
    refused = runner.run()
    assert refused.code == 2, refused.log
    assert "`branch-main` is no tag: tags that begin with" in refused.log
    assert f"`git-{main}` is no tag" in refused.log
    assert digests_of(local, name) == released

    runner.commit = proposed("['{branch}', latest, production]")
    step = runner.run()
    assert step.code == 0, step.log
    told = "The image does not get `{branch}`, `latest`, `production` of `image.tags`: this run is a proposal, pull-7"
    assert told in step.log
    assert digests_of(local, name) == released
    theirs = digests_of(local, f"{name}-proposals")
    assert [tag for tag in theirs if not tag.startswith(OWN)] == ["branch-pull-7"]
    assert theirs["branch-pull-7"] == step.outputs["digest"]

    # The merge: the same commit on main.
    runner.environment = event
    merged = runner.run()
    assert merged.code == 0, merged.log
    assert merged.outputs["image"].partition("/")[2].partition("@")[0] == name
    assert "found sha256:" not in merged.log
    assert "as it was found before" not in merged.log
    now = digests_of(local, name)
    assert now["latest"] == now["main"] == now[f"git-{runner.commit}"] == merged.outputs["digest"]
    assert now[f"git-{main}"] == released[f"git-{main}"]


#: The beginnings of tags that no one asks for.
OWN = ("addr-", "cache", "dig-", "facts-", "test-")


def digests_of(local: Local, repository: str) -> dict[str, str]:
    """Return what each tag points to, apart from lists of referrers."""
    tags = [tag for tag in tags_of(local, repository) if not tag.startswith("sha256-")]
    return {tag: digest_of(local, repository, tag) for tag in sorted(tags)}


def tags_of(local: Local, repository: str) -> list[str]:
    """Return the tags of a repository in the registry."""
    port = local.environment["AML_TRAIN_EMULATOR_REGISTRY_PORT"]
    with requests.Session() as session:
        session.trust_env = False
        answer = session.get(f"http://127.0.0.1:{port}/v2/{repository}/tags/list", timeout=60).json()
    tags: list[str] = answer.get("tags") or []
    return tags
