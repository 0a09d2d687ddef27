"""Promotion into another workspace of the local AzureML, whose images are in another registry, by the real clients."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.emulator_process import Emulator
from tests.support.registry_process import serve_registry
from tests.support.signing_project import write_signing_project

VERSIONS = 2
CONFIGURATION = """\
job: job.yml
target: azure
targets:
  azure: {workspace: local}
  prod: {workspace: prod, registry: "127.0.0.1:PORT"}
model: {name: digits, path: outputs/model}
passport: {policy: policy.yml}
promote:
  production:
    to: {workspace: prod}
    gate: {acc: '>= baseline'}
    bootstrap: true
    require: [signature, provenance, tests]
"""


class Place:
    """Two workspaces, of which the second has a registry of its own."""

    def __init__(self, emulator: Emulator, folder: Path, registry: int) -> None:
        self.emulator, self.folder, self.registry = emulator, folder, registry
        assert emulator.admin("POST", "workspaces?name=prod").status_code in (200, 201)
        write_signing_project(folder, CONFIGURATION.replace("PORT", str(registry)))
        self.made = self.step("prepare", port=emulator.registry_port, folder=str(folder), versions=VERSIONS)

    def run(self, *argv: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.emulator.python(
            self.folder, *argv, code=code, PASS="sesame", AML_TRAIN_ACTOR="ann", OTEL_SDK_DISABLED="true"
        )

    def step(self, name: str, **arguments: Any) -> Any:
        worker = str(Path(__file__).with_name("crossing_worker.py"))
        return json.loads(self.run(worker, name, json.dumps(arguments)).stdout.splitlines()[-1])

    def aml_train(self, *arguments: str, code: int = 0) -> str:
        done = self.run("-m", "aml_train", *arguments, code=code)
        return done.stdout + done.stderr

    def versions(self, target: str) -> dict[str, Any]:
        lines = self.aml_train("model", "list", "digits", "--versions", "--json", "--target", target).splitlines()
        return {one["version"]: one for one in map(json.loads, lines)}

    def image(self, digest: str) -> requests.Response:
        return requests.get(
            f"http://127.0.0.1:{self.registry}/v2/digits/manifests/{digest}",
            headers={"Accept": "application/vnd.oci.image.manifest.v1+json"},
            timeout=30,
        )


@pytest.fixture(scope="module")
def place(instant: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("registry")
    with serve_registry(folder) as registry:
        yield Place(instant, tmp_path_factory.mktemp("crossing"), registry)


def kinds(step: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield step["kind"], step["state"]
    for part in step["parts"]:
        yield from kinds(part)


@pytest.mark.full
def test_a_version_gets_into_another_workspace_by_its_digest_whatever_interrupts_it(place: Place) -> None:
    digest = place.made[0]["digest"]
    dry = place.aml_train("promote", "digits:1", "--to", "production", "--dry-run")
    assert "digits version 1 would be in production of the workspace prod as version 1" in dry
    assert place.image(digest).status_code == 404

    done = place.step("walk")
    # Blobs and manifests of image, referrers and record, the files, the version, the passport, records and tags.
    assert len(done["writes"]) > 15, done["writes"]
    assert len(set(done["writes"])) > 10
    assert "digits version 1 is in production of the workspace prod as version 1" in done["first"]
    assert done["again"] == [
        "digits version 1 is in production of the workspace prod as version 1 already: nothing was changed."
    ]
    here, there = done["records"]
    assert here == there
    assert len(here) == 1
    assert done["second"] == "digits version 2 is in production of the workspace prod as version 2 after version 1."
    assert "acc = 0.801, wanted >= 0.802 (that of digits version 2" in done["worse"]
    assert done["back"] == "digits version 1 is in production of the workspace prod again; version 2 is archived."
    assert done["forth"] == done["second"]
    assert done["there"] == {"1": "archived", "2": "production"}
    assert done["here"] == {"1": None, "2": None}

    digest = place.made[1]["digest"]
    copied = place.image(digest)
    assert copied.headers["Docker-Content-Digest"] == digest
    assert place.image(f"dig-{digest.removeprefix('sha256:')}").content == copied.content
    lineage = json.loads(place.aml_train("model", "lineage", "digits@production", "--target", "prod", "--json"))
    assert dict(kinds(lineage)) == {
        **dict.fromkeys(("model", "files", "image", "tests"), "verified"),
        **dict.fromkeys(("job", "commit"), "recorded"),
    }
    verified = place.aml_train("verify", "digits@production", "--target", "prod")
    assert "✓ signature  signed" in verified
    assert "✓ manifest   recomputed" in verified
    place.aml_train("model", "download", "digits@production", "--target", "prod", "-o", "there")
    assert (place.folder / "there" / "weights").read_text() == "7v2"
    shown = json.loads(place.aml_train("model", "show", "digits:2", "--json"))["promotions"]
    assert [(one["what"], one["copied to"].endswith("(version 2)")) for one in shown] == [
        ("promote to production", True)
    ] * 2

    # What was copied is looked up each time: nobody can put other files in its place.
    place.step("tamper", path="weights")
    changed = place.aml_train("promote", "digits:2", "--to", "production", "--yes", code=6)
    assert "digits version 2 in the workspace prod is not what was copied: files " in changed
