"""Work on many things at once: a bounded number of threads, a bounded number of things held, and the first failure ends it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

_Item = TypeVar("_Item")
_WAIT: Final = 0.2


class Workers(Generic[_Item]):
    """Threads that do *work* with each thing that they are given.

    They are daemons: an interrupted process ends without them, and whatever they were at is gone on with by the next run.

    Args:
        work: what to do with one thing.
        count: how many threads.
    """

    def __init__(self, work: Callable[[_Item], None], count: int) -> None:
        self._work = work
        self._count = count
        self._queue: queue.Queue[_Item] = queue.Queue(maxsize=2 * count)
        self._failure: BaseException | None = None
        self._stopped = threading.Event()
        self._ended = threading.Event()

    def run(self, items: Iterable[_Item]) -> None:
        """Do the work for all of *items*, which are asked for as there is room.

        Raises:
            Exception: the first that any of the work, or *items*, raised; what had not begun by then is left.
        """
        threads = [threading.Thread(target=self._serve, name=f"data-{n}", daemon=True) for n in range(self._count)]
        for thread in threads:
            thread.start()
        try:
            for item in items:
                self._put(item)
                if self._stopped.is_set():
                    break
            self._ended.set()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_WAIT)
        finally:
            self._stopped.set()
        if self._failure is not None:
            raise self._failure

    def _put(self, item: _Item) -> None:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=_WAIT)
            except queue.Full:
                continue
            return

    def _serve(self) -> None:
        while not self._stopped.is_set():
            # Asked before the queue is: the last item may come between its being empty and the question.
            ended = self._ended.is_set()
            try:
                item = self._queue.get(timeout=_WAIT / 4)
            except queue.Empty:
                if ended:
                    return
                continue
            try:
                self._work(item)
            except BaseException as error:  # noqa: BLE001 - whoever runs them gets the first one
                if self._failure is None:
                    self._failure = error
                self._stopped.set()
