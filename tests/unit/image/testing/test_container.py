from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aml_train.config.section import size_in_bytes
from aml_train.config.sections.tests import ContainerLimits
from aml_train.core.files import FileSet
from aml_train.image.spec import TestSpec
from aml_train.image.testing.container import container_options, has_gpus, working_folder


def _spec(**settings: Any) -> TestSpec:
    return TestSpec(command="true", files=FileSet(root=Path("/p"), entries=()), **settings)


def test_limits_become_options_of_the_engine() -> None:
    limits = ContainerLimits(cpus=1.5, memory=8 << 30, shm=2 << 30, memlock=-1, gpus="all")
    options = container_options(_spec(limits=limits, network=True, workdir="sub"), gpus=False)

    assert (options["nano_cpus"], options["mem_limit"], options["memswap_limit"]) == (1_500_000_000, 8 << 30, 8 << 30)
    assert (options["shm_size"], options["network_mode"], options["working_dir"]) == (
        2 << 30,
        "bridge",
        "/workspace/sub",
    )
    assert [dict(limit) for limit in options["ulimits"]] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    assert [(one["Count"], one["Capabilities"]) for one in options["device_requests"]] == [(-1, [["gpu"]])]


def test_without_limits_the_engine_decides() -> None:
    assert container_options(_spec(), gpus=False) == {
        "network_mode": "none",
        "shm_size": 1 << 30,
        "working_dir": "/workspace",
    }
    assert working_folder(_spec()) == "/workspace"


@pytest.mark.parametrize(
    ("wanted", "there", "requested"),
    [("auto", True, True), ("auto", False, False), ("none", True, False), ("all", False, True)],
)
def test_gpus(wanted: Any, there: bool, requested: bool) -> None:
    options = container_options(_spec(limits=ContainerLimits(gpus=wanted)), gpus=there)
    assert ("device_requests" in options) is requested


@pytest.mark.parametrize(
    ("info", "there"),
    [
        ({}, False),
        ({"Runtimes": {"runc": {}}, "DiscoveredDevices": None}, False),
        ({"Runtimes": {"runc": {}, "nvidia": {}}}, True),
        ({"Runtimes": {}, "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]}, True),
        ({"DiscoveredDevices": [{"Source": "cdi", "ID": "vendor.com/nic=1"}]}, False),
    ],
)
def test_whether_an_engine_has_gpus(info: dict[str, Any], there: bool) -> None:
    assert has_gpus(info) is there


@pytest.mark.parametrize(
    ("text", "count"),
    [("1", 1), ("100b", 100), ("2k", 2048), ("512m", 512 << 20), ("8G", 8 << 30), ("8gb", 8 << 30), ("1t", 1 << 40)],
)
def test_sizes(text: str, count: int) -> None:
    assert size_in_bytes(text) == count


def test_each_setting_enters_the_key_but_for_keeping(tmp_path: Path) -> None:
    def key(**settings: Any) -> str:
        return TestSpec(command="true", files=FileSet(root=tmp_path, entries=()), **settings).key(
            "sha256:" + "a" * 64
        )

    changed: list[dict[str, Any]] = [{"workdir": "sub"}, *({"limits": ContainerLimits(**one)} for one in CHANGES)]
    assert len({key(), *(key(**one) for one in changed)}) == len(changed) + 1
    assert key(keep=True) == key()


CHANGES: list[dict[str, Any]] = [{"cpus": 1.0}, {"memory": 1}, {"shm": 1}, {"memlock": -1}, {"gpus": "none"}]
