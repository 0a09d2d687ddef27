"""The target azure, whole: a workflow's step with an OIDC token, against the emulator in Azure's place."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from aml_train.core.docker import connect_engine
from tests.integration.azure.stand_in import Workflow
from tests.support.emulator_process import Emulator, running
from tests.support.engine_images import forget
from tests.support.oidc_stand_in import AUDIENCE, Provider, serving

BASE = "python:3.11-slim-bookworm"
JOB = f"""\
command: python -c "print('hello from azure')"
environment: {{image: '{BASE}'}}
experiment_name: azure-test
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(Emulator(tmp_path_factory.mktemp("emulator"))) as service:
        yield service
    client = connect_engine(os.environ)
    forget(client, f"localhost:{service.registry_port}/")
    client.close()


@pytest.fixture
def github() -> Iterator[Provider]:
    with serving(Provider(), "127.0.0.1") as provider:
        yield provider


@pytest.fixture
def workflow(emulator: Emulator, github: Provider, tmp_path: Path) -> Workflow:
    return Workflow(emulator, github, tmp_path)


@pytest.fixture
def project(emulator: Emulator, tmp_path: Path) -> Path:
    """A project whose target is the emulator's workspace."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "job.yml").write_text(JOB)
    configure(folder, emulator)
    return folder


def configure(folder: Path, emulator: Emulator, extra: str = "", **changes: str | None) -> None:
    target = emulator.target() | {name.replace("_", "-"): value for name, value in changes.items()}
    target = {name: value for name, value in target.items() if value is not None}
    text = f"job: job.yml\ntarget: azure\ntargets: {json.dumps({'azure': target})}\n{extra}"
    (folder / "aml-train.yml").write_text(text)


@pytest.mark.full
@pytest.mark.parametrize("registry", ["amllocal.azurecr.io", None])
def test_an_image_of_ours_is_pushed_and_trained_in(
    workflow: Workflow, project: Path, emulator: Emulator, github: Provider, registry: str | None
) -> None:
    repository = "azure-test" if registry else "azure-test-found"
    extra = f"image: {{base: '{BASE}', repository: {repository}, azureml-mlflow: false}}\n"
    push = f"localhost:{emulator.registry_port}"
    configure(project, emulator, extra, registry=registry, push_registry=push)
    known = emulator.admin("GET", "requests").json()["total"]
    first = workflow.action(project, command="run")
    assert first.code == 0, first.output
    # The event does not name the default branch: the run only proposes.
    repository = f"{repository}-proposals"
    assert f"amllocal.azurecr.io/{repository}@sha256:" in first.outputs
    # An assertion lives for minutes, and a run longer: each sign-in has a new one.
    entries = emulator.admin("GET", f"requests?since={known}").json()["requests"]
    sign_ins = [
        one for one in entries if one["host"] == "login.microsoftonline.com" and one["path"].endswith("/token")
    ]
    assert len(github.issued) == len(set(github.issued)) >= len(sign_ins) > 1
    with requests.Session() as session:
        session.trust_env = False
        tags = session.get(f"http://127.0.0.1:{emulator.registry_port}/v2/{repository}/tags/list", timeout=60).json()
    assert any(tag.startswith("dig-") for tag in tags["tags"])
    docker = workflow.folder / ".docker" / "config.json"
    assert not docker.exists() or "auths" not in docker.read_text()
    again = workflow.action(project, command="run")
    assert again.code == 0, again.output
    assert "found sha256:" in again.output


@pytest.mark.full
def test_the_engine_signs_in_too_and_the_digest_is_locked(
    workflow: Workflow, project: Path, emulator: Emulator, github: Provider
) -> None:
    """Nothing goes past Azure Container Registry's sign-in; release tags are the commit's branch and the user's."""
    tags = "tags: ['branch-{branch}', 'v1-{address}']"
    extra = f"image: {{base: '{BASE}', repository: azure-signed-in, azureml-mlflow: false, {tags}}}\n"
    configure(project, emulator, extra, push_registry=f"localhost:{emulator.registry_tls_port}")
    for command in (
        ["init", "--quiet", "--initial-branch=elsewhere"],
        ["add", "."],
        ["-c", "user.name=me", "-c", "user.email=me@example.org", "commit", "--quiet", "--message=one"],
        ["checkout", "--quiet", "--detach"],
    ):
        subprocess.run(["git", "-C", str(project), *command], check=True, capture_output=True)
    proposed = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/7/merge"}
    ended = workflow.action(project, command="run", changes=proposed)
    assert ended.code == 0, ended.output
    assert "is not locked" not in ended.output
    assert "may pull from" not in ended.output
    with requests.Session() as session:
        session.trust_env = False
        plain = f"http://127.0.0.1:{emulator.registry_port}/v2/azure-signed-in-proposals"
        found = session.get(f"{plain}/tags/list", timeout=60).json()["tags"]
        (digest,) = [tag for tag in found if tag.startswith("dig-")]
        assert [tag for tag in found if tag.startswith(("branch-", "v1-"))] == ["branch-pull-7"]
    locks = json.loads((emulator.folder / "data" / "registry-attributes.json").read_text())
    assert locks["azure-signed-in-proposals"] == {digest: ["writeEnabled"]}


