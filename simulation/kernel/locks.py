"""Locks of simulated threads.

``threading`` builds its events, conditions, semaphores, barriers, queues and timers on these two, and its code runs unchanged.
"""

from __future__ import annotations

import itertools
from typing import Literal

from simulation.kernel import current
from simulation.kernel.entities import Task
from simulation.kernel.errors import WouldWaitError
from simulation.kernel.scheduler import Kernel

_serials = itertools.count(1)


class Lock:
    """A lock, as ``threading.Lock``.

    All threads that wait are woken by a release, and the scheduler decides which one gets it: Python promises no order either.
    """

    __slots__ = ("__weakref__", "_locked", "_serial", "_waiting")

    def __init__(self) -> None:
        self._locked = False
        self._waiting: list[Task] = []
        self._serial = next(_serials)

    def __hash__(self) -> int:
        # By creation, not by address: `threading` iterates over a set of locks.
        return self._serial

    def __eq__(self, other: object) -> bool:
        return self is other

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, as ``threading.Lock.acquire``."""
        _check(blocking, timeout)
        kernel = current.kernel()
        running = kernel is not None and kernel.current is not None
        if running and kernel is not None:
            kernel.preempt()
        if not self._locked:
            self._locked = True
            return True
        if not blocking:
            return False
        if kernel is None or not running:
            raise WouldWaitError(
                "a simulated thread holds the lock, and code outside of the simulated threads cannot wait"
            )
        until = None if timeout < 0 else kernel.now + round(timeout * 1e9)
        while True:
            _wait(kernel, self._waiting, until)
            if not self.locked():
                self._locked = True
                return True
            if until is not None and kernel.now >= until:
                return False

    def release(self) -> None:
        """Release the lock; any thread may."""
        if not self._locked:
            raise RuntimeError("release unlocked lock")
        self._locked = False
        _wake(self._waiting)

    def locked(self) -> bool:
        """Return whether a thread holds it."""
        return self._locked

    def _at_fork_reinit(self) -> None:
        self._locked = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_exc: object) -> None:
        self.release()

    acquire_lock = acquire
    release_lock = release
    locked_lock = locked


class RLock:
    """A lock that its holder may acquire again, as ``threading.RLock``."""

    __slots__ = ("__weakref__", "_count", "_holder", "_serial", "_waiting")

    def __init__(self) -> None:
        self._holder: Task | Literal["outside"] | None = None
        self._count = 0
        self._waiting: list[Task] = []
        self._serial = next(_serials)

    def __hash__(self) -> int:
        return self._serial

    def __eq__(self, other: object) -> bool:
        return self is other

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, as ``threading.RLock.acquire``."""
        _check(blocking, timeout)
        me: Task | Literal["outside"] = current.task() or "outside"
        kernel = current.kernel()
        if self._holder == me:
            self._count += 1
            return True
        if kernel is not None and me != "outside":
            kernel.preempt()
        if self._holder is None:
            self._holder, self._count = me, 1
            return True
        if not blocking:
            return False
        if kernel is None or me == "outside":
            raise WouldWaitError(
                "a simulated thread holds the lock, and code outside of the simulated threads cannot wait"
            )
        until = None if timeout < 0 else kernel.now + round(timeout * 1e9)
        while True:
            _wait(kernel, self._waiting, until)
            if not self._held():
                self._holder, self._count = me, 1
                return True
            if until is not None and kernel.now >= until:
                return False

    def release(self) -> None:
        """Release the lock once."""
        if not self._is_owned():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._holder = None
            _wake(self._waiting)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_exc: object) -> None:
        self.release()

    def _held(self) -> bool:
        return self._holder is not None

    # These are for threading.Condition.

    def _is_owned(self) -> bool:
        return self._holder is not None and self._holder == (current.task() or "outside")

    def _release_save(self) -> int:
        count, self._count, self._holder = self._count, 0, None
        _wake(self._waiting)
        return count

    def _acquire_restore(self, count: int) -> None:
        self.acquire()
        self._count = count

    def _recursion_count(self) -> int:
        return self._count if self._is_owned() else 0

    def _at_fork_reinit(self) -> None:
        self._holder, self._count = None, 0


class ProcessLock:
    """A lock in a global variable: each simulated process has a separate one.

    Made where a module made a real lock when it was imported. A process that is killed while it holds the lock must not stop the others.
    """

    def __init__(self, kind: type[Lock | RLock]) -> None:
        self._kind = kind
        self._locks: dict[str, Lock | RLock] = {}

    def _lock(self) -> Lock | RLock:
        task = current.task()
        label = "" if task is None else task.process.label
        if label not in self._locks:
            self._locks[label] = self._kind()
        return self._locks[label]

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock of this process."""
        return self._lock().acquire(blocking, timeout)

    def release(self) -> None:
        """Release the lock of this process."""
        self._lock().release()

    def __enter__(self) -> bool:
        return self._lock().acquire()

    def __exit__(self, *_exc: object) -> None:
        self._lock().release()

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._lock(), name)


def _check(blocking: bool, timeout: float) -> None:
    if not blocking and timeout != -1:
        raise ValueError("can't specify a timeout for a non-blocking call")
    if timeout < 0 and timeout != -1:
        raise ValueError("timeout value must be a non-negative number")


def _wait(kernel: Kernel, waiting: list[Task], until: int | None) -> None:
    task = kernel.running()
    waiting.append(task)
    try:
        kernel.wait("a lock", until)
    finally:
        waiting.remove(task)


def _wake(waiting: list[Task]) -> None:
    kernel = current.kernel()
    if kernel is not None:
        for task in waiting:
            kernel.wake(task)
