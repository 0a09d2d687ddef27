"""Threads: cancel work, run two functions in parallel, clean up, end the process.

Python cannot end a thread. Work that waits in a call is freed by removing what it waits for: the container that it follows,
the connection that it reads from. One :class:`CancelToken` does that for builds, pushes, tests and submissions.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Final, NoReturn, TypeVar

from aml_train.core.errors import AmlTrainError, CancelledError

_LOG = logging.getLogger(__name__)
A = TypeVar("A")
B = TypeVar("B")

JOIN_SECONDS: Final = 0.8
"""Seconds that cancelled work is waited for; its thread keeps no process from exiting."""
AT_ONCE: Final = 8
"""Requests at once; clients keep ten connections (``requests.adapters.DEFAULT_POOLSIZE``)."""
CLEANUP_SECONDS: Final = 3.0
"""Seconds that the cleanup after an interruption is waited for, of the 7.5 that GitHub's runner gives from SIGINT to SIGTERM."""


_cleanups: list[threading.Thread] = []


class WorkCancelledError(Exception):
    """The work was cancelled. The caller that cancelled it catches this."""


class CancelToken:
    """Ends work in another thread.

    Work that must not be interrupted from some point on, such as a request that makes a job, calls :meth:`commit` there.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._committed = False
        self._actions: list[Callable[[], object]] = []

    @property
    def cancelled(self) -> bool:
        """Whether the work is to end."""
        return self._cancelled.is_set()

    def cancel(self) -> bool:
        """End the work: call every action that frees it, in this thread.

        Returns:
            whether the work ends; False if it is committed.
        """
        with self._lock:
            if self._committed:
                return False
            actions, self._actions = self._actions, []
            self._cancelled.set()
        for action in actions:
            _free(action)
        return True

    def commit(self) -> None:
        """From now on the work cannot be cancelled. May be called again.

        Raises:
            CancelledError: if it was cancelled.
        """
        with self._lock:
            if self.cancelled:
                raise CancelledError("The submission was cancelled.")
            self._committed = True

    def raise_if_cancelled(self) -> None:
        """Raise WorkCancelledError if the work is to end."""
        if self.cancelled:
            raise WorkCancelledError

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until the work is to end; return whether it is."""
        return self._cancelled.wait(seconds)

    def add_action(self, action: Callable[[], object]) -> None:
        """Call *action* when the work is cancelled, in the thread that cancels it.

        If it was cancelled before, call it at once.
        """
        with self._lock:
            if not self.cancelled:
                self._actions.append(action)
                return
        _free(action)

    @contextlib.contextmanager
    def on_cancel(self, free: Callable[[], object]) -> Iterator[None]:
        """Call *free* if the work is cancelled during the block.

        Args:
            free: makes the calls in the block return or fail; runs in another thread.

        Raises:
            WorkCancelledError: instead of any error of the block, and at its end, if the work was cancelled.
        """
        with self._lock:
            if not self.cancelled:
                self._actions.append(free)
        try:
            self.raise_if_cancelled()
            yield
            self.raise_if_cancelled()
        except Exception as error:
            if self.cancelled:
                raise WorkCancelledError from error
            raise
        finally:
            with self._lock:
                if free in self._actions:
                    self._actions.remove(free)


def _free(action: Callable[[], object]) -> None:
    """Call *action*. If it fails, as for an engine that is gone, log it only."""
    try:
        action()
    except Exception:  # noqa: BLE001 - an action that fails must not keep the others
        _LOG.debug("An action that frees cancelled work failed", exc_info=True)


def cleanup_on_interrupt(work: Callable[[], object], *, last: bool = False) -> None:
    """Start *work* in the background after an interruption.

    :func:`drain` waits for it.

    Args:
        work: cleans up; a later sweep removes what it does not get done.
        last: start it when all work that was started before has ended.
    """
    earlier = tuple(_cleanups) if last else ()

    def run() -> None:
        for thread in earlier:
            thread.join()
        try:
            work()
        except Exception:  # noqa: BLE001 - no caller waits for it
            _LOG.warning("Something is left over from the interruption", exc_info=True)

    thread = threading.Thread(target=run, name="cleanup", daemon=True)
    _cleanups.append(thread)
    thread.start()


