"""The real things that integration tests share: the Docker engine and a registry."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

import pytest

from aml_train.core.docker import BuildCli, buildkit_cli, connect_engine
from aml_train.core.events import Event
from aml_train.image.registry.client import Registry, RegistryLocation
from tests.support.emulator_process import Emulator, instant_emulator
from tests.support.registry_process import serve_registry

if TYPE_CHECKING:
    from docker import DockerClient

E = TypeVar("E", bound=Event)

BASE = "python:3.11-slim-bookworm"
"""What images are built on; scripts/ makes a stand-in where it cannot be pulled."""


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    """The Docker engine."""
    client = connect_engine(os.environ)
    yield client
    client.close()


@pytest.fixture(scope="session")
def cli() -> BuildCli:
    """The command that builds."""
    return buildkit_cli(os.environ)


@pytest.fixture(scope="session")
def registry_location(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryLocation]:
    """A registry of this session's own, as a process."""
    with serve_registry(tmp_path_factory.mktemp("registry"), deletes=True) as port:
        yield RegistryLocation(
            push_name=f"localhost:{port}",
            job_name="amltest.azurecr.io",
            url=f"http://localhost:{port}",
            engine_runs_jobs=True,
        )


@pytest.fixture(scope="module")
def instant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """A local AzureML of a module's own, whose jobs need no containers and end at once."""
    with instant_emulator(tmp_path_factory.mktemp("instant")) as service:
        yield service


@pytest.fixture
def registry(registry_location: RegistryLocation) -> Iterator[Registry]:
    """A client of the registry."""
    with registry_location.client() as client:
        yield client


#: The pipeline's threads: the two kinds of work beside the main thread's, what makes a container, what tidies up.
OURS: Final = frozenset({"push", "check", "make", "cleanup"})


def tidy_up(seconds: float = 300.0) -> None:
    """Wait for the end of what was told to end, and of what was begun on the way out of an interruption.

    The pipeline itself waits for these threads only for a bounded time.
    """
    for thread in threading.enumerate():
        if thread.name in OURS:
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
