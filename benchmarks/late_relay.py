"""A port that leads to another one, later: clients are measured as over a network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_CHUNK_BYTES = 256 * 1024
_MOST_CHUNKS = 256
"""In flight in one direction: enough for a gigabyte a second at 60 ms."""


@contextmanager
def late_port(port: int, seconds: float) -> Iterator[int]:
    """Yield a port of this machine that leads to *port*; a round trip takes *seconds* longer, half of it in each direction."""
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(
            _copy_late(reader, far_writer, seconds / 2),
            _copy_late(far_reader, writer, seconds / 2),
            return_exceptions=True,
        )
        for one in (far_writer, writer):
            one.close()
            await one.wait_closed()

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(_end_tasks())
        loop.close()


async def _end_tasks() -> None:
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)


async def _copy_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Copy until the end; a chunk waits for its own time alone."""
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
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()

    await asyncio.gather(depart(), arrive())
