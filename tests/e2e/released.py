"""A repository whose commit is released, and the services that a release is published to."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from tests.e2e.conftest import ROOT, edit
from tests.support.ports import free_port

REPOSITORY = "Octo/Train"
VERSION = "1.0.0"
_PATIENCE = 120.0


def git(folder: Path, *args: str) -> str:
    """Run git in *folder*; return what it prints."""
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    command = ["git", "-C", str(folder), *identity, *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder: Path) -> Path:
    """Copy this checkout's files into a repository whose one commit has the version 1.0.0."""
    repository = folder / "repository"
    repository.mkdir()
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    for name in listed:
        source, target = ROOT / name, repository / name
        if name and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)
    edit(repository / "runner/aml_train/core/version.py", '__version__ = "0.1.0"', f'__version__ = "{VERSION}"')
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", f"Set the version {VERSION}")
    return repository


@contextmanager
def serve_index(folder: Path) -> Iterator[str]:
    """Serve a package index that keeps its files in *folder*; give its address, which takes uploads too."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [str(Path(sys.executable).with_name("pypi-server")), "run", "-i", "127.0.0.1", "-p", str(port)]
    with (folder.parent / "index.log").open("ab") as log:
        # Without accounts: it listens on loopback, and its files are the test's own.
        process = subprocess.Popen([*command, "-a", ".", "-P", ".", str(folder)], stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}/"
    try:
        deadline = time.monotonic() + _PATIENCE
        while not _answers(address):
            assert process.poll() is None, (folder.parent / "index.log").read_text()
            assert time.monotonic() < deadline, "the index does not answer"
            time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait(_PATIENCE)


def _answers(address: str) -> bool:
    try:
        return requests.get(f"{address}simple/", timeout=10).ok
    except requests.RequestException:
        return False


def flip_byte(file: Path) -> None:
    """Change the last byte of *file*, which belongs to a registry's storage or an index."""
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
