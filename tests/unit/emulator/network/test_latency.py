"""The latency: every chunk arrives late, and none waits for another."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from aml_emulator.network.latency import Latency, copy_late


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time is that of its timers: sleeps take none."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        loop: Any = self
        if not loop._ready and loop._scheduled:
            self.now = max(self.now, loop._scheduled[0].when())
        super()._run_once()  # type: ignore[misc]


class Writer:
    """Notes what is written, and when."""

    def __init__(self, fails: bool = False) -> None:
        self.seen: list[tuple[float, bytes]] = []
        self.fails = fails

    def write(self, data: bytes) -> None:
        self.seen.append((round(asyncio.get_running_loop().time(), 3), data))

    async def drain(self) -> None:
        if self.fails:
            raise ConnectionResetError


def run(made: Any) -> Any:
    with contextlib.closing(Clock()) as loop:
        return loop.run_until_complete(made)


def test_chunks_fly_side_by_side() -> None:
    async def scene() -> list[tuple[float, bytes]]:
        reader, writer = asyncio.StreamReader(), Writer()
        copying = asyncio.create_task(copy_late(reader, writer, 1.0))  # type: ignore[arg-type]
        for data in (b"a", b"b", b"c"):
            reader.feed_data(data)
            await asyncio.sleep(0.25)
        reader.feed_eof()
        await copying
        return [*writer.seen, (round(asyncio.get_running_loop().time(), 3), b"end")]

    assert run(scene()) == [(1.0, b"a"), (1.25, b"b"), (1.5, b"c"), (1.75, b"end")]


def test_a_broken_connection_ends_the_copy() -> None:
    async def scene() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(b"a")
        with pytest.raises(ExceptionGroup) as caught:
            await copy_late(reader, Writer(fails=True), 1.0)  # type: ignore[arg-type]
        assert isinstance(caught.value.exceptions[0], ConnectionResetError)

    run(scene())


def test_a_connection_takes_a_round_trip_to_open() -> None:
    async def scene() -> float:
        latency = Latency()
        await latency.connect()
        latency.set(2.0)
        await latency.connect()
        return asyncio.get_running_loop().time()

    assert run(scene()) == 2.0


def test_who_has_open_connections_learns_of_a_change() -> None:
    latency, seen = Latency(), list[float]()
    latency.on_change(lambda: seen.append(latency.seconds))
    latency.set(0.02)
    for wrong in (-1.0, 11.0, float("nan")):
        with pytest.raises(ValueError):
            latency.set(wrong)
    assert seen == [0.02]
