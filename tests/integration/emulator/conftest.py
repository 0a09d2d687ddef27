"""Fixtures of the local AzureML's tests, of its executor's, and of those of jobs on several nodes."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

from tests.integration.emulator.executor_bench import bench, make_bench
from tests.support.emulator_process import ROOT, Emulator
from tests.support.scheduling import one_at_a_time

__all__ = ["bench", "make_bench"]


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """A local AzureML of a module's tests; other modules start others."""
    service = Emulator(tmp_path_factory.mktemp("emulator"))
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="session")
def mpi_image(engine: docker.DockerClient) -> str:
    """An image with Debian's Open MPI and mpi4py: that of the example."""
    folder = ROOT / "examples" / "distributed" / "mpi"
    with one_at_a_time("mpi-image"):
        engine.images.build(path=str(folder), tag="aml-train-test-mpi:2", rm=True, network_mode="host")
    return "aml-train-test-mpi:2"
