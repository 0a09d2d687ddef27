"""examples/distributed by both SDKs and by aml-train: MPI on two nodes. tests/large has PyTorch, whose place a stand-in takes here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.emulator import distributed_example as example
from tests.integration.emulator.executor_bench import IMAGE
from tests.support.emulator_process import Emulator, python_of_v1, running

pytestmark = pytest.mark.full

MEETING = Path(__file__).with_name("meeting.py")


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
        given = {"kind": "mpi", "endings": endings, "stand_in": IMAGE, **more}
        return emulator.client(sdk, script="distributed_steps.py", seconds=example.SECONDS, **given)

    with ThreadPoolExecutor(2) as both:
        new = both.submit(steps, "v2", "well killed failing")
        old = both.submit(steps, "v1", "well killed", image=mpi_image, python=python_of_v1())
    for seen in (new.result(), old.result()):
        example.check_example(seen, "mpi", "pi is 3.1415926536")
        assert seen["well"]["files"]["pi.txt"] == "3.1415926536\n"
        example.check_stand_ins(seen)


def test_two_nodes_by_aml_train(emulator: Emulator, mpi_image: str, tmp_path: Path) -> None:
    """PyTorch's number of nodes stands in the section of PyTorch alone."""

    def run(name: str, kind: str, *sets: str) -> example.Ran:
        image, script = (mpi_image, None) if kind == "mpi" else (IMAGE, MEETING)
        return example.aml_train(emulator, tmp_path / name, kind, image, "sdk=v1", *sets, script=script)

    with ThreadPoolExecutor(2) as both:
        mpi, torch = both.submit(run, "mpi", "mpi"), both.submit(run, "torch", "torch", "job.nodeCount=1")
        killed = both.submit(run, "killed", "mpi", example.KILL)
    assert (mpi.result().code, torch.result().code) == (0, 0), mpi.result().said + torch.result().said
    example.check_mpi({rank: example.told(log) for rank, log in mpi.result().logs.items()})
    assert mpi.result().logs[0].endswith("pi is 3.1415926536\n")
    example.check_torch({rank: json.loads(log) for rank, log in torch.result().logs.items()})
    example.check_killed(killed.result())