@contextlib.contextmanager
def drain() -> Iterator[None]:
    """After an interruption of the block, wait for its cleanups, but not for long."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        deadline = time.monotonic() + CLEANUP_SECONDS
        while _cleanups:
            _cleanups.pop(0).join(max(0.0, deadline - time.monotonic()))
        raise


@contextlib.contextmanager
def cleanup(end: Callable[[], object]) -> Iterator[None]:
    """Call *end* after the block; after an interruption, in the background.

    An interruption of *end* itself, such as before its request is sent, calls it again: it may have been called before.
    """
    try:
        try:
            yield
        except Exception:
            end()
            raise
        end()
    except Exception:
        raise
    except BaseException:
        cleanup_on_interrupt(end)
        raise


@contextlib.contextmanager
def temporary(make: Callable[[], A], end: Callable[[A], object]) -> Iterator[A]:
    """Yield what *make* returns, and *end* it after the block.

    After an interruption, it ends in the background.

    An interruption during *make*, which may be a request that the engine fulfils all the same, loses nothing: *make*
    runs in a separate thread, continues to its end there, and what it made is ended.

    Args:
        make: makes the thing; its exception is raised.
        end: removes it.
    """
    made: list[A] = []
    failures: list[Exception] = []
    over = threading.Event()

    def work() -> None:
        try:
            made.append(make())
        except Exception as error:  # noqa: BLE001 - it is raised in the other thread
            failures.append(error)
        finally:
            over.set()

    thread = threading.Thread(target=work, name="make", daemon=True)

    def undo() -> None:
        if thread in threading.enumerate():  # also where the interruption came while it was being started
            over.wait()
        for thing in made:
            end(thing)

    with cleanup(undo):
        thread.start()
        over.wait()
        if failures:
            raise failures[0]
        yield made[0]


def run_parallel(
    main: Callable[[CancelToken], A], aside: Callable[[CancelToken], B], *, name: str, ended: str
) -> tuple[A, B]:
    """Run *main* in this thread and *aside* in another; return their results.

    The first failure cancels the other one. Its error is raised, and says what became of the other. An interruption of this
    thread (KeyboardInterrupt) cancels *aside*, too; :func:`drain` waits for its end.

    Args:
        main: the work of this thread; raises WorkCancelledError if it is cancelled.
        aside: the work of the other thread, likewise.
        name: of the other thread.
        ended: what the error says if *main* was cancelled, such as ``The tests were ended.``
    """
    main_token, aside_token = CancelToken(), CancelToken()
    failures: list[BaseException] = []
    mains: list[A] = []
    asides: list[B] = []

    def work() -> None:
        try:
            asides.append(aside(aside_token))
        except WorkCancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised in the other thread
            failures.append(error)
            main_token.cancel()

    def end_aside() -> None:
        aside_token.cancel()
        thread.join()  # it removes what it made

    thread = threading.Thread(target=work, name=name, daemon=True)
    cancelled = False
    thread.start()
    try:
        try:
            mains.append(main(main_token))
        except WorkCancelledError:
            cancelled = True
        except Exception as error:  # noqa: BLE001 - it is raised below
            failures.append(error)
        else:
            thread.join()
    except BaseException:
        cleanup_on_interrupt(end_aside)
        raise
    aside_token.cancel()
    thread.join(JOIN_SECONDS)
    if failures:
        raise _first(failures, ended if cancelled else None)
    return mains[0], asides[0]


def _first(failures: list[BaseException], ended: str | None) -> BaseException:
    """Return the first failure; its message mentions the other one."""
    first, *others = failures
    for text in [*(f"Also: {error}" for error in others), *([ended] if ended else [])]:
        if isinstance(first, AmlTrainError):
            first.message += f"\n{text}"
        else:
            first.add_note(text)
    return first


def in_background(work: Callable[[], A], name: str, future: Future[A] | None = None) -> Future[A]:
    """Run *work* in a separate daemon thread; return its future.

    The process would wait for an executor of the standard library when it ends, even if nothing needs its result.

    Args:
        work: the function to run.
        name: the thread's name.
        future: the future to complete, if the caller must know it before the work begins; by default a new one.
    """
    result: Future[A] = future or Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the future raises it
            result.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result


def map_parallel(work: Callable[[A], B], items: Iterable[A], name: str) -> list[B]:
    """Return the results of *work* for *items*, :data:`AT_ONCE` of them in parallel.

    The first failure in their order is raised. Nothing waits for the others then, nor after an interruption.

    Args:
        work: the function.
        items: its arguments.
        name: the threads' name.
    """
    left, results = list(items), list[B]()
    while left:
        (first, *others), left = left[:AT_ONCE], left[AT_ONCE:]
        futures = [in_background(functools.partial(work, item), name) for item in others]
        results += [work(first), *(future.result() for future in futures)]
    return results


def exit_process(code: int) -> NoReturn:
    """End the process with *code*, without waiting for threads of cancelled work.

    Azure's SDKs upload in executors. The interpreter would wait until these have sent everything that they have queued.
    """
    main = threading.main_thread()
    if any(thread is not main and not thread.daemon for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # its reader is gone, or it is closed
                stream.flush()
        os._exit(code)
    sys.exit(code)
