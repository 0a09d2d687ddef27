"""PyTorch on two nodes, by examples/distributed and the real SDKs. ``nox -s distributed_torch`` makes the image, which is large."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.emulator import distributed_example as example
from tests.support.emulator_process import Emulator, python_of_v1, running

IMAGE = os.environ.get("AML_TRAIN_TORCH_IMAGE", "")
LAST = "slope 3.000 offset -1.000"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    assert IMAGE, "nox -s distributed_torch makes the image, and sets AML_TRAIN_TORCH_IMAGE"
    # So many nodes has its cluster: one job at a time.
    with running(
        Emulator(tmp_path_factory.mktemp("emulator"), environment={"AML_EMULATOR_MAX_JOBS": "2"})
    ) as service:
        yield service


@pytest.mark.parametrize("sdk", ["v1", "v2"])
def test_gloo_on_two_nodes(emulator: Emulator, sdk: str) -> None:
    python = {"python": python_of_v1()} if sdk == "v1" else {}
    seen = emulator.client(
        sdk,
        script="distributed_steps.py",
        seconds=example.SECONDS,
        kind="torch",
        image=IMAGE,
        endings="well killed failing",
        **python,
    )
    example.check_example(seen, "torch", LAST)
    files = seen["well"]["files"]
    assert {files[example.rank_log(rank)].splitlines()[-1] for rank in example.RANKS} == {LAST}
    assert "model.pt" in files


@pytest.mark.parametrize("sdk", ["v1", "v2"])
def test_gloo_on_two_nodes_by_aml_train(emulator: Emulator, tmp_path: Path, sdk: str) -> None:
    well = example.aml_train(emulator, tmp_path / "well", "torch", IMAGE, sdk=sdk)
    assert well.code == 0, well.said
    assert {log.splitlines()[-1] for log in well.logs.values()} == {LAST}
    example.check_torch({rank: example.told(log) for rank, log in well.logs.items()})
    example.check_killed(
        example.aml_train(emulator, tmp_path / "killed", "torch", IMAGE, sdk=sdk, sets=(example.KILL,))
    )
