"""The tasks that serve connections."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Connections:
    """Keeps the tasks of connections while they last, and ends them.

    The event loop's references are weak: a task that waits for a connection that is gone would be collected in the middle of its work.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def hold(self, serving: Coroutine[Any, Any, None]) -> None:
        """Serve this task's connection, which may be interrupted."""
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            await serving
        except (ConnectionError, asyncio.CancelledError) as error:
            logger.debug("a connection was interrupted: %r", error)

    async def close(self) -> None:
        """Interrupt every connection, and wait until it has ended."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def address_of(writer: asyncio.StreamWriter, end: str) -> str:
    """Return the address of an end of a connection: ``peername`` or ``sockname``.

    Raises:
        ConnectionResetError: the client is gone.
    """
    found = writer.get_extra_info(end)
    if found is None:
        raise ConnectionResetError("the client is gone")
    return str(found[0])
