"""A fixed latency for all hosts: clients are measured as over a network.

It is a round trip's: half of it in each direction. A new connection takes one round trip, and TLS its own ones. Data in flight
are not bounded by it: a chunk waits for its own time alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aml_emulator.network.upstream import send

_CHUNK_BYTES: Final = 256 * 1024
_MOST_CHUNKS: Final = 256
"""In flight in one direction: enough for a gigabyte a second at 60 ms."""


class Latency:
    """The latency of every connection; none at first, and none after a restart.

    Attributes:
        MOST: the greatest, in seconds.
    """

    MOST: Final = 10.0

    def __init__(self) -> None:
        self._seconds = 0.0
        self._listeners: list[Callable[[], object]] = []

    @property
    def seconds(self) -> float:
        """How long a round trip takes longer."""
        return self._seconds

    def set(self, seconds: float) -> None:
        """Change it.

        Raises:
            ValueError: less than none, or more than :attr:`MOST`.
        """
        if not 0 <= seconds <= self.MOST:
            raise ValueError(f"{seconds}")
        self._seconds = seconds
        for listener in self._listeners:
            listener()

    def on_change(self, listener: Callable[[], object]) -> None:
        """Have *listener* called, in any thread, after it was changed."""
        self._listeners.append(listener)

    async def connect(self) -> None:
        """Wait as long as a connection over the network takes to open."""
        if self._seconds:
            await asyncio.sleep(self._seconds)


async def copy_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Copy until the end, every chunk *seconds* late."""
    loop = asyncio.get_running_loop()
    flying: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_CHUNKS)

    async def depart() -> None:
        data = b"-"
        while data:
            data = await reader.read(_CHUNK_BYTES)
            await flying.put((loop.time() + seconds, data))

    async def arrive() -> None:
        while True:
            due, data = await flying.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                return
            await send(writer, data)

    async with asyncio.TaskGroup() as group:
        group.create_task(depart())
        group.create_task(arrive())
