"""A passport on the local AzureML with a real registry and real clients, and the tools of others that verify it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import Emulator
from tests.support.signing_project import write_signing_project

CONFIGURATION = """\
job: job.yml
target: azure
model: {name: digits, path: outputs/model}
passport: {policy: policy.yml}
promote: {production: {gate: {acc: '>= 0.5'}, require: [signature, provenance, tests]}}
"""


class Workspace:
    """A workspace with a signed model."""

    def __init__(self, emulator: Emulator, folder: Path) -> None:
        self.emulator, self.folder = emulator, folder
        write_signing_project(folder, CONFIGURATION)
        self.made = self.step("prepare", port=emulator.registry_port, folder=str(folder))

    def run(self, *argv: str, code: int = 0) -> str:
        done = self.emulator.python(self.folder, *argv, code=code, PASS="sesame", OTEL_SDK_DISABLED="true")
        assert "sesame" not in done.stdout + done.stderr
        return done.stdout + done.stderr * (argv[0] == "-m")

    def step(self, name: str, **arguments: Any) -> Any:
        said = self.run(str(Path(__file__).with_name("passport_worker.py")), name, json.dumps(arguments))
        return json.loads(said.splitlines()[-1])

    def aml_train(self, *arguments: str, code: int = 0) -> str:
        return self.run("-m", "aml_train", *arguments, code=code)


@pytest.fixture(scope="module")
def place(instant: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(instant, tmp_path_factory.mktemp("passport"))


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
