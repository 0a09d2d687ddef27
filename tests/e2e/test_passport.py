"""A whole run that signs its model, with everything real, and a byte that is changed in the storage afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
)

from tests.e2e.conftest import TIMEOUT, Local

SECTIONS = """\
passport: {key: signing.pem, passphrase-env: SIGNING, policy: policy.yml}
promote:
  production: {gate: {val/accuracy: ['>= 0.5']}, require: [signature, provenance, tests]}
"""


def sign_with_key(project: Path) -> None:
    """Have the project's models signed by a new key."""
    key = ec.generate_private_key(ec.SECP256R1())
    secret = BestAvailableEncryption(b"sesame")
    (project / "signing.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (project / "signing.pub").write_bytes(public)
    (project / "policy.yml").write_text("keys: [signing.pub]\nrequire: [signature, provenance, tests]\n")
    config = project / "aml-train.yml"
    config.write_text(f"{config.read_text()}{SECTIONS}")


def aml_train(local: Local, project: Path, *arguments: str, code: int = 0) -> str:
    """Run another command in the project; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "aml_train", *arguments],
        cwd=project,
        env=dict(local.environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.full
def test_a_run_signs_its_model_and_a_changed_byte_is_refused(local: Local, digits: Path, tmp_path: Path) -> None:
    local = replace(local, environment={**local.environment, "SIGNING": "sesame"})
    sign_with_key(digits)
    run = local.run(digits)
    assert run.code == 0, run.output
    assert "sesame" not in run.output
    assert "PRIVATE KEY" not in run.output
    registered = run.only("model-registered")
    model = f"{registered['model']}:{registered['version']}"

    found = json.loads(aml_train(local, digits, "verify", model, "--json").partition("\nnote")[0])
    bases = {one["claim"]: one["basis"] for one in found["claims"]}
    again = ("files", "manifest", "image", "tests", "provenance", "code", "gate", "metrics", "referrer", "lineage")
    assert {name: bases[name] for name in again} == dict.fromkeys(again, "recomputed")
    assert bases["signature"] == "signed"
    assert "would be in production" in aml_train(local, digits, "promote", model, "--to", "production", "--dry-run")

    job = run.only("job-submitted")["job"]
    place = f"azureml://datastores/workspaceartifactstore/paths/ExperimentRun/dcid.{job}/outputs/model"
    aml_train(local, digits, "data", "download", place, str(tmp_path / "model"))
    file = next(path for path in sorted((tmp_path / "model").rglob("*")) if path.is_file())
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    aml_train(local, digits, "data", "upload", str(tmp_path / "model"), place)

    changed = f"the model's files are not those that were signed: changed: {file.relative_to(tmp_path / 'model')}"
    assert changed in aml_train(local, digits, "verify", model, code=9)
    refused = aml_train(local, digits, "promote", model, "--to", "production", "--yes", code=6)
    assert "is foreign" in refused
    assert changed in refused
