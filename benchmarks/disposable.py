"""A separate Docker engine and registry, in a separate network namespace.

The engine can be emptied at will.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

READY_SECONDS = 30.0
REGISTRY = "localhost:5000"
_TOOLS = ("unshare", "nsenter", "ip", "dockerd", "docker-registry")


def missing() -> str | None:
    """Return why there can be no such engine here, None if there can."""
    if os.geteuid() != 0:
        return "it takes root: an engine in a separate network namespace is started"
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"these are not installed: {', '.join(absent)}" if absent else None


class CommandError(RuntimeError):
    """A command failed; the message has its last words."""


class Disposable:
    """An engine without images, and a registry; reached only inside the namespace.

    Args:
        folder: where both keep everything.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._engine: subprocess.Popen[bytes] | None = None
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        time.sleep(0.2)  # until it is in its namespace
        self.run(["ip", "link", "set", "lo", "up"])
        config = _registry_configuration(folder, int(REGISTRY.rpartition(":")[2]))
        with (folder / "registry.log").open("wb") as log:
            argv = self.inside(["docker-registry", "serve", str(config)])
            self._registry = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT)
        self.empty()

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which commands mean this engine."""
        names = ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy")
        kept = {name: value for name, value in os.environ.items() if name not in names}
        return {**kept, "DOCKER_HOST": f"unix://{self._folder / 'docker.sock'}", "DOCKER_BUILDKIT": "1"}

    def inside(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs *argv* in the namespace."""
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--", *argv]

    def run(self, argv: Sequence[str], *, data: bytes | None = None, cwd: Path | None = None) -> bytes:
        """Run a command in the namespace; return what it prints.

        Raises:
            CommandError: if it fails.
        """
        done = subprocess.run(
            self.inside(argv), env=self.environment, input=data, cwd=cwd, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise CommandError(f"{' '.join(argv)} failed:\n{done.stderr.decode(errors='replace')[-4000:]}")
        return done.stdout

    def empty(self) -> None:
        """Have an engine that has never had an image."""
        self._stop_engine()
        for name in ("data", "exec"):
            shutil.rmtree(self._folder / name, ignore_errors=True)
        options = [f"--data-root={self._folder / 'data'}", f"--exec-root={self._folder / 'exec'}"]
        options += [f"--pidfile={self._folder / 'engine.pid'}", f"--host=unix://{self._folder / 'docker.sock'}"]
        private = ["unshare", "--mount", "--propagation", "private"]
        with (self._folder / "engine.log").open("ab") as log:
            argv = self.inside([*private, "dockerd", "--log-level=warn", *options])
            self._engine = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self.run(["docker", "version"])
            except CommandError:
                if self._engine.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def close(self) -> None:
        """End everything."""
        self._stop_engine()
        for process in (self._registry, self._holder):
            process.terminate()
            process.wait(timeout=10)

    def _stop_engine(self) -> None:
        if self._engine is not None:
            self._engine.send_signal(signal.SIGTERM)
            self._engine.wait(timeout=60)
            self._engine = None


def _registry_configuration(folder: Path, port: int) -> Path:
    config = folder / "registry.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {folder / 'data-of-registry'}}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    return config


@contextlib.contextmanager
def disposable() -> Iterator[Disposable]:
    """Give an engine and a registry for the time of a block."""
    with tempfile.TemporaryDirectory(prefix="aml-train-bench-", ignore_cleanup_errors=True) as folder:
        made = Disposable(Path(folder))
        try:
            yield made
        finally:
            made.close()
