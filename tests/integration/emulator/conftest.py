"""Fixtures of the executor's tests, and of those of jobs on several nodes."""

from __future__ import annotations

import docker
import pytest

from tests.integration.emulator.executor_bench import bench, make_bench
from tests.support.emulator_process import ROOT
from tests.support.scheduling import one_at_a_time

__all__ = ["bench", "make_bench"]


@pytest.fixture(scope="session")
def mpi_image(engine: docker.DockerClient) -> str:
    """An image with Debian's Open MPI and mpi4py: that of the example."""
    folder = ROOT / "examples" / "distributed" / "mpi"
    with one_at_a_time("mpi-image"):
        engine.images.build(path=str(folder), tag="aml-train-test-mpi:2", rm=True, network_mode="host")
    return "aml-train-test-mpi:2"
