"""Fixtures of the local AzureML's tests, of its executor's, and of those of jobs on several nodes."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

from tests.integration.emulator.executor_bench import bench, make_bench
from tests.support.emulator_process import ROOT, Emulator, instant_emulator, running
from tests.support.scheduling import one_at_a_time

__all__ = ["bench", "make_bench"]


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """A local AzureML of a worker's tests; modules that change its settings, or count what it has, start others."""
    with running(Emulator(tmp_path_factory.mktemp("emulator"))) as service:
        yield service


@pytest.fixture(scope="session")
def instant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """The same, whose jobs need no containers."""
    with instant_emulator(tmp_path_factory.mktemp("instant"), record=True) as service:
        yield service


@pytest.fixture(scope="session")
def mpi_image(engine: docker.DockerClient) -> str:
    """An image with Debian's Open MPI and mpi4py: that of the example."""
    folder = ROOT / "examples" / "distributed" / "mpi"
    with one_at_a_time("mpi-image"):
        engine.images.build(path=str(folder), tag="aml-train-test-mpi:2", rm=True, network_mode="host")
    return "aml-train-test-mpi:2"
