"""Substitutes of functions of Python's standard library.

Each substitute calls the original outside of simulated threads: a module that is imported during a run keeps substitutes,
and other threads of the operating system, such as a test runner's, meet them too.
"""

from __future__ import annotations

import _thread
import atexit
import os
import queue
import random
import signal
import socket
import time
from _threading_local import local as greenlet_local
from collections.abc import Callable
from typing import Any, Final, NoReturn

from simulation.kernel import current
from simulation.kernel.entities import Task
from simulation.kernel.errors import Buried, SimulationError
from simulation.kernel.locks import Lock, RLock
from simulation.kernel.scheduler import MONOTONIC_START, Kernel

_SENTINEL: Final = _thread._set_sentinel if hasattr(_thread, "_set_sentinel") else None  # until Python 3.12
_RANDOM: Final = tuple(
    name
    for name in (
        *(
            "betavariate",
            "binomialvariate",
            "choice",
            "choices",
            "expovariate",
            "gammavariate",
            "gauss",
            "getrandbits",
        ),
        *(
            "lognormvariate",
            "normalvariate",
            "paretovariate",
            "randbytes",
            "randint",
            "random",
            "randrange",
            "sample",
        ),
        *("seed", "shuffle", "triangular", "uniform", "vonmisesvariate", "weibullvariate"),
    )
    if hasattr(random, name)
)
_real_random: Final = random.Random


class Substitute:
    """A function in another one's place.

    No function: as a class's attribute, such as the default of a field, a function would become a method.
    """

    def __init__(self, original: Callable[..., Any], simulated: Callable[..., Any]) -> None:
        self.__wrapped__ = original
        self._simulated = simulated

    def __call__(self, *args: Any, **options: Any) -> Any:
        task = current.task()
        if task is None:
            return self.__wrapped__(*args, **options)
        return self._simulated(task, *args, **options)


class _Anywhere:
    """A substitute that also applies to the hub.

    Code of checks and of builds makes locks, and looks at the time.
    """

    def __init__(self, original: Callable[..., Any], simulated: Callable[..., Any]) -> None:
        self.__wrapped__ = original
        self._simulated = simulated

    def __call__(self, *args: Any, **options: Any) -> Any:
        kernel = current.kernel()
        return self.__wrapped__(*args, **options) if kernel is None else self._simulated(kernel, *args, **options)


def _kernel() -> Kernel:
    kernel = current.kernel()
    if kernel is None:
        raise SimulationError("no kernel is installed")
    return kernel


# Threads


def _start_new_thread(task: Task, function: Callable[..., object], args: Any = (), options: Any = None) -> int:
    kernel = _kernel()
    if kernel.burying:
        raise Buried
    owner = getattr(function, "__self__", None)
    name = getattr(owner, "name", getattr(function, "__name__", "thread"))
    # A context variable's value is not inherited by a thread, nor by a greenlet.
    return kernel.spawn(task.process, str(name), _thread_body(function, args, options or {})).ident


def _thread_body(function: Callable[..., object], args: Any, options: Any) -> Callable[[], None]:
    def body() -> None:
        try:
            function(*args, **options)
        finally:
            task = current.task()
            if task is not None and task.sentinel is not None and task.sentinel.locked():
                task.sentinel.release()

    return body


def _set_sentinel(task: Task) -> Lock:
    """Return the lock that is released when the thread has ended.

    ``Thread.join`` waits for it.
    """
    task.sentinel = lock = Lock()
    return lock


def _ident(task: Task) -> int:
    return task.ident


# Time


def _sleep(_task: Task, seconds: float, /) -> None:
    _kernel().sleep(float(seconds))


def _monotonic_ns(kernel: Kernel) -> int:
    return MONOTONIC_START + kernel.read_clock()


def _monotonic(kernel: Kernel) -> float:
    return _monotonic_ns(kernel) / 1e9


_REALTIME: Final = getattr(time, "CLOCK_REALTIME", 0)


def _clock_gettime_ns(kernel: Kernel, clock: int, /) -> int:
    return kernel.wall_clock() if clock == _REALTIME else _monotonic_ns(kernel)


def _clock_gettime(kernel: Kernel, clock: int, /) -> float:
    return _clock_gettime_ns(kernel, clock) / 1e9


# Randomness


def _urandom(task: Task, size: int, /) -> bytes:
    return task.process.random.randbytes(size)


