"""The tasks of connections, without sockets."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from aml_emulator.network.connections import Connections
from aml_emulator.network.proxy import join_streams


def test_a_task_that_nothing_else_refers_to_is_kept_and_ended_in_order() -> None:
    """As one that waits for a connection that is gone."""
    ended: list[str] = []

    async def serve() -> None:
        try:
            # Only the future knows the task that waits for it, and the other way round.
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        finally:
            # As connections are closed; impossible for one that is collected.
            await asyncio.sleep(0)
            ended.append("closed")

    async def run() -> None:
        connections = Connections()
        asyncio.get_running_loop().create_task(connections.hold(serve()))
        await asyncio.sleep(0)
        gc.collect()
        assert ended == []
        await connections.close()

    asyncio.run(run())
    assert ended == ["cancelled", "closed"]


def test_a_client_that_resets_is_no_fault() -> None:
    async def serve() -> None:
        raise ConnectionResetError

    asyncio.run(Connections().hold(serve()))


class ClosedWriter:
    """A closed connection, which answers as uvloop's does."""

    def is_closing(self) -> bool:
        return True

    def get_extra_info(self, _name: str) -> None:
        return None

    def can_write_eof(self) -> bool:
        return True

    def write(self, _data: bytes = b"") -> None:
        raise RuntimeError("the handler is closed")

    def close(self) -> None:
        return

    async def wait_closed(self) -> None:
        return


@pytest.mark.parametrize("data", [b"an answer", b""])
def test_a_client_that_is_gone_ends_a_tunnel_quietly(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        client: Any = (asyncio.StreamReader(), ClosedWriter())
        server: Any = (asyncio.StreamReader(), ClosedWriter())
        server[0].feed_data(data)
        for reader, _ in (client, server):
            reader.feed_eof()
        await join_streams(client, server)

    with caplog.at_level(logging.INFO):
        asyncio.run(scene())
    assert caplog.messages == []
