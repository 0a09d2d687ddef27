"""What belongs to the process: its signals, and what libraries log."""

from __future__ import annotations

import contextlib
import logging
import signal
from collections.abc import Callable, Iterator
from typing import NoReturn

from aml_train_action.github.log import Channel


class _ChannelHandler(logging.Handler):
    """Shows what libraries log."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(logging.DEBUG)
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        self._channel.text(self.format(record), sign="·")


@contextlib.contextmanager
def library_logs(channel: Channel) -> Iterator[None]:
    """Show everything that libraries log."""
    handler = _ChannelHandler(channel)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    level, handlers = logging.root.level, logging.root.handlers[:]
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logging.root.setLevel(level)
        logging.root.handlers[:] = handlers


@contextlib.contextmanager
def signals() -> Iterator[Callable[[], None]]:
    """Let SIGINT and SIGTERM end the run as Ctrl-C does; give a function that makes them have no effect.

    As process 1 of a container, Python would ignore SIGTERM; and a shell may have SIGINT ignored.
    """

    def interrupt(_signal: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    both = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, interrupt) for number in both}

    def ignore() -> None:
        for number in both:
            signal.signal(number, signal.SIG_IGN)

    try:
        yield ignore
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
