"""The tasks of connections, without sockets."""

from __future__ import annotations

import asyncio
import gc

from aml_emulator.network.connections import Connections


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
