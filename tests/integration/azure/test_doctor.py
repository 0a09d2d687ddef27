"""`aml-train doctor` against the emulator in Azure's place: each planted fault is found, and nothing is changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import ROOT, Emulator

SECONDS = 300
#: Without it every check of Azure passes; nothing needs the engine.
NO_ENGINE = "tcp://127.0.0.1:9"
BASE = "amllocal.azurecr.io/bases/none:1"


@dataclass
class Machine:
    """A machine with a project; `changes` are variables, None removes one."""

    emulator: Emulator
    folder: Path
    target: dict[str, Any] = field(default_factory=dict)
    extra: str = ""
    job: str = ""
    changes: dict[str, str | None] = field(default_factory=dict)
    file: str | None = None

    def write(self) -> None:
        target = {**self.emulator.target(), **self.target}
        (self.folder / "job.yml").write_text(f"command: say hello\nenvironment: {{image: 'python:3.11'}}\n{self.job}")
        text = f"job: job.yml\ntarget: azure\ntargets: {json.dumps({'azure': target})}\n{self.extra}"
        (self.folder / "aml-train.yml").write_text(self.file if self.file is not None else text)

    def environment(self) -> dict[str, str]:
        known = {**self.emulator.environment(), "PYTHONPATH": str(ROOT / "runner"), "DOCKER_HOST": NO_ENGINE}
        changed = {**known, **self.changes}
        return {name: value for name, value in changed.items() if value is not None}

    def doctor(self, *options: str) -> subprocess.CompletedProcess[str]:
        self.write()
        return subprocess.run(
            [sys.executable, "-m", "aml_train", "doctor", *options],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def checks(self) -> tuple[int, dict[str, dict[str, str]]]:
        ended = self.doctor("--json")
        assert "Traceback" not in ended.stderr
        found = json.loads(ended.stdout)
        assert found["exit_code"] == ended.returncode, ended.stdout
        assert found["ok"] == (ended.returncode == 0)
        return ended.returncode, {one["name"]: one for one in found["checks"]}

    def fault(self, kind: str, **query: str) -> None:
        text = "&".join(f"{name}={value}" for name, value in {"kind": kind, **query}.items())
        self.emulator.admin("POST", f"faults?{text}").raise_for_status()

    def roles(self, place: str, *names: str) -> None:
        self.emulator.admin("POST", f"roles?place={place}&roles={','.join(names)}").raise_for_status()


@pytest.fixture
def machine(instant: Emulator, tmp_path: Path) -> Iterator[Machine]:
    folder = tmp_path / "project"
    folder.mkdir()
    yield Machine(instant, folder)
    for path in ("faults", "roles", "federated-credentials"):
        instant.admin("DELETE", path).raise_for_status()


def test_a_machine_without_a_fault(machine: Machine) -> None:
    code, checks = machine.checks()
    assert (code, {one["status"] for one in checks.values()}) == (0, {"ok", "skipped"})
    assert {name for name, one in checks.items() if one["status"] == "skipped"} == {
        "engine", "registry-role",
    }  # fmt: skip
    tenant = machine.emulator.info["tenant_id"]
    assert f"tenant {tenant}, with the service principal's secret" in checks["sign-in"]["found"]
    shown = machine.doctor()
    assert shown.returncode == 0, shown.stderr
    assert "✓ workspace: local in eastus" in shown.stdout
    assert "\x1b[" not in shown.stdout
    assert shown.stdout.rstrip().endswith("checks are done.")


Plant = Callable[[Machine], object]
IMAGE = f"image: {{base: '{BASE}', azureml-mlflow: false}}\n"


def target(**changes: Any) -> Plant:
    return lambda machine: machine.target.update({name.replace("_", "-"): value for name, value in changes.items()})


def variables(**changes: str | None) -> Plant:
    return lambda machine: machine.changes.update(changes)


def faulty(kind: str, **query: str) -> Plant:
    return lambda machine: machine.fault(kind, **query)


def with_image(plant: Plant) -> Plant:
    def both(machine: Machine) -> None:
        machine.extra = IMAGE
        plant(machine)

    return both


def wrong_key(machine: Machine) -> None:
    machine.file = "job: job.yml\ntarget: azure\nimge: {}\n"


NOBODY = "00000000-0000-0000-0000-000000000000"
BLOBS = "*.blob.core.windows.net"
ROLE = "az role assignment create --assignee-object-id"

#: Fault → how it is planted, the check that finds it, its status, the exit code, and the command that mends it.
PLANTED: Mapping[str, tuple[Plant, str, str, int, str]] = {
    "no role in the workspace": (
        lambda machine: machine.roles("workspace", "Reader"), "workspace-role", "failed", 8,
        "--role 'AzureML Data Scientist' --scope /subscriptions/",
    ),
    "may not push": (
        with_image(lambda machine: machine.roles("registry", "AcrPull")), "registry-role", "failed", 2,
        f"{ROLE}|--role AcrPush --scope /subscriptions/",
    ),
    "may not delete": (
        with_image(lambda machine: machine.roles("registry", "AcrPush")), "registry-role", "warning", 2,
        "--role AcrDelete",
    ),
    "no registry": (
        faulty("status", status="404", path="*/registries/*", code="ResourceNotFound"), "registry", "failed", 8, "targets.NAME.registry",
    ),
    "a registry that may not be seen": (
        faulty("status", status="403", path="*/registries/*", code="AuthorizationFailed"), "registry", "failed", 8, "the role Reader",
    ),
    "unknown tenant": (variables(AZURE_TENANT_ID=NOBODY), "sign-in", "failed", 8, "AZURE_TENANT_ID"),
    "other tenant": (
        faulty("status", status="401", method="GET", path="*/workspaces/local", code="InvalidAuthenticationTokenTenant"),
        "workspace", "failed", 8, "AZURE_TENANT_ID|az login --tenant",
    ),
    "wrong secret": (variables(AZURE_CLIENT_SECRET="not-the-secret"), "sign-in", "failed", 8, "The client secret is wrong"),
    "nothing to sign in with": (
        variables(AZURE_CLIENT_SECRET=None, CI="true"), "sign-in", "failed", 8, "az login|AML_TRAIN_SIGN_IN"
    ),
    "a login that is missing": (
        variables(AML_TRAIN_SIGN_IN="cli"), "sign-in", "failed", 8, "az login --tenant"
    ),
    "wrong subscription": (
        target(subscription_id=NOBODY), "workspace", "failed", 8, "subscription-id"
    ),
    "wrong workspace": (target(workspace="locla"), "workspace", "failed", 8, "workspace of the target|Did you mean local?"),
    "wrong resource group": (target(resource_group="elsewhere"), "workspace", "failed", 8, "resource-group"),
    "wrong compute": (target(compute="local-clutser"), "compute", "failed", 2, "az ml compute create"),
    "too few nodes": (
        lambda machine: setattr(machine, "job", "resources: {instance_count: 5}\n"), "compute", "failed", 8,
        "az ml compute update --name local-cluster --max-instances 5",
    ),
    "no role for the storage": (
        faulty("status", status="403", host=BLOBS, code="AuthorizationPermissionMismatch"), "storage", "failed", 8,
        "'Storage Blob Data Contributor'",
    ),
    "firewall of the storage": (
        faulty("status", status="403", host=BLOBS, code="AuthorizationFailure"), "storage", "failed", 8, "firewall",
    ),
    "blocked storage": (faulty("outage", host=BLOBS), "storage", "failed", 8, "HTTPS_PROXY"),
    "blocked sign-in": (faulty("outage", host="login.microsoftonline.com"), "sign-in", "failed", 8, "HTTPS_PROXY"),
    "proxy that is away": (variables(HTTPS_PROXY="http://127.0.0.1:9"), "sign-in", "failed", 8, "HTTPS_PROXY"),
    "unknown authority": (
        variables(REQUESTS_CA_BUNDLE="/etc/ssl/certs/ca-certificates.crt"), "sign-in", "failed", 8, "the CA bundle"
    ),
    "outage": (faulty("status", status="503", path="*/computes/*"), "compute", "failed", 8, "https://azure.status.microsoft"),
    "engine that is away": (with_image(lambda _machine: None), "engine", "failed", 2, "systemctl start docker"),
    "no base image": (with_image(lambda _machine: None), "base-image", "failed", 2, f"docker manifest inspect {BASE}"),
    "a configuration with a fault": (wrong_key, "configuration", "failed", 2, "aml-train"),
    "an unnamed workspace": (target(workspace=""), "configuration", "failed", 2, "aml-train"),
}  # fmt: skip


#: A fault of the workspace and one of the machine; the others find no other code on their way.
CORE = {"other tenant", "a configuration with a fault"}


@pytest.mark.parametrize(
    "name", [one if one in CORE else pytest.param(one, marks=pytest.mark.full) for one in PLANTED]
)
def test_a_planted_fault_is_found_with_the_command_that_mends_it(machine: Machine, name: str) -> None:
    plant, check, status, expected, remedies = PLANTED[name]
    plant(machine)
    code, checks = machine.checks()
    assert (checks[check]["status"], code) == (status, expected), checks
    for remedy in filter(None, remedies.split("|")):
        assert remedy in checks[check]["remedy"]


def dump(folder: Path) -> dict[str, str]:
    """Return what is stored: rows of databases, and digests of blobs and of the registry's files."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".sqlite", ".db", ".sqlite3"):
            with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                found[str(path)] = "\n".join(database.iterdump())
        elif path.is_file() and ("registry" in path.parts or "__blobstorage__" in path.parts):
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


TOKENS = ("/oauth2/v2.0/token", "/oauth2/exchange", "/oauth2/token", "/listSecrets")


def test_nothing_is_changed(machine: Machine) -> None:
    data = machine.emulator.folder / "data"
    machine.extra = IMAGE
    machine.target["compute"] = {"name": "new-one", "size": "Standard_DS3_v2"}
    before, known = dump(data), machine.emulator.admin("GET", "requests").json()["total"]
    assert any("sqlite" in name or name.endswith(".db") for name in before)
    _, checks = machine.checks()
    assert checks["compute"]["found"] == "new-one (Standard_DS3_v2) is created by the first run"
    assert checks["registry-role"]["status"] == "ok"
    requests = machine.emulator.admin("GET", f"requests?since={known}").json()["requests"]
    assert len(requests) > 10
    others = [one for one in requests if one["method"] not in ("GET", "HEAD")]
    assert [one for one in others if one["method"] != "POST" or not one["path"].endswith(TOKENS)] == []
    assert dump(data) == before
