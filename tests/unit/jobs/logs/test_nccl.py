from __future__ import annotations

import pytest

from aml_train.jobs.logs.report import NcclWatch, has_infiniband

SOCKETS = """\
node0:38:38 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.4<0>
node0:38:38 [0] NCCL INFO NET/IB : No device found.
node0:38:38 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.4<0>
node0:38:38 [0] NCCL INFO Using network Socket"""
INFINIBAND = """\
node0:38:38 [0] NCCL INFO NET/IB : Using [0]mlx5_ib0:1/IB [1]mlx5_ib1:1/IB [RO]; OOB eth0:10.0.0.4<0>
node0:38:38 [0] NCCL INFO Using network IB"""


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("Standard_ND96isr_H200_v5", True),
        ("standard_nd96asr_v4", True),
        ("Standard_HB368rs_v5", True),
        ("Standard_HB176-144rs_v4", True),
        ("Standard_H16mr", True),
        ("Standard_ND24s", False),
        ("Standard_H16m", False),
        ("Standard_NC24ads_A100_v4", False),
        ("Standard_E64ads_v5", False),
        ("", False),
    ],
)
def test_sizes_with_infiniband(size: str, expected: bool) -> None:
    assert has_infiniband(size) is expected


@pytest.mark.parametrize(
    "text",
    [
        INFINIBAND,
        f"{SOCKETS}\n{INFINIBAND}",
        "NET/Socket : Using",
        SOCKETS.splitlines()[0],
        "NCCL INFO Using network IBext",
    ],
)
def test_no_word_of_sockets_or_one_of_infiniband_is_well(text: str) -> None:
    watch = NcclWatch()
    watch.feed(text)
    assert not watch.on_sockets


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("", "image.ofed"),
        (
            "\nnode0:38:38 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.",
            "take it out of the job's environment_variables",
        ),
        ("\nnode0:38:38 [0] NCCL INFO Failed to open libibverbs.so[.1]", "libibverbs is not in the image"),
    ],
)
def test_the_warning_says_what_to_do(said: str, remedy: str) -> None:
    watch = NcclWatch()
    watch.feed(SOCKETS + said)
    text = watch.warning("Standard_ND40rs_v2", 2)
    assert (
        "NCCL uses sockets, although nodes of Standard_ND40rs_v2 have InfiniBand: the ranks of different nodes"
        in text
    )
    assert remedy in text
    assert "docs/output.md#nccl-on-sockets" in text
    assert "as soon as the job has several nodes" in watch.warning("Standard_ND40rs_v2", 1)
