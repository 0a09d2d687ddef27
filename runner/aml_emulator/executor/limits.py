"""The memory and processes of a job's node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

JOB_PROCESSES: Final = 4096
"""Processes and threads of a node, if nothing else is said: many times those of loaders and of libraries for linear algebra."""


def with_limits(
    options: Mapping[str, Any], *, node: int | None, machine: int, memory: int | None, processes: int
) -> dict[str, Any]:
    """Return a container's *options* with limits; a job may choose lower ones.

    Args:
        options: keywords of docker-py's ``create_host_config``.
        node: the memory of the node's VM size, in bytes; None if no size was chosen.
        machine: the machine's memory; an eighth of it is not the jobs'.
        memory: the most that a node may have, None for what the machine has.
        processes: the most that a node may have.
    """
    most = memory or machine * 7 // 8
    given: int = min(options.get("mem_limit") or node or most, most)
    # Swap would let a job slow down the whole machine; without a word of the job it has none.
    swap: int = options.get("memswap_limit", given)
    return {
        **options,
        "mem_limit": given,
        "memswap_limit": most if swap == -1 else min(swap, most),
        "pids_limit": min(options.get("pids_limit", processes), processes),
    }
