"""examples/distributed by both SDKs and by aml-train: MPI on two nodes. tests/large has PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.emulator import distributed_example as example
from tests.support.emulator_process import Emulator, python_of_v1, running

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    # So many nodes has its cluster: two jobs at once.
    with running(
        Emulator(tmp_path_factory.mktemp("emulator"), environment={"AML_EMULATOR_MAX_JOBS": "4"})
    ) as service:
        yield service


def test_two_nodes_by_both_sdks(emulator: Emulator, mpi_image: str) -> None:
    """The environment of the SDK v2 is built of the Dockerfile, whose layers are there."""

    def steps(sdk: str, endings: str, **more: str) -> dict[str, Any]:
        given = {"kind": "mpi", "endings": endings, **more}
        return emulator.client(sdk, script="distributed_steps.py", seconds=example.SECONDS, **given)

    with ThreadPoolExecutor(2) as both:
        new = both.submit(steps, "v2", "well failing killed")
        old = both.submit(steps, "v1", "well killed", image=mpi_image, python=python_of_v1())
    for seen in (new.result(), old.result()):
        example.check_example(seen, "mpi", "pi is 3.1415926536")
        assert seen["well"]["files"]["pi.txt"] == "3.1415926536\n"


def test_two_nodes_by_aml_train(emulator: Emulator, mpi_image: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as both:
        run = functools.partial(example.aml_train, emulator, kind="mpi", image=mpi_image)
        well, killed = (
            both.submit(run, tmp_path / "well"),
            both.submit(run, tmp_path / "killed", sets=(example.KILL,)),
        )
    assert well.result().code == 0, well.result().said
    example.check_mpi({rank: example.told(log) for rank, log in well.result().logs.items()})
    assert well.result().logs[0].endswith("pi is 3.1415926536\n")
    example.check_killed(killed.result())
