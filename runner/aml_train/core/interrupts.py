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
import time
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from aml_train.core.errors import AmlTrainError

_AGAIN_SECONDS: Final = 0.02
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_arrived = threading.Event()
#: Are called in the signal's handler, with whether it is a lost one that is raised again.
_watchers: list[Callable[[bool], object]] = []
_raised_again = False
#: Seconds after which an interruption is raised wherever a thread is, if it came to no check.
_FORCE_SECONDS: Final = 2.0
#: Seconds after which an interruption that a thread has not handled is raised again.
_LOST_SECONDS: Final = 10.0
_SLICE: Final = 0.1
_of_thread = threading.local()


def interrupted() -> bool:
    """Return whether an interruption has come, to the process or to this thread."""
    own: ThreadInterrupt | None = getattr(_of_thread, "interrupt", None)
    return _arrived.is_set() or (own is not None and own.sent)


def acknowledge() -> None:
    """Note that this thread handles its interruption, which is not sent again."""
    own: ThreadInterrupt | None = getattr(_of_thread, "interrupt", None)
    if own is not None:
        own.acknowledged.set()


class ThreadInterrupt:
    """Interrupts work in another thread as Ctrl-C does in the main thread.

    KeyboardInterrupt is raised at the thread's next check: it has one in each wait of :mod:`aml_train.core.threads` and
    :func:`sleep_in_slices`, and with each event of a run. A thread that comes to none within two seconds gets it between two
    instructions. No signal handler is involved.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._free: list[Callable[[], object]] = []
        self._raised = False
        self.sent = False
        self.acknowledged = threading.Event()

    @contextlib.contextmanager
    def receive(self) -> Iterator[None]:
        """Receive the interruption in this thread, during the block only."""
        try:
            _of_thread.interrupt = self
            with self._lock:
                self._thread = threading.get_ident()
                early = self.sent
            if early:
                raise KeyboardInterrupt
            yield
        finally:
            self._end()

    def _end(self) -> None:
        """Receive no more; one that was sent and not raised yet is taken back."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                _raise_in(thread, None)
        self.acknowledged.set()
        _of_thread.interrupt = None

    def send(self) -> None:
        """Interrupt the thread, once. If the block has ended, nothing happens."""
        with self._lock:
            if self.sent:
                return
            self.sent = True
            actions, self._free = self._free, []
        for free in actions:
            with contextlib.suppress(Exception):  # what it frees may be gone
                free()
        threading.Thread(target=self._repeat, name="interrupt", daemon=True).start()

    @contextlib.contextmanager
    def freeing(self, free: Callable[[], object]) -> Iterator[None]:
        """Call *free*, once, if the interruption is sent during the block."""
        with self._lock:
            self._free.append(free)
        try:
            yield
        finally:
            with self._lock:
                if free in self._free:
                    self._free.remove(free)

    def _repeat(self) -> None:
        """Raise it in the thread until that handles it: a finalizer may lose it."""
        if not self.acknowledged.wait(_FORCE_SECONDS) and not self._raised:
            self._force()
        while not self.acknowledged.wait(_LOST_SECONDS):
            self._force()

    def _force(self) -> None:
        with self._lock:
            if self._thread is not None and not self.acknowledged.is_set():
                self._raised = True
                _raise_in(self._thread, KeyboardInterrupt)

    def check(self) -> None:
        """Raise KeyboardInterrupt, once, if this thread is interrupted."""
        if self.sent and not self._raised and self._thread == threading.get_ident():
            self._raised = True
            raise KeyboardInterrupt


@contextlib.contextmanager
def freed_by_interrupt(free: Callable[[], object]) -> Iterator[None]:
    """Call *free* if this thread is interrupted while a call of the block waits.

    In the main thread a signal ends such a call; in another one, *free* has to make it return. However it returns, the block ends with
    KeyboardInterrupt then: its errors are those of what was freed.
    """
    own: ThreadInterrupt | None = getattr(_of_thread, "interrupt", None)
    if own is None:
        yield
        return
    try:
        with own.freeing(free):
            yield
    except Exception:
        own.check()
        raise
    own.check()


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Raise *error* in a thread at its next instruction; None takes it back."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), None if error is None else ctypes.py_object(error)
    )


def check_interrupt() -> None:
    """Raise KeyboardInterrupt, once, if this thread is interrupted by another one."""
    own: ThreadInterrupt | None = getattr(_of_thread, "interrupt", None)
    if own is not None:
        own.check()


def sleep_in_slices(seconds: float) -> None:
    """Sleep, so that an interruption of this thread is raised within a moment."""
    end = time.monotonic() + seconds
    check_interrupt()
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _SLICE))
        check_interrupt()


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


@contextlib.contextmanager
def watch_interrupts(watcher: Callable[[bool], object]) -> Iterator[None]:
    """Call *watcher* at each interruption of the main thread during the block.

    Args:
        watcher: runs in the signal's handler, before KeyboardInterrupt is raised there. Its argument is whether the interruption before
            was lost, and this one replaces it.
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    global _raised_again
    _arrived.set()
    again, _raised_again = _raised_again, False
    for watcher in tuple(_watchers):
        watcher(again)
    raise KeyboardInterrupt


def _raise_again() -> None:
    """Send the signal again a little later, from another thread.

    The main thread is still where the interruption was lost. A signal, other than ``_thread.interrupt_main``, ends a call that waits.
    """
    global _raised_again
    handled = [number for number in _SIGNALS if callable(signal.getsignal(number))]
    main = threading.main_thread().ident
    if not handled or main is None:
        return
    _raised_again = True
    send = getattr(signal, "pthread_kill", lambda _thread_id, number: _thread.interrupt_main(number))
    timer = threading.Timer(_AGAIN_SECONDS, send, [main, handled[0]])
    timer.daemon = True
    timer.start()
