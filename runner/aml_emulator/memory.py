"""Keeps the memory of a service with many threads flat, on glibc.

Threads allocate in arenas, and what is free in between stays with the process: under the load of ``benchmarks.soak``, with dozens of
threads that come and go, 70 MiB an hour, while the memory in use stayed the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
from typing import Final

ARENAS: Final = 2
"""For all threads. By default there are up to eight for each core (mallopt(3))."""

TRIM_SECONDS: Final = 60.0

_M_ARENA_MAX: Final = -8
"""Of malloc.h of glibc."""


def share_arenas() -> None:
    """Have all threads allocate in `ARENAS` arenas."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)


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
