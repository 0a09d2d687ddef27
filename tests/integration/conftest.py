"""The real things that integration tests share: the Docker engine and a registry."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest
import requests

from aml_train.engine import BuildCli, buildkit_cli, connect
from aml_train.events import Event
from aml_train.image.registry import Registry, RegistryLocation
from tests.ports import free_port

if TYPE_CHECKING:
    from docker import DockerClient

E = TypeVar("E", bound=Event)

BASE = "python:3.11-slim-bookworm"
"""What images are built on; scripts/ makes a stand-in where it cannot be pulled."""


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    """The Docker engine."""
    client = connect(os.environ)
    yield client
    client.close()


@pytest.fixture(scope="session")
def cli() -> BuildCli:
    """The command that builds."""
    return buildkit_cli(os.environ)


@pytest.fixture(scope="session")
def registry_location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryLocation]:
    """A registry of this session's own, as a process."""
    executable = shutil.which("docker-registry") or shutil.which("registry")
    if executable is None:
        pytest.fail("no registry is installed: apt-get install docker-registry")
    folder = tmp_path_factory.mktemp("registry")
    port = free_port()
    config = folder / "config.yml"
    config.write_text(
        "version: 0.1\nlog: {level: error}\n"
        f"storage: {{filesystem: {{rootdirectory: {folder / 'data'}}}, delete: {{enabled: true}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    with Path(folder, "log").open("wb") as log:
        process = subprocess.Popen([executable, "serve", str(config)], stdout=log, stderr=subprocess.STDOUT)
    url = f"http://localhost:{port}"
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                if requests.get(f"{url}/v2/", timeout=2).ok:
                    break
            except requests.ConnectionError:
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"the registry does not start: {Path(folder, 'log').read_text()}")
                time.sleep(0.05)
        yield RegistryLocation(
            push_name=f"localhost:{port}", job_name="amltest.azurecr.io", url=url, engine_runs_jobs=True
        )
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture
def registry(registry_location: RegistryLocation) -> Iterator[Registry]:
    """A client of the registry."""
    with registry_location.client() as client:
        yield client


def tidy_up(seconds: float = 60.0) -> None:
    """Wait for the end of what was begun on the way out of an interruption; the process itself waits less."""
    for thread in threading.enumerate():
        if thread.name == "tidy-up":
            thread.join(seconds)


@dataclass
class Recorder:
    """A listener that keeps what it hears."""

    events: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def recorder() -> Recorder:
    """A listener that keeps what it hears."""
    return Recorder()
