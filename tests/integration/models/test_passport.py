"""A passport on the local AzureML with a real registry and real clients, and the tools of others that verify it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
)

from tests.support.emulator_process import ROOT, Emulator

SECONDS = 600
INSTANT = str(ROOT / "tests/support/instant_emulator.py")
CONFIGURATION = """\
job: job.yml
target: azure
model: {name: digits, path: outputs/model}
passport: {policy: policy.yml}
promote: {production: {gate: {acc: '>= 0.5'}, require: [signature, provenance, tests]}}
"""


class Workspace:
    """A workspace with a signed model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.emulator = Emulator(folder, command=(INSTANT,), environment={"PYTHONPATH": f"{ROOT}:{ROOT / 'runner'}"})
        self.emulator.start()
        key = ec.generate_private_key(ec.SECP256R1())
        secret = BestAvailableEncryption(b"sesame")
        (folder / "signing.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (folder / "signing.pub").write_bytes(public)
        (folder / "policy.yml").write_text("keys: [signing.pub]\nrequire: [signature, provenance, tests]\n")
        (folder / "aml-train.yml").write_text(CONFIGURATION)
        (folder / "code").mkdir()
        (folder / "code" / "train.py").write_text("print('training')\n")
        self.made = self.step("prepare", port=self.emulator.registry_port, folder=str(folder))

    def environment(self) -> dict[str, str]:
        info = self.emulator.info
        return {
            **self.emulator.environment(),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'runner'}",
            "AZURE_SUBSCRIPTION_ID": info["subscription_id"],
            "AML_RESOURCE_GROUP": info["resource_group"],
            "AML_WORKSPACE": info["workspace"],
            "AML_TRAIN_SIGN_IN": "secret",
            "PASS": "sesame",
            "OTEL_SDK_DISABLED": "true",
        }

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *argv],
            env=self.environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def step(self, name: str, **arguments: Any) -> Any:
        done = self.run(str(Path(__file__).with_name("passport_worker.py")), name, json.dumps(arguments))
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.emulator.log.read_text()[-3000:]}"
        assert "sesame" not in done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def aml_train(self, *arguments: str, code: int = 0) -> str:
        done = self.run("-m", "aml_train", *arguments)
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path_factory.mktemp("passport"))
    yield workspace
    workspace.emulator.stop()


@pytest.mark.full
def test_a_signed_model_is_verified_promoted_and_refused_once_a_byte_changes(place: Workspace) -> None:
    assert place.made["left_out"] == []
    stated = place.made["statement"]["predicate"]
    assert (stated["code"]["files"], stated["files"]["files"]) == (1, 2)
    found = json.loads(place.aml_train("verify", "digits", "--json").partition("\nnote")[0])
    bases = {one["claim"]: one["basis"] for one in found["claims"]}
    assert {bases[name] for name in ("files", "image", "tests", "provenance", "code", "gate", "referrer")} == {
        "recomputed"
    }
    assert bases["signature"] == "signed"
    # The registry under its Azure name has the interface of referrers.
    assert place.made["digest"] in json.dumps(place.made["statement"])

    place.aml_train("model", "passport", "digits", "--output", "signed")
    assert {file.name for file in (place.folder / "signed").iterdir()} == {"model.sig", "passport.sigstore.json"}

    dry = place.aml_train("promote", "digits:1", "--to", "production", "--dry-run")
    assert "digits version 1 would be in production" in dry
    place.step("tamper", path="weights")
    told = place.aml_train("verify", "digits", code=9)
    assert "the model's files are not those that were signed: changed: weights" in told
    refused = place.aml_train("promote", "digits:1", "--to", "production", "--yes", code=6)
    assert "is foreign" in refused
    assert "changed: weights" in refused
