"""Keeps the memory of a service with many threads flat, on glibc.

Threads allocate in arenas, and what is free in between stays with the process: under the load of ``benchmarks.soak``, with dozens of
threads that come and go, 70 MiB an hour, while the memory in use stayed the same. With few arenas, which are trimmed, it was 3.3 MiB in the
first hour, and 1.8 when large blocks were in none.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
from typing import Final

ARENAS: Final = 2
"""For all threads. By default there are up to eight for each core (mallopt(3))."""

TRIM_SECONDS: Final = 60.0

MAPPED_BYTES: Final = 128 * 1024
"""From this size on, memory goes back to the system when it is freed. By default glibc raises the size up to 32 MiB, as large blocks
are freed (mallopt(3)): they are in an arena then, and small ones that stay in between keep their pages."""

ENVIRONMENT: Final = {"MALLOC_ARENA_MAX": str(ARENAS), "MALLOC_MMAP_THRESHOLD_": str(MAPPED_BYTES)}
"""The same for a process that has yet to start, in its environment."""

_M_ARENA_MAX: Final = -8
_M_MMAP_THRESHOLD: Final = -3
"""Of malloc.h of glibc."""


def limit_arenas() -> None:
    """Have all threads allocate in `ARENAS` arenas, and large blocks in none.

    Large blocks have `MAPPED_BYTES` or more.
    """
    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, ARENAS)
        mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)


async def return_free_memory() -> None:
    """Return free memory to the system every minute, until it is cancelled.

    That takes a millisecond or two (malloc_trim(3)).
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        trim(0)