@pytest.mark.full
def test_the_command_line_with_a_token_file_and_config_json(
    workflow: Workflow, project: Path, emulator: Emulator, tmp_path: Path
) -> None:
    info = emulator.info
    (project / "aml-train.yml").unlink()
    (project / "job.yml").write_text(JOB + f"compute: azureml:{info['compute']}\n")
    (project / ".azureml").mkdir()
    written = {
        "subscription_id": info["subscription_id"],
        "resource_group": info["resource_group"],
        "workspace_name": info["workspace"],
    }
    (project / ".azureml" / "config.json").write_text(json.dumps(written))
    token = tmp_path / "token"
    token.write_text(Provider().token(AUDIENCE))
    ended = workflow.command(project, "run", "--target", "azure", AZURE_FEDERATED_TOKEN_FILE=str(token))
    assert ended.code == 0, ended.output
    assert "Signing in to Azure with the workload identity's token file" in ended.output


@pytest.mark.full
def test_a_base_in_a_registry_of_azure_is_looked_at_by_the_identity(
    workflow: Workflow, project: Path, emulator: Emulator, github: Provider
) -> None:
    """Without ``docker login``: who may push images may see what they are built on."""
    loopback = f"localhost:{emulator.registry_port}/bases/python:1"
    for command in (["tag", BASE, loopback], ["push", "--quiet", loopback], ["image", "rm", loopback]):
        subprocess.run(["docker", *command], check=True, capture_output=True)
    base = "amllocal.azurecr.io/bases/python:1"
    configure(project, emulator, f"image: {{base: '{base}', azureml-mlflow: false}}\n")
    ended = workflow.action(project, command="plan")
    assert ended.code == 0, ended.output
    assert "FROM amllocal.azurecr.io/bases/python@sha256:" in ended.output
    configure(project, emulator, "image: {base: 'amllocal.azurecr.io/bases/none:1', azureml-mlflow: false}\n")
    ended = workflow.action(project, command="plan")
    assert ended.code == 3, ended.output
    assert "is neither in the engine nor in the registry amllocal.azurecr.io" in ended.output


@pytest.mark.full
def test_a_plan_signs_in_nowhere(workflow: Workflow, project: Path, emulator: Emulator) -> None:
    extra = f"image: {{base: '{BASE}', azureml-mlflow: false}}\n"
    configure(project, emulator, extra)
    ended = workflow.command(project, "plan", HTTPS_PROXY="http://127.0.0.1:9")
    assert ended.code == 0, ended.output
    assert "(the workspace's registry)/" in ended.output


@pytest.mark.full
def test_the_json_of_a_service_principal(workflow: Workflow, project: Path, emulator: Emulator) -> None:
    names = {"tenantId": "tenant_id", "clientId": "client_id", "clientSecret": "client_secret"}
    credentials = json.dumps({name: emulator.info[key] for name, key in names.items()})
    ended = workflow.command(project, "run", AZURE_CREDENTIALS=credentials)
    assert ended.code == 0, ended.output
    assert "Signing in to Azure with AZURE_CREDENTIALS" in ended.output
