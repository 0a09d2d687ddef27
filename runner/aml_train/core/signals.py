"""SIGINT and SIGTERM: both raise KeyboardInterrupt in the main thread."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def interrupt_on(*numbers: signal.Signals) -> Iterator[Callable[[], None]]:
    """Raise KeyboardInterrupt for these signals during the block; give a function that ignores them."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}

    def ignore() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    try:
        yield ignore
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def in_place_of_interrupt(error: BaseException) -> bool:
    """Return whether *error* replaced a KeyboardInterrupt, as an error of a ``finally`` does that closes something twice."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause is not None
