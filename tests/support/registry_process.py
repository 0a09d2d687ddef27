"""A container registry as a process."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import requests

from tests.support.ports import free_port

PATIENCE: Final = 120.0
_TRIES: Final = 5


def executable() -> str:
    """Return the command that is a registry."""
    found = shutil.which("docker-registry") or shutil.which("registry")
    if found is None:
        raise RuntimeError("no registry is installed: apt-get install docker-registry")
    return found


@contextmanager
def serve_registry(folder: Path, *, settings: str = "", deletes: bool = False) -> Iterator[int]:
    """Serve a registry that keeps its data in *folder*; give its port on loopback, once it answers there.

    Args:
        folder: also of its log.
        settings: more lines of its configuration.
        deletes: whether manifests may be deleted.
    """
    for _ in range(_TRIES):
        port = free_port()
        process = _start(folder, port, settings, deletes)
        if _answers(process, port, folder):
            break
        process.wait()  # somebody else may have taken the port meanwhile
    else:
        raise RuntimeError(f"the registry does not start: {(folder / 'log').read_text()}")
    try:
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _start(folder: Path, port: int, settings: str, deletes: bool) -> subprocess.Popen[bytes]:
    config = folder / "config.yml"
    config.write_text(
        "version: 0.1\nlog: {level: error}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder / 'data'}}}, delete: {{enabled: {str(deletes).lower()}}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n{settings}"
    )
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([executable(), "serve", str(config)], stdout=log, stderr=subprocess.STDOUT)


def _answers(process: subprocess.Popen[bytes], port: int, folder: Path) -> bool:
    """Wait until the process answers at the port; False where it has ended."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None:
        try:
            requests.get(f"http://127.0.0.1:{port}/v2/", timeout=10)
        except requests.RequestException as error:
            if time.monotonic() > deadline:
                process.kill()
                raise RuntimeError(f"the registry does not answer: {(folder / 'log').read_text()}") from error
            time.sleep(0.05)
        else:
            return process.poll() is None
    return False
