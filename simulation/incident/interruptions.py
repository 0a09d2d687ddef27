"""The interruptions of a recorded run, at the same places of its replay.

The place is found by what the recorded run had done by then: the replay's main thread is interrupted between its last request or event
before the interruption, and the first one that came later, or never. Moments alone would not do: a replay's time does not move between two
answers.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, NoReturn

from aml_train.core.interrupts import interruptible, watch_interrupts
from simulation.incident.virtual_time import VirtualTime

#: Real seconds between two looks at the main thread, and those in which it must have waited all the time.
_LOOK: Final = 0.02
_WAITED: Final = 0.3
#: Real seconds in which the main thread handles an interruption that another thread has brought about, before that one continues.
_HANDLED: Final = 0.3
#: Real seconds for which a thread's request is held that the recorded process did not live to send.
_HELD: Final = 2.0
#: Real seconds that a run's other threads have to end, whose requests are refused then.
_ENDED: Final = 5.0
#: Modules in which a thread waits for another one.
_WAITS: Final = frozenset({"threading.py", "_base.py"})


class Interruptions:
    """Interrupts the main thread where the recorded run was interrupted.

    Args:
        moments: seconds of the recording's clock, of each interruption.
        exchange: the recorded requests.
        events: seconds of the recorded events that are compared.
        clock: the replay's time.
        early: interrupt directly after what came before; by default directly before what came later. The recording does not have what
            happened in between, and the end may depend on it.

    Attributes:
        sent: the numbers of the recorded requests that the replay has sent.
        came: how many interruptions have come.
    """

    def __init__(
        self,
        moments: Sequence[float],
        exchange: Sequence[Mapping[str, Any]],
        events: Sequence[float],
        clock: VirtualTime,
        *,
        early: bool = False,
    ) -> None:
        self._moments = list(moments)
        self._exchange = exchange
        self._events = events
        self._clock = clock
        self._early = early
        self._sleep, self._real_now = time.sleep, time.monotonic
        self.sent: set[int] = set()
        self._emitted = 0
        #: Is set with each interruption that has come, and replaced by the next one's.
        self._come = threading.Event()
        self._over = threading.Event()
        self._sending = threading.Lock()
        self.came = 0

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Interrupt the run during the block, as signals do; only in the main thread.

        Its other threads have ended after it, or are given up: none must take the answers of another replay.
        """
        self._clock.before_sleep = self.before_sleep
        before = set(threading.enumerate())
        try:
            with interruptible(signal.SIGINT), watch_interrupts(self._note):
                yield
        finally:
            self._over.set()
            deadline = self._real_now() + _ENDED
            for thread in set(threading.enumerate()) - before:
                thread.join(max(0.0, deadline - self._real_now()))

    @property
    def _next(self) -> float | None:
        """The moment of the interruption that is still to come; None for none."""
        return self._moments[self.came] if self.came < len(self._moments) else None

    def before_request(self, number: int | None, *, again: bool = False) -> None:
        """Interrupt the main thread if the run was interrupted before this request.

        A request of another thread whose answer came later than that waits for it.

        Args:
            number: that of the recorded request; None if there is none.
            again: whether the recorded run sent it less often.

        Raises:
            KeyboardInterrupt: it was, and this is the main thread.
        """
        moment = self._next
        if moment is None:
            return
        one = self._exchange[number] if number is not None else None
        if not _is_main():
            if one is None or one["ended"] >= moment:
                self._await(moment)
            return
        if one is None or again or one["began"] >= moment:
            self.interrupt()

    def before_event(self) -> None:
        """Interrupt the main thread if the run was interrupted before this event.

        Only events that are compared are counted.

        Raises:
            KeyboardInterrupt: it was.
        """
        moment = self._next
        if moment is not None and _is_main() and self._emitted >= self._events_before(moment):
            self.interrupt()

    def after_event(self) -> None:
        """Note that such an event was reported; raises as :meth:`after_answer`."""
        self._emitted += 1
        self.after_answer()

    def after_answer(self) -> None:
        """Interrupt the main thread early, if everything before that has happened.

        Raises:
            KeyboardInterrupt: it has.
        """
        moment = self._next
        if not self._early or moment is None or not _is_main() or self._emitted < self._events_before(moment):
            return
        if not self._has_more_before(moment):
            self.interrupt()

    def before_sleep(self, until: float) -> None:
        """Interrupt the main thread if the run was interrupted before *until*.

        The recorded requests before that are sent first.

        Raises:
            KeyboardInterrupt: it was.
        """
        moment = self._next
        if moment is None or until < moment:
            return
        if not _is_main():
            self._await(moment)
        elif not self._has_more_before(moment):
            self.interrupt()

    def interrupt(self) -> NoReturn:
        """Interrupt this thread, the main one, now.

        Raises:
            KeyboardInterrupt: always.
        """
        if (moment := self._next) is not None:
            self._clock.reach(moment)
        signal.raise_signal(signal.SIGINT)
        raise KeyboardInterrupt

    @property
    def over(self) -> bool:
        """Whether the run has ended: nothing is answered any more."""
        return self._over.is_set()

    def hold(self) -> bool:
        """Hold another thread's request that is unknown, after an interruption.

        The recorded process ended before it would have sent it, or the thread was ended.

        Returns:
            whether this is such a request.
        """
        if self.over:
            return True
        if _is_main() or not self.came:
            return False
        self._over.wait(_HELD)
        return True

    def _note(self, _again: bool) -> None:
        self.came += 1
        come, self._come = self._come, threading.Event()
        come.set()

    def _events_before(self, moment: float) -> int:
        return sum(one < moment for one in self._events)

    def _has_more_before(self, moment: float) -> bool:
        """Return whether the main thread has more to send that came before *moment*."""
        return any(
            one["main"] and not one["during"] and one["began"] < moment and number not in self.sent
            for number, one in enumerate(self._exchange)
        )

    def _await(self, moment: float) -> None:
        """Wait for the interruption; bring it about if the main thread waits, too."""
        come, waited = self._come, 0.0
        while waited < _WAITED and not come.wait(_LOOK) and not self.over:
            waited = waited + _LOOK if _main_waits() else 0.0
        with self._sending:  # of several threads that wait, one interrupts
            if not come.is_set() and not self.over:
                self._clock.reach(moment)
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                come.wait(_ENDED)
        self._sleep(_HANDLED)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _main_waits() -> bool:
    """Return whether the main thread waits for another one."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and PurePath(frame.f_code.co_filename).name in _WAITS
