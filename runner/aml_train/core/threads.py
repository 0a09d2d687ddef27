"""Two pieces of work at once, of which either ends the other at once when it fails.

Python cannot end a thread. Work that waits in a call is freed from it by taking away what it waits for: the container that
it follows, the connection that it reads from.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from aml_train.core.errors import AmlTrainError

A = TypeVar("A")
B = TypeVar("B")

PATIENCE: Final = 0.8
"""Seconds that what was told to end is waited for; its thread keeps no process from exiting."""
SETTLING: Final = 3.0
"""Seconds that the tidying up after an interruption is waited for, of the 7.5 that GitHub's runner gives from SIGINT to SIGTERM."""

_LOG = logging.getLogger(__name__)
_hurried: list[threading.Thread] = []


class StoppedError(Exception):
    """The work ended because it was told to. Whoever told it catches this."""


class Stop:
    """Tells work in another thread to end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._ways: list[Callable[[], object]] = []

    @property
    def is_set(self) -> bool:
        """Whether the work is to end."""
        return self._set

    def set(self) -> None:
        """End the work; what it waits in is taken away, from this thread."""
        with self._lock:
            ways, self._ways = self._ways, []
            self._set = True
        for free in ways:
            try:
                free()
            except Exception:  # noqa: BLE001 - one way that fails must not keep the others
                # Such as of an engine that has gone away: what waits for that ends by itself, and tells.
                _LOG.debug("what was to end the work failed", exc_info=True)

    def check(self) -> None:
        """Raise StoppedError if the work is to end."""
        if self._set:
            raise StoppedError

    @contextlib.contextmanager
    def frees(self, free: Callable[[], object]) -> Iterator[None]:
        """Call *free* when the work is to end, as long as the block lasts. The block does not begin where that is said already.

        Args:
            free: makes the calls in the block return or fail; runs in another thread.

        Raises:
            StoppedError: in place of any error of the block, and at its end, if the work is to end.
        """
        with self._lock:
            if not self._set:
                self._ways.append(free)
        try:
            self.check()
            yield
            self.check()
        except Exception as error:
            if self._set:
                raise StoppedError from error
            raise
        finally:
            with self._lock:
                if free in self._ways:
                    self._ways.remove(free)


def hurriedly(work: Callable[[], object], *, last: bool = False) -> None:
    """Begin *work* on the way out of an interruption, and go on at once; :func:`settled` waits for all of it together.

    Args:
        work: tidies up; what does not get done is what a later sweep is for.
        last: it begins when everything else has ended that was begun before.
    """
    earlier = tuple(_hurried) if last else ()

    def run() -> None:
        for thread in earlier:
            thread.join()
        try:
            work()
        except Exception:  # noqa: BLE001 - nobody waits who could be told
            _LOG.warning("Something is left over from the interruption", exc_info=True)

    thread = threading.Thread(target=run, name="tidy-up", daemon=True)
    _hurried.append(thread)
    thread.start()


@contextlib.contextmanager
def settled() -> Iterator[None]:
    """After an interruption of the block, wait for what was begun :func:`hurriedly`: :data:`SETTLING` in all."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        deadline = time.monotonic() + SETTLING
        while _hurried:
            _hurried.pop(0).join(max(0.0, deadline - time.monotonic()))
        raise


@contextlib.contextmanager
def ending(end: Callable[[], object]) -> Iterator[None]:
    """Call *end* after the block; after an interruption :func:`hurriedly`."""
    try:
        yield
    except Exception:
        end()
        raise
    except BaseException:
        hurriedly(end)
        raise
    end()


@contextlib.contextmanager
def temporary(make: Callable[[], A], end: Callable[[A], object]) -> Iterator[A]:
    """Have what *make* returns for the block, and *end* it afterwards; after an interruption :func:`hurriedly`.

    An interruption in the midst of *make*, which may be a request that somebody else fulfils all the same, loses nothing:
    *make* has a thread of its own, goes on to its end there, and what it made is ended.

    Args:
        make: makes it; what it raises is raised.
        end: takes it away.
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

    with ending(undo):
        thread.start()
        over.wait()
        if failures:
            raise failures[0]
        yield made[0]


def together(
    main: Callable[[Stop], A], aside: Callable[[Stop], B], *, name: str, ended: str, stop: Stop | None = None
) -> tuple[A, B]:
    """Run *main* in this thread and *aside* in another; return what they return.

    What fails first ends the other. Its error is raised, and says what became of the other. An interruption of this thread
    (KeyboardInterrupt) ends *aside*, too: :func:`hurriedly`.

    Args:
        main: the work of this thread; raises StoppedError where it was ended.
        aside: the work of the other thread, likewise.
        name: of the other thread.
        ended: what the error says where *main* was ended, such as ``The tests were ended.``
        stop: ends both.

    Raises:
        StoppedError: if *stop* was set meanwhile.
    """
    main_stop, aside_stop = Stop(), Stop()

    def end_both() -> None:
        main_stop.set()
        aside_stop.set()

    with (stop or Stop()).frees(end_both):
        return _together(main, aside, main_stop, aside_stop, name, ended)


def _together(
    main: Callable[[Stop], A],
    aside: Callable[[Stop], B],
    main_stop: Stop,
    aside_stop: Stop,
    name: str,
    ended: str,
) -> tuple[A, B]:
    failures: list[BaseException] = []
    mains: list[A] = []
    asides: list[B] = []

    def work() -> None:
        try:
            asides.append(aside(aside_stop))
        except StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised in the other thread
            failures.append(error)
            main_stop.set()

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    was_ended = False
    try:
        try:
            mains.append(main(main_stop))
        except StoppedError:
            was_ended = True
        except Exception as error:  # noqa: BLE001 - it is raised below
            failures.append(error)
        else:
            thread.join()
    except BaseException:

        def end_aside() -> None:
            aside_stop.set()
            thread.join()  # it takes away what it made

        hurriedly(end_aside)
        raise
    aside_stop.set()
    thread.join(PATIENCE)
    if failures:
        raise _first(failures, ended if was_ended else None)
    if not (mains and asides):  # both were told to end
        raise StoppedError
    return mains[0], asides[0]


def _first(failures: list[BaseException], ended: str | None) -> BaseException:
    """Return the first failure; it tells of the other one."""
    first, *others = failures
    for text in [*(f"Also: {error}" for error in others), *([ended] if ended else [])]:
        if isinstance(first, AmlTrainError):
            first.message += f"\n{text}"
        else:
            first.add_note(text)
    return first
