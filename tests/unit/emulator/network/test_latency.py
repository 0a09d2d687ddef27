"""Copies between two connections: late chunks arrive side by side, and a closed connection ends the copy."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from aml_emulator.network.latency import Latency, copy_late
from aml_emulator.network.proxy import join_streams


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
    """Notes what is written, and when; a closed one answers as uvloop's does."""

    def __init__(self, fails: bool = False, closed: bool = False) -> None:
        self.seen: list[tuple[float, bytes]] = []
        self.fails = fails
        self.closed = closed

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, _name: str) -> None:
        return None

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self.closed:
            raise RuntimeError("the handler is closed")

    def close(self) -> None:
        self.closed = True

    async def wait_closed(self) -> None:
        return

    def write(self, data: bytes) -> None:
        if self.closed:
            raise RuntimeError("the handler is closed")
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


@pytest.mark.parametrize("late", [0.0, 1.0])
@pytest.mark.parametrize("data", [b"an answer", b""])
def test_a_client_that_is_gone_ends_a_tunnel_quietly(
    late: float, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        client, server = (asyncio.StreamReader(), Writer(closed=True)), (asyncio.StreamReader(), Writer())
        server[0].feed_data(data)
        for reader, _ in (client, server):
            reader.feed_eof()
        await join_streams(client, server, late=late)  # type: ignore[arg-type]
        assert server[1].closed

    with caplog.at_level(logging.INFO):
        run(scene())
    assert caplog.messages == []


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
