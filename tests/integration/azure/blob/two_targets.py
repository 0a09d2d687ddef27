"""Two local AzureMLs as two targets of one command: ``local`` by its port, ``azure`` by the process's environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.support.emulator_process import Emulator


@dataclass(frozen=True, kw_only=True)
class TwoTargets:
    """Both emulators, and the folder that commands run in. *peaks*: kilobytes that each command held at most."""

    local: Emulator
    azure: Emulator
    folder: Path
    peaks: list[int] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """Return all that a command knows: the way to ``azure`` in the usual variables, and the port of ``local``."""
        return self.azure.workspace_environment(
            HOME=str(self.folder),
            XDG_CACHE_HOME=str(self.folder / "cache"),
            AML_TRAIN_EMULATOR_PORT=str(self.local.port),
            AML_TRAIN_EMULATOR_REGISTRY_PORT=str(self.local.registry_port),
            AML_TRAIN_EMULATOR_NAME="aml-train-data-test",
        )

    def container(self, emulator: Emulator) -> Any:
        """Return a client of the default datastore's container, past the command."""
        from azure.core.pipeline.transport import RequestsTransport
        from azure.storage.blob import ContainerClient

        identity = json.loads((emulator.folder / "data" / "identity.json").read_text())
        environment = emulator.environment()
        proxy = environment["HTTPS_PROXY"]
        return ContainerClient(
            f"https://{identity['storage_account']}.blob.core.windows.net",
            f"azureml-blobstore-{identity['workspace_id']}",
            credential=identity["storage_key"],
            transport=RequestsTransport(connection_verify=environment["REQUESTS_CA_BUNDLE"], use_env_settings=False),
            proxies={"https": proxy},
        )

    def start(
        self, *arguments: str, stdout: IO[str] | int = subprocess.PIPE, stderr: IO[str] | int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Start ``aml-train data`` with *arguments*."""
        return subprocess.Popen(
            [sys.executable, "-m", "aml_train", "data", *arguments],
            env=self.environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command and return what it printed: on stdout, or on stderr if it is to fail with *code*."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = self.start(*arguments, stdout=out, stderr=err)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.peaks.append(usage.ru_maxrss)
            out.seek(0)
            err.seek(0)
            printed, complaint = out.read(), err.read()
        assert process.returncode == code, f"{arguments} ended with {process.returncode}:\n{printed}\n{complaint}"
        return complaint if code else printed
