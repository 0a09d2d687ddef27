"""The memory and processes that a job's node gets."""

from __future__ import annotations

from typing import Any

import pytest

from aml_emulator.executor.shared import with_limits

GIB = 2**30


@pytest.mark.parametrize(
    ("options", "node", "memory", "expected"),
    [
        ({}, None, None, (14 * GIB, 14 * GIB, 100)),
        ({}, 4 * GIB, None, (4 * GIB, 4 * GIB, 100)),
        ({}, 64 * GIB, None, (14 * GIB, 14 * GIB, 100)),
        ({}, 4 * GIB, 2 * GIB, (2 * GIB, 2 * GIB, 100)),
        ({"mem_limit": GIB, "pids_limit": 9}, 4 * GIB, None, (GIB, GIB, 9)),
        ({"mem_limit": 8 * GIB}, 4 * GIB, None, (8 * GIB, 8 * GIB, 100)),
        ({"mem_limit": 99 * GIB, "pids_limit": 10**6}, None, None, (14 * GIB, 14 * GIB, 100)),
    ],
)
def test_a_job_chooses_within_the_limits_of_its_node_and_machine(
    options: dict[str, Any], node: int | None, memory: int | None, expected: tuple[int, int, int]
) -> None:
    found = with_limits({**options, "init": True}, node=node, machine=16 * GIB, memory=memory, processes=100)
    assert (found["mem_limit"], found["memswap_limit"], found["pids_limit"]) == expected
    assert found["init"] is True
