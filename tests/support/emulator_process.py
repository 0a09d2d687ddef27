"""The local AzureML as a process, and clients as processes that know nothing but the environment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.support.answers import VARIABLE
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
SOURCES = os.pathsep.join((str(ROOT), str(ROOT / "runner")))
_STEPS = ROOT / "tests/integration/emulator"
CLIENT_SECONDS = 900
"""For a step of a client. Only what hangs takes so long, even on a machine under load; so do the waits below."""


def azurite() -> str:
    """Return the command that runs Azurite: from the environment, the path, or where scripts/bootstrap puts it."""
    local = ROOT / ".aml-train" / "bin" / "azurite-blob"
    found = os.environ.get("AML_EMULATOR_AZURITE") or shutil.which("azurite-blob") or (str(local) * local.exists())
    if not found:
        raise RuntimeError(
            "Azurite is not installed: python3 -m scripts.bootstrap --for services, or set AML_EMULATOR_AZURITE"
        )
    return found


def azurite_modules() -> Path | None:
    """Return the folder of Azurite's modules, among them its database lokijs; None if it has no such folder."""
    modules = next((folder for folder in Path(azurite()).resolve().parents if folder.name == "node_modules"), None)
    return modules if modules is not None and (modules / "lokijs").is_dir() else None


def python_of_v1() -> str:
    """Return the Python that has azureml-core, whose pins keep it apart from everything else."""
    local = ROOT / ".aml-train" / "client-v1" / "bin" / "python"
    found = os.environ.get("AML_TRAIN_CLIENT_V1") or (str(local) * local.exists())
    if not found:
        raise RuntimeError(
            "azureml-core is not installed: python3 -m scripts.bootstrap --for client-v1, or set AML_TRAIN_CLIENT_V1"
        )
    return found


@contextmanager
def instant_emulator(folder: Path, *, record: bool = False) -> Iterator[Emulator]:
    """Run an emulator whose jobs need no containers, and end at once: see `tests.support.instant_emulator`."""
    command = ("-m", "tests.support.instant_emulator")
    service = Emulator(folder, command=command, environment={"PYTHONPATH": SOURCES}, record=record)
    service.start()
    try:
        yield service
    finally:
        service.stop()


@contextmanager
def running(service: Emulator) -> Iterator[Emulator]:
    """Run an emulator; at the end its jobs are cancelled, and all that it keeps is removed."""
    service.start()
    yield service
    service.admin("POST", "reset?force=1")
    service.stop()


