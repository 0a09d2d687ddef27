"""The command ``image prune`` against the local AzureML's registry: a whole clean-up, kills, and two at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import OCI_INDEX, OCI_MANIFEST, sha256_digest
from tests.support import emulator_client
from tests.support.emulator_process import Emulator

HOST = "amllocal.azurecr.io"
PLACE = "octo/digits"
DAY = 86_400.0
CONFIG = f"""\
job: {{command: "true"}}
image: {{base: python:3.11, repository: {PLACE}}}
target: azure
targets:
  azure: {{subscription-id: %s, resource-group: %s, workspace: %s, registry: {HOST}}}
"""


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    service = Emulator(tmp_path / "emulator")
    service.folder.mkdir()
    service.start()
    yield service
    service.stop()


@pytest.fixture
def registry(emulator: Emulator) -> Iterator[Registry]:
    """The registry without sign-in and locks."""
    with Registry(f"http://127.0.0.1:{emulator.registry_port}") as client:
        yield client


@pytest.fixture
def project(emulator: Emulator, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    info = emulator.info
    names = (info["subscription_id"], info["resource_group"], info["workspace"])
    (folder / "aml-train.yml").write_text(CONFIG % names)
    return folder


def _push(registry: Registry, text: str, *tags: str, place: str = PLACE, **members: Any) -> str:
    config = registry.upload_blob(place, json.dumps({"text": text}).encode())
    kind = "application/vnd.oci.image.config.v1+json"
    document: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": {"mediaType": kind, "digest": config, "size": 10},
        "layers": [],
        **members,
    }
    if document["mediaType"] == OCI_INDEX:
        document = {key: value for key, value in document.items() if key not in ("config", "layers")}
    content = json.dumps(document).encode()
    media_type = str(document["mediaType"])
    digest = ""
    for tag in tags or (sha256_digest(content),):
        digest = registry.put_manifest(place, tag, content, media_type)
    return digest


def _release(registry: Registry, text: str, *more: str, **members: Any) -> str:
    digest = _push(registry, text, f"git-{text:0>40}"[:44], *more, **members)
    manifest = registry.get_manifest(PLACE, digest)
    assert manifest is not None
    for tag in (f"addr-{digest[7:47]}", f"dig-{digest[7:]}"):
        registry.put_tag(PLACE, tag, manifest)
    return digest


def _age(emulator: Emulator, days: float) -> None:
    """Have everything in the registry be so many days old."""
    when = time.time() - days * DAY
    for place, folders, files in os.walk(emulator.folder / "data"):
        if "repositories" in place:
            for name in (*folders, *files):
                os.utime(Path(place, name), (when, when))


def _start(emulator: Emulator, project: Path, *options: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "aml_train", "image", "prune", "-C", str(project), *options]
    return subprocess.Popen(
        program, env=emulator.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _prune(emulator: Emulator, project: Path, *options: str) -> tuple[int, str, str]:
    process = _start(emulator, project, *options)
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def _digests(emulator: Emulator, place: str = PLACE) -> set[str]:
    root = emulator.folder / "data/registry/docker/registry/v2/repositories"
    folder = root / place / "_manifests/revisions/sha256"
    return {f"sha256:{one.name}" for one in folder.iterdir() if (one / "link").exists()}


def _register(emulator: Emulator, path: str, properties: dict[str, Any]) -> None:
    info = emulator.info
    place = f"subscriptions/{info['subscription_id']}/resourceGroups/{info['resource_group']}"
    base = f"https://management.azure.com/{place}/providers/Microsoft.MachineLearningServices/workspaces/{info['workspace']}"
    environment = emulator.environment()
    with emulator_client.session_for(environment) as session:
        token = emulator_client.token(session, environment)
        answer = session.put(
            f"{base}{path}?api-version=2023-08-01-preview",
            json={"properties": properties},
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        )
        assert answer.ok, answer.text


def test_a_whole_clean_up(emulator: Emulator, registry: Registry, project: Path) -> None:
    of_model, of_environment, main = (_release(registry, text) for text in ("1", "2", "3"))
    branch = registry.get_manifest(PLACE, main)
    assert branch is not None
    registry.put_tag(PLACE, "branch-main", branch)
    child = _push(registry, "child")
    listed = {"digest": child, "size": 10, "mediaType": OCI_MANIFEST}
    old = {_release(registry, "4"), _release(registry, "5", mediaType=OCI_INDEX, manifests=[listed]), child}
    signature = _push(registry, "signature", subject={"digest": of_model, "size": 10, "mediaType": OCI_MANIFEST})
    lost = _push(registry, "lost")
    _push(registry, "candidate", "candidate-x", place=f"{PLACE}-candidate")
    _age(emulator, 100)
    new = _push(registry, "pushed today")
    _register(
        emulator,
        "/models/digits/versions/1",
        {"modelUri": "azureml://datastores/workspaceblobstore/paths/m", "tags": {"aml-train.image-digest": of_model}},
    )
    _register(emulator, "/environments/digits/versions/1", {"image": f"{HOST}/{PLACE}@{of_environment}"})
    stay = {of_model, of_environment, main, signature, new}

    code, out, err = _prune(emulator, project, "--dry-run", "--json")
    assert code == 0, err
    planned = json.loads(out)
    assert {one["digest"] for one in planned["delete"] if one["repository"] == PLACE} == old | {lost}
    assert planned["dry_run"]

    code, out, err = _prune(emulator, project, "--dry-run")
    assert code == 0, err
    assert "5 of 10 manifests would be deleted" in out
    assert "used by the model digits:1" in out
    assert _digests(emulator) == stay | old | {lost}

    code, out, err = _prune(emulator, project)
    assert code == 0, err
    assert "5 of 10 manifests deleted" in out
    assert _digests(emulator) == stay
    assert _digests(emulator, f"{PLACE}-candidate") == set()

    code, out, err = _prune(emulator, project)
    assert "0 of 5 manifests deleted" in out