def _of_process(name: str) -> Callable[..., Any]:
    def call(task: Task, *args: Any, **options: Any) -> Any:
        return getattr(task.process.random, name)(*args, **options)

    return call


class SimulatedRandom(random.Random):
    """``random.Random``, which takes its seed from the process if it gets none."""

    def __init__(self, x: Any = None) -> None:
        task = current.task()
        super().__init__(task.process.random.getrandbits(128) if x is None and task is not None else x)


# Processes


def _getpid(task: Task) -> int:
    return task.process.pid


def _exit(task: Task, code: int) -> NoReturn:
    kernel = _kernel()
    if kernel.burying:
        raise Buried
    kernel.end(task.process, code)
    raise AssertionError("the end of a process returned")


def _kill(_task: Task, pid: int, number: int, /) -> None:
    kernel = _kernel()
    process = kernel.find(pid)
    if process is None or not process.alive:
        raise ProcessLookupError(3, "No such process")
    if number:
        kernel.signal(process, number)


def _register(task: Task, function: Callable[..., object], /, *args: Any, **options: Any) -> Any:
    task.process.at_exit.append(lambda: function(*args, **options))
    return function


def _unregister(_task: Task, _function: object, /) -> None:
    raise SimulationError("atexit.unregister is not simulated")


def _no_putenv(_task: Task, *_args: object) -> None:
    """Change nothing.

    ``os.environ`` has the process's values, and no real program is started.
    """


def _set_handler(task: Task, number: int, handler: Any, /) -> Any:
    before = _handler(task, number)
    task.process.handlers[number] = handler
    return before


def _handler(task: Task, number: int, /) -> Any:
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    return task.process.handlers.get(number, default)


def _signal_thread(task: Task, _thread_id: int, number: int, /) -> None:
    _kernel().signal(task.process, number)


def _interrupt_main(task: Task, number: int = signal.SIGINT, /) -> None:
    _kernel().signal(task.process, number)


def _no_connection(_task: Task, _socket: object, address: object, /) -> NoReturn:
    raise SimulationError(
        f"a simulated program connects to {address} without requests or urllib3: only these are simulated"
    )


def substitutes() -> list[tuple[object, object]]:
    """Return pairs of an original and what replaces it."""
    in_threads: list[tuple[Any, Callable[..., Any]]] = [
        (_thread.start_new_thread, _start_new_thread),
        (_thread.start_new, _start_new_thread),
        (_thread.get_ident, _ident),
        (_thread.get_native_id, _ident),
        (_thread.interrupt_main, _interrupt_main),
        (time.sleep, _sleep),
        (os.urandom, _urandom),
        (os.getpid, _getpid),
        (os._exit, _exit),
        (os.kill, _kill),
        (os.putenv, _no_putenv),
        (os.unsetenv, _no_putenv),
        (atexit.register, _register),
        (atexit.unregister, _unregister),
        (signal.signal, _set_handler),
        (signal.getsignal, _handler),
        (signal.pthread_kill, _signal_thread),
        *((getattr(random, name), _of_process(name)) for name in _RANDOM),
    ]
    if _SENTINEL is not None:
        in_threads.append((_SENTINEL, _set_sentinel))
    anywhere: list[tuple[Any, Callable[..., Any]]] = [
        (_thread.allocate_lock, lambda _kernel: Lock()),
        (_thread.RLock, lambda _kernel: RLock()),
        (time.monotonic, _monotonic),
        (time.monotonic_ns, _monotonic_ns),
        (time.perf_counter, _monotonic),
        (time.perf_counter_ns, _monotonic_ns),
        (time.clock_gettime, _clock_gettime),
        (time.clock_gettime_ns, _clock_gettime_ns),
    ]
    return [
        *((original, Substitute(original, simulated)) for original, simulated in in_threads),
        *((original, _Anywhere(original, simulated)) for original, simulated in anywhere),
        # Classes stay classes, because others derive from them. Both are the standard library's, in Python.
        (_thread._local, greenlet_local),
        (queue.SimpleQueue, queue._PySimpleQueue),  # type: ignore[attr-defined]
        (_real_random, SimulatedRandom),
    ]


def connecting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return what replaces ``socket.connect``: an error in simulated threads."""

    def connect(self: socket.socket, address: object) -> Any:
        task = current.task()
        return original(self, address) if task is None else _no_connection(task, self, address)

    return connect
