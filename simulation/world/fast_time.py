"""Virtual time for real threads: pauses cost nothing.

Time runs as usual while a thread works, and leaps to the end of the next pause as soon as every thread waits. With this the
services are tested without the simulation's scheduler.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest import mock

#: Real seconds between two looks, seconds of the processor that count as idle, and how many looks must find the threads idle.
_LOOK: Final = 0.0008
_IDLE: Final = 0.00005
_QUIET: Final = 4
_REAL: Final = {name: getattr(time, name) for name in ("sleep", "time", "monotonic", "clock_gettime")}
_PRODUCT: Final = ("aml_train", "aml_emulator", "simulation")


class FastTime:
    """The virtual clock, and the thread that moves it."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._waiting: dict[int, float] = {}
        self._condition = threading.Condition()
        self._stopped = False

    @property
    def leaped(self) -> float:
        """The seconds that were skipped so far."""
        return self._offset

    def time(self) -> float:
        """Return seconds since the epoch."""
        return float(_REAL["time"]()) + self._offset

    def monotonic(self) -> float:
        """Return seconds of the monotonic clock."""
        return float(_REAL["monotonic"]()) + self._offset

    def clock_gettime(self, clock: int) -> float:
        """Return seconds of a clock of the system."""
        return float(_REAL["clock_gettime"](clock)) + self._offset

    def sleep(self, seconds: float) -> None:
        """Sleep for virtual seconds."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        me, until = threading.get_ident(), self.monotonic() + seconds
        with self._condition:
            self._waiting[me] = until
            try:
                while (left := until - self.monotonic()) > 0:
                    self._condition.wait(left)
            finally:
                del self._waiting[me]

    def leap(self, seconds: float) -> None:
        """Let so much time pass at once."""
        with self._condition:
            self._offset += seconds
            self._condition.notify_all()

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Replace time during the block, also where a function has kept it as a default."""
        mover = threading.Thread(target=self._move, name="fast-time", daemon=True)
        with contextlib.ExitStack() as stack:
            for name in _REAL:
                stack.enter_context(mock.patch.object(time, name, getattr(self, name)))
            stack.enter_context(_rebound({_REAL[name]: getattr(self, name) for name in _REAL}))
            mover.start()
            try:
                yield
            finally:
                with self._condition:
                    self._stopped = True
                mover.join()

    def _move(self) -> None:
        """Leap whenever no other thread has used the processor for a moment."""
        before, quiet = _used(), 0
        while not self._stopped:
            _REAL["sleep"](_LOOK)
            now = _used()
            quiet = quiet + 1 if now - before < _IDLE and self._waiting else 0
            before = now
            if quiet < _QUIET:
                continue
            quiet = 0
            with self._condition:
                if not self._waiting:
                    continue
                first = min(self._waiting.values())
                self._offset += max(0.0, first - self.monotonic()) + 1e-6
                self._condition.notify_all()


def _used() -> float:
    """Return the processor time that other threads of this process have used."""
    return time.process_time() - time.thread_time()


@contextlib.contextmanager
def _rebound(instead: dict[Callable[..., Any], Callable[..., Any]]) -> Iterator[None]:
    """Replace functions that defaults and values of loaded modules have kept."""
    undo: list[Callable[[], object]] = []
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in _PRODUCT or name == __name__ or module is None:
            continue
        for function in _functions(module):
            defaults, named = function.__defaults__, function.__kwdefaults__
            if defaults and any(_is_in(one, instead) for one in defaults):
                function.__defaults__ = tuple(_new(one, instead) for one in defaults)
                undo.append(lambda function=function, kept=defaults: setattr(function, "__defaults__", kept))  # type: ignore[misc]
            if named and any(_is_in(one, instead) for one in named.values()):
                function.__kwdefaults__ = {key: _new(one, instead) for key, one in named.items()}
                undo.append(lambda function=function, kept=named: setattr(function, "__kwdefaults__", kept))  # type: ignore[misc]
    try:
        yield
    finally:
        for one in undo:
            one()


def _is_in(one: object, instead: dict[Callable[..., Any], Callable[..., Any]]) -> bool:
    return isinstance(one, types.BuiltinFunctionType) and one in instead


def _new(one: Any, instead: dict[Callable[..., Any], Callable[..., Any]]) -> Any:
    return instead[one] if _is_in(one, instead) else one


def _functions(module: types.ModuleType) -> Iterator[types.FunctionType]:
    """Yield a module's functions and methods, those in wrappers included."""
    for value in list(vars(module).values()):
        inner = list(vars(value).values()) if isinstance(value, type) and value.__module__ == module.__name__ else []
        for one in (value, *inner):
            found = inspect.unwrap(one) if isinstance(one, types.FunctionType) else one
            if isinstance(found, types.FunctionType):
                yield found
