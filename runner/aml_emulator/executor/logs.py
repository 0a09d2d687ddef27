"""A job's output on its way to Blob storage: bounded memory, each byte once."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Final

from aml_emulator.executor.engine import OutputStream
from aml_emulator.executor.shared import EngineFault

logger = logging.getLogger(__name__)

BUFFER_BYTES = 4 * 1024 * 1024
"""Output waiting to be stored; a job that is quicker than the store waits for it."""

TAIL_BYTES = 16 * 1024
"""The remembered bytes at the end of the output, for a failed run's message."""

TAIL_LINES = 15

#: What MLflow and azureml-mlflow print behind a run's last own words.
_NOISE: Final = re.compile(r"\s*(?:🏃 View run |🧪 View experiment |Cleaning up all outstanding Run operations)")
#: A frame of a traceback in a file of the job's own, and no installed one; launchers put a rank before each line.
_OWN_FRAME: Final = re.compile(r'\s+File "(?:[^"]*/wd/)?((?!<)(?:(?!/lib/python3|-packages/)[^"])+)", line (\d+)')
_RANK: Final = re.compile(r"(?m)^\[[\w,]{1,20}\](?:<std(?:err|out)>)?: ?")


def cause_of(output: str) -> str:
    """Return the last exception of an output with its innermost place in the job's own code; empty without one."""
    _, found, traceback = _RANK.sub("", output).rpartition("Traceback (most recent call last):\n")
    place = ""
    for line in traceback.splitlines() if found else ():
        if frame := _OWN_FRAME.match(line):
            place = f" ({frame[1]}:{frame[2]})"
        elif line[:1].strip():
            return line[:1000] + place
    return ""


def flush_interval(blocks: int) -> float:
    """Return the seconds to gather output before the next append, after *blocks*.

    An append blob holds 50,000 blocks (https://learn.microsoft.com/rest/api/storageservices/append-block): at half a
    second the first 40,000 last more than five hours of unbroken output, the rest more than six days.
    """
    return 0.4 if blocks < 40_000 else 60.0


class LogPump:
    """Appends output to a log from a separate thread.

    Args:
        append: adds bytes to the stored log.
        skip: so many bytes at the start of the output are stored already.
    """

    def __init__(self, append: Callable[[bytes], None], *, skip: int = 0) -> None:
        self._append = append
        self._skip = skip
        self._buffer = bytearray()
        self._tail = bytearray()
        self._changed = threading.Condition()
        self._closed = False
        self._abandoned = False
        self._error: Exception | None = None
        self._taken = 0
        self._writer = threading.Thread(target=self._write, name="log-writer", daemon=True)
        self._writer.start()

    @property
    def taken(self) -> int:
        """How many bytes of output came in so far, those that were skipped included."""
        return self._taken

    def feed(self, data: bytes) -> None:
        """Take *data* when there is room; unstorable data is dropped, see :meth:`close`."""
        with self._changed:
            self._taken += len(data)
            self._tail = (self._tail + data)[-TAIL_BYTES:]
            dropped = min(self._skip, len(data))
            self._skip -= dropped
            view = memoryview(data)[dropped:]
            while view:
                self._changed.wait_for(lambda: len(self._buffer) < BUFFER_BYTES or self._broken)
                if self._broken:
                    return
                room = BUFFER_BYTES - len(self._buffer)
                self._buffer += view[:room]
                view = view[room:]
                self._changed.notify_all()

    def tail(self) -> str:
        """Return the last lines of the output that are a job's own, at most ``TAIL_LINES``."""
        lines = [line for line in self.end().rstrip().splitlines() if not _NOISE.match(line)]
        return "\n".join(lines[-TAIL_LINES:])

    def end(self) -> str:
        """Return the end of the output, at most ``TAIL_BYTES``."""
        with self._changed:
            return self._tail.decode("utf-8", errors="replace")

    def close(self) -> None:
        """Store what is left and end the thread.

        Raises:
            Exception: the store refused an append; the rest of the output was dropped.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._writer.join()
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Store nothing more: another process will follow this log from here."""
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    @property
    def _broken(self) -> bool:
        return self._abandoned or self._error is not None

    def _write(self) -> None:
        blocks, earliest = 0, 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._buffer or self._closed or self._broken)
                # Gather until the next append is due, unless the end has come or the buffer is half full.
                self._changed.wait_for(
                    lambda: self._closed or self._broken or len(self._buffer) > BUFFER_BYTES // 2,
                    timeout=max(0.0, earliest - time.monotonic()),
                )
                if self._broken or (self._closed and not self._buffer):
                    return
                data = bytes(self._buffer)
                self._buffer.clear()
                self._changed.notify_all()
            try:
                self._append(data)
            except Exception as error:  # noqa: BLE001 - kept, and raised by close() in the thread that owns the run
                logger.warning("A log could not be stored: %s", error)
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            blocks += 1
            earliest = time.monotonic() + flush_interval(blocks)


class OutputReader:
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

    def cause(self) -> str:
        """Return the exception that ended the output, with its place; empty for none."""
        return cause_of(self._pump.end())

    def finish(self) -> None:
        """Store the rest when the container has ended; raise what the store raised."""
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
        """Store nothing more; the process that adopts the run continues."""
        self._pump.abandon()

    def _read(self) -> None:
        try:
            for chunk in self._stream:
                self._pump.feed(chunk)
        except (*EngineFault, OSError) as error:
            logger.warning("The output of a container was interrupted: %s", error)
        finally:
            self._stream.close()
