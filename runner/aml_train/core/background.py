"""Work in a thread that nobody has to wait for, and a way to end the process without waiting for it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import NoReturn, TypeVar

_Value = TypeVar("_Value")


def in_background(work: Callable[[], _Value], name: str, future: Future[_Value] | None = None) -> Future[_Value]:
    """Do *work* in a daemon thread of its own; return its future.

    An executor of the standard library would be waited for when the process ends, whatever becomes of its work.

    Args:
        work: what to do.
        name: the thread's name.
        future: a new one, where somebody must know it before the work begins.
    """
    result: Future[_Value] = future or Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
            result.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result


def leave(code: int) -> NoReturn:
    """End the process with *code*, at once where threads are left whose work was called off.

    Azure's SDK uploads in executors, which Python would let finish everything that they have queued.
    """
    main = threading.main_thread()
    if any(thread is not main and thread.is_alive() and not thread.daemon for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # nobody reads it any more, or it is closed
                stream.flush()
        logging.shutdown()
        os._exit(code)
    sys.exit(code)