class Emulator:
    """An emulator that can be stopped and started again on the same data and ports.

    Args:
        folder: of its data and its log.
        command: what Python is told to run; the emulator itself by default.
        environment: variables on top of this process's own.
        record: have every answer written down, for `recorded`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        command: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        record: bool = False,
    ) -> None:
        self.folder = folder
        self.command = command or ("-m", "tests.support.answers" if record else "aml_emulator")
        self.variables = dict(environment or {})
        self.log = folder / "log.txt"
        self.record = folder / "record.jsonl" if record else None
        # None that outgoing connections can have: it is started again on the same ones.
        self.port = free_port()
        self.registry_port = free_port()
        self.registry_tls_port = free_port()
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> dict[str, Any]:
        """Start it and return what its readiness line says."""
        argv = [sys.executable, *self.command, "serve", "--data", str(self.folder / "data")]
        argv += ["--port", str(self.port), "--registry-port", str(self.registry_port)]
        argv += ["--registry-tls-port", str(self.registry_tls_port)]
        argv += ["--azurite", azurite()]
        clean = {key: value for key, value in os.environ.items() if not key.startswith("AML_EMULATOR_")}
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                argv,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**clean, **self._environment(), **self.variables},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the emulator does not start: {self.log.read_text()}")
        ready: dict[str, Any] = json.loads(line)
        self.port, self.registry_port = ready["port"], ready["registry_port"]
        self.registry_tls_port = ready["registry_tls_port"]
        return ready

    def _environment(self) -> dict[str, str]:
        if self.record is None:
            return {"PYTHONPATH": str(ROOT / "runner")}
        return {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runner"))), VARIABLE: str(self.record)}

    def stop(self) -> None:
        """Stop it; fail unless it ends well, and by itself."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=600)
        self.process.stdout.close()
        assert code == 0, self.log.read_text()

    def admin(self, method: str, path: str) -> requests.Response:
        """Ask the emulator's own interface."""
        with requests.Session() as session:
            session.trust_env = False
            return session.request(method, f"http://127.0.0.1:{self.port}/_emulator/{path}", timeout=600)

    def recorded(self) -> Iterator[dict[str, Any]]:
        """Yield every answer of the service so far, without secrets; see `tests.contracts`."""
        assert self.record is not None
        with self.record.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)

    @property
    def info(self) -> dict[str, Any]:
        """What a client must know."""
        answer = self.admin("GET", "info")
        answer.raise_for_status()
        value: dict[str, Any] = answer.json()
        return value

    def environment(self) -> dict[str, str]:
        """Return all that a client is told: proxy, trust, and whom to sign in as."""
        info = self.info
        bundle = self.folder / "ca-bundle.pem"
        system = Path("/etc/ssl/certs/ca-certificates.crt")
        bundle.write_text((system.read_text() if system.exists() else "") + info["ca_pem"])
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder),
            "HTTPS_PROXY": f"http://127.0.0.1:{self.port}",
            "NO_PROXY": "localhost,127.0.0.1",
            "REQUESTS_CA_BUNDLE": str(bundle),
            "SSL_CERT_FILE": str(bundle),
            "AZURE_TENANT_ID": info["tenant_id"],
            "AZURE_CLIENT_ID": info["client_id"],
            "AZURE_CLIENT_SECRET": info["client_secret"],
            # A thread of MLflow's telemetry changes os.environ while requests reads it.
            "MLFLOW_DISABLE_TELEMETRY": "true",
        }

    def target(self) -> dict[str, str]:
        """Return its workspace and cluster as a target of a configuration names them."""
        info = self.info
        names = {"subscription-id": "subscription_id", "resource-group": "resource_group"}
        return {key: info[names.get(key, key)] for key in (*names, "workspace", "compute")}

    def workspace_environment(self, **changes: str) -> dict[str, str]:
        """Return what aml-train of this checkout must know to take the workspace for one in Azure, without a configuration."""
        target = self.target()
        return {
            **self.environment(),
            "PYTHONPATH": SOURCES,
            "AZURE_SUBSCRIPTION_ID": target["subscription-id"],
            "AML_RESOURCE_GROUP": target["resource-group"],
            "AML_WORKSPACE": target["workspace"],
            "AML_TRAIN_SIGN_IN": "secret",
            **changes,
        }

    def python(
        self, folder: Path, *arguments: str, code: int | None = 0, **changes: str
    ) -> subprocess.CompletedProcess[str]:
        """Run this Python in *folder*, with *changes* of `workspace_environment`; fail unless it ends with *code*."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=self.workspace_environment(**changes),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CLIENT_SECONDS,
            check=False,
        )
        if code is not None and done.returncode != code:
            tail = self.log.read_text()[-4000:]
            raise RuntimeError(f"it ended with {done.returncode}:\n{done.stdout}\n{done.stderr}\nthe log:\n{tail}")
        return done

    def client(
        self,
        step: str,
        *,
        script: str = "client_steps.py",
        seconds: float = CLIENT_SECONDS,
        python: str = sys.executable,
        **arguments: str,
    ) -> dict[str, Any]:
        """Run one step of *script* in a process of its own; return what it says on its last line, JSON."""
        info = self.info
        scope = {
            "subscription": info["subscription_id"],
            "group": info["resource_group"],
            "workspace": info["workspace"],
            "compute": info["compute"],
            "folder": str(self.folder),
        }
        done = subprocess.run(
            [
                python,
                str(_STEPS / script),
                step,
                json.dumps({**scope, **arguments}),
            ],
            env=self.environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        if done.returncode != 0:
            tail = self.log.read_text()[-4000:]
            raise RuntimeError(
                f"the client failed:\n{done.stdout[-4000:]}\n{done.stderr[-6000:]}\nthe emulator's log:\n{tail}"
            )
        value: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return value
