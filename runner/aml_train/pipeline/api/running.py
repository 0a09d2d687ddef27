"""A run in the background: its events, its result, and its cancellation."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from aml_train.core.events import Broadcast, Event, Listener, LogLine, LogLines, Progress
from aml_train.core.interrupts import ThreadInterrupt
from aml_train.core.notebook import Displayed, Sheet

if TYPE_CHECKING:
    from aml_train.pipeline import RunResult

#: Unread events from which on lines of logs are left out.
_MOST_UNREAD: Final = 100_000
_SLICE: Final = 0.2
#: Seconds between two looks at the events next to an event loop.
_PAUSE: Final = 0.05
#: Seconds between two updates of a notebook's cell.
_UPDATE_SECONDS: Final = 0.5

Work = Callable[[Listener], "RunResult"]


class Run(Displayed):
    """A run that has begun, by :func:`aml_train.run` or :func:`aml_train.attach`.

    It runs in a separate thread, so that it works in a notebook, in a thread, and next to a running event loop. No signal
    handler is installed. Iterating gives the events, each once; :meth:`result` waits for the end.

    An interruption (Ctrl-C, a notebook's stop button) while the program waits for an event or the result cancels the run as on
    the command line: the job is cancelled, and the end of that is awaited. KeyboardInterrupt is then raised again. As a context
    manager, the run is cancelled by any exception of the block.

    Attributes:
        left_out: how many lines of logs were left out, because more than 100,000 events were not read.
    """

    def __init__(self, work: Work, *, listeners: Sequence[Listener] = ()) -> None:
        from aml_train.pipeline.api.progress import RunProgress

        self.left_out = 0
        self._progress = RunProgress()
        self._unread: SimpleQueue[Event] = SimpleQueue()
        self._interrupt = ThreadInterrupt()
        self._result: RunResult | None = None
        self._error: BaseException | None = None
        self._over = False
        # An interruption of a wait for a condition or an event of `threading` can become another error; that of a lock cannot.
        self._ending = threading.Lock()
        self._ending.acquire()
        self._work = work
        self._listener = Broadcast(*listeners, self._take)
        self._thread = threading.Thread(target=self._execute, name="aml-train run", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Event]:
        """Yield the events that were not read yet, until the run has ended."""
        # The whole loop, not only its wait: events that follow closely leave more time between two waits than in them.
        with self._interruptible():
            while not (self._over and self._unread.empty()):
                if (event := self._next(_SLICE)) is not None:
                    yield event
        self._raise()

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield the events without blocking the event loop."""
        while True:
            over = self._over
            event = self._next()
            if event is not None:
                yield event
            elif over:
                break
            else:
                await asyncio.sleep(_PAUSE)
        self._raise()

    def result(self, timeout: float | None = None) -> RunResult:
        """Wait for the end; return the result, also of a run that failed.

        Args:
            timeout: seconds to wait; None waits as long as it takes.

        Raises:
            TimeoutError: the run has not ended in that time; it continues.
            KeyboardInterrupt: the program was interrupted; the run is cancelled.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self._interruptible():
            self._wait(end)
        if not self._over:
            raise TimeoutError(f"The run has not ended within {timeout:g} seconds; it continues.")
        self._raise()
        if self._result is None:  # pragma: no cover - a run ends with a result or an error
            raise RuntimeError("the run has neither a result nor an error")
        return self._result

    def watch(self) -> RunResult:
        """Show the progress until the end, and return the result.

        In a notebook the output of the cell is updated; elsewhere lines are printed on standard output.
        """
        display = _notebook_display()
        if display is None:
            self._print_lines()
        else:
            self._update_cell(display)
        return self.result()

    def cancel(self) -> None:
        """Cancel the run as Ctrl-C does, and return at once; :meth:`result` waits.

        With ``watch: {on-cancel: detach}`` the job continues. A run that has ended stays as it is.
        """
        self._interrupt.send()

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._over

    def __enter__(self) -> Self:
        """Return the run."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Wait for the end; an exception of the block cancels the run."""
        if kind is not None:
            self.cancel()
            self._wait()
            return
        self.result()

    def __repr__(self) -> str:
        running = next((name for name, (state, _) in self._progress.stages.items() if state == "running"), "")
        ended = self._progress.ended
        state = f"ended: {ended.status}" if ended is not None else f"running: {running or 'beginning'}"
        return f"<Run {state}{f', job {self._progress.job}' if self._progress.job else ''}>"

    def _execute(self) -> None:
        try:
            with self._interrupt.receive():
                self._result = self._work(self._listener)
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is wanted
            # An interruption that came when the result was there changes nothing.
            if self._result is None:
                self._error = error
        finally:
            self._over = True
            self._ending.release()

    def _take(self, event: Event) -> None:
        self._progress.take(event)
        if self._unread.qsize() >= _MOST_UNREAD and isinstance(event, LogLine | LogLines | Progress):
            self.left_out += 1
        else:
            self._unread.put(event)
        self._interrupt.check()

    def _next(self, seconds: float = 0.0) -> Event | None:
        try:
            return self._unread.get(timeout=seconds) if seconds else self._unread.get_nowait()
        except Empty:
            return None

    def _wait(self, end: float | None = None) -> None:
        """Wait for the end of the run, or until the time *end*."""
        while not self._over and (end is None or time.monotonic() < end):
            if self._ending.acquire(timeout=_SLICE if end is None else max(0.0, min(_SLICE, end - time.monotonic()))):
                self._ending.release()

    def _interruptible(self) -> _CancelOnInterrupt:
        return _CancelOnInterrupt(self)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _sheet(self) -> Sheet:
        if self._result is not None:
            return self._result.sheet()
        return self._progress.sheet()

    def _ipython_display_(self) -> None:
        """Show the run as the last expression of a cell: live, until it has ended."""
        display = _notebook_display()
        if display is None:
            sys.stdout.write(f"{self!r}\n")
            return
        self._update_cell(display)

    def _update_cell(self, display: Callable[..., object]) -> None:
        handle: object = display(_Shown(self), display_id=True)
        update = getattr(handle, "update", None)
        shown = time.monotonic()
        for _ in self:
            if update is not None and time.monotonic() - shown >= _UPDATE_SECONDS:
                update(_Shown(self))
                shown = time.monotonic()
        if update is not None:
            update(_Shown(self))

    def _print_lines(self) -> None:
        from aml_train.core.text import printable_line

        for event in self:
            if line := self._progress.line(event):
                sys.stdout.write(printable_line(line) + "\n")
                sys.stdout.flush()


class _CancelOnInterrupt:
    """Cancels a run, and awaits its end, if its block is interrupted.

    A second interruption ends the waiting; the cancellation continues.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        """Cancel after KeyboardInterrupt, which is raised again."""
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._run.cancel()
            self._run._wait()


class _Shown:
    """A run as it is at this moment, for the cell of a notebook."""

    def __init__(self, run: Run) -> None:
        sheet = run._sheet()
        self._html, self._markdown = sheet.html(), sheet.markdown()
        self._plain = sheet.plain()

    def __repr__(self) -> str:
        return self._plain

    def _repr_html_(self) -> str:
        return self._html

    def _repr_markdown_(self) -> str:
        return self._markdown


def _notebook_display() -> Callable[..., object] | None:
    """Return IPython's ``display`` in the kernel of a notebook; None elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    from importlib import import_module

    display: Callable[..., object] = import_module("IPython.display").display
    return display
