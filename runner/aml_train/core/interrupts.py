"""Interruptions: SIGINT and SIGTERM, which always end in the same way.

Python calls a signal's handler wherever the main thread is, and two kinds of places spoil its KeyboardInterrupt. A finalizer, or a weak
reference's callback, has no caller: ``sys.unraisablehook`` gets the exception, and the program continues. Each import has such a
callback (``importlib._bootstrap._get_module_lock``). Other code raises another exception in its place: an ``except`` that
closes twice, or a C function that clears it.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from aml_train.core.errors import AmlTrainError

_AGAIN_SECONDS: Final = 0.02
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_arrived = threading.Event()


def interrupted() -> bool:
    """Return whether an interruption has come."""
    return _arrived.is_set()


@contextlib.contextmanager
def interruptible(*numbers: signal.Signals) -> Iterator[Callable[[], None]]:
    """Raise KeyboardInterrupt for these signals; give a function that ignores them.

    One that had no caller is raised again.
    """
    _arrived.clear()
    before = {number: signal.signal(number, _interrupt) for number in numbers}
    hook = sys.unraisablehook

    def lost(failure: sys.UnraisableHookArgs) -> None:
        if issubclass(failure.exc_type, KeyboardInterrupt):
            _raise_again()
        else:
            hook(failure)

    def ignore() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    sys.unraisablehook = lost
    try:
        yield ignore
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def unexpected_as_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt in place of an unexpected error after an interruption."""
    try:
        yield
    except AmlTrainError:
        raise
    except Exception as error:
        if interrupted():
            raise KeyboardInterrupt from error
        raise


def _interrupt(_number: int, _frame: object) -> NoReturn:
    _arrived.set()
    raise KeyboardInterrupt


def _raise_again() -> None:
    """Send the signal again a little later, from another thread.

    The main thread is still where the interruption was lost. A signal, other than ``_thread.interrupt_main``, ends a call that waits.
    """
    handled = [number for number in _SIGNALS if callable(signal.getsignal(number))]
    main = threading.main_thread().ident
    if not handled or main is None:
        return
    send = getattr(signal, "pthread_kill", lambda _thread_id, number: _thread.interrupt_main(number))
    timer = threading.Timer(_AGAIN_SECONDS, send, [main, handled[0]])
    timer.daemon = True
    timer.start()
