"""The output of one container: followed from its start, or taken up again after a restart of the emulator."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from aml_emulator.executor.engine import Engine, OutputStream
from aml_emulator.executor.engine_words import EngineFault
from aml_emulator.executor.logs import LogPump, stored_prefix
from aml_emulator.executor.spec import BlobStore

LOGGER = logging.getLogger(__name__)


class JobOutput:
    """Reads a container's output in a thread and stores it as one append blob.

    Args:
        stream: what the container writes.
        append: adds bytes to the stored log.
        skip: so many bytes at the start of *stream* are stored already.
        whole: gives the output from its start once the container has ended, where *stream* may lack the end of it.
    """

    def __init__(
        self,
        stream: OutputStream,
        append: Callable[[bytes], None],
        *,
        skip: int = 0,
        whole: Callable[[], OutputStream] | None = None,
    ) -> None:
        self._stream = stream
        self._whole = whole
        self._pump = LogPump(append, skip=skip)
        self._reader = threading.Thread(target=self._read, name="log-reader", daemon=True)
        self._reader.start()

    def tail(self) -> str:
        """Return the last lines, a bounded number of them."""
        return self._pump.tail()

    def finish(self) -> None:
        """Take what is left once the container has ended, and store it; raises what the store raised."""
        self._reader.join()
        if self._whole is not None:
            done, rest = self._pump.taken, self._whole()
            for chunk in rest:
                if done < len(chunk):
                    self._pump.feed(chunk[done:])
                done = max(0, done - len(chunk))
            rest.close()
        self._pump.close()

    def abandon(self) -> None:
        """Store nothing more; whoever adopts the run goes on from here."""
        self._pump.abandon()

    def _read(self) -> None:
        try:
            self._pump.feed_all(self._stream)
        except (*EngineFault, OSError) as error:
            LOGGER.warning("The output of a container broke off: %s", error)
        finally:
            self._stream.close()


def resume(
    engine: Engine, container_id: str, *, blobs: BlobStore, container: str, name: str, append: Callable[[bytes], None]
) -> JobOutput:
    """Take up the output of a container whose log, the blob *name*, may have been stored in part.

    The log is continued where it is the beginning of what the engine has, and written anew where it is not.
    """
    append(b"")
    sofar = engine.output(container_id, follow=False)
    try:
        skip = stored_prefix(blobs.read(container, name), iter(sofar))
    finally:
        sofar.close()
    if skip is None:
        LOGGER.info("The log %s is written anew", name)
        blobs.delete_prefix(container, name)
        append(b"")
    return JobOutput(
        engine.output(container_id, follow=True),
        append,
        skip=skip or 0,
        whole=lambda: engine.output(container_id, follow=False),
    )
