"""Global variables that belong to one process.

The simulated processes share one interpreter. A variable that each of them has for itself is listed as a :class:`Slot`: at
each switch to another process its value is kept, and the other one's is put in its place.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakSet

from simulation.kernel import current
from simulation.kernel.locks import Lock, RLock

if TYPE_CHECKING:
    from simulation.kernel.entities import Process


@dataclass(frozen=True)
class Slot:
    """A global variable of which each process has a separate value.

    Attributes:
        module: that defines it; it is left out if it was not imported.
        name: of the variable, or a path such as ``environ._data``.
        fresh: makes the value of a new process from the value outside.
    """

    module: str
    name: str
    fresh: Callable[[Any], object]


def uncached(function: Any) -> object:
    """Return a cached function with an empty cache."""
    options = function.cache_parameters()
    return functools.lru_cache(**options)(function.__wrapped__)


def _same(value: object) -> object:
    return value


def _thread_failed(failure: Any) -> None:
    """Note an error that ended a thread, in place of printing it."""
    kernel = current.kernel()
    if kernel is not None and kernel.current is not None and failure.exc_type is not SystemExit:
        text = f"ends with {failure.exc_type.__name__}: {failure.exc_value}"
        kernel.trace.add(kernel.now, kernel.current.name, "thread", text)


#: What the standard library keeps for each process.
PYTHON: Final = (
    Slot("threading", "_active", lambda _: {}),
    Slot("threading", "_limbo", lambda _: {}),
    Slot("threading", "_active_limbo_lock", lambda _: RLock()),
    Slot("threading", "_dangling", lambda _: WeakSet()),
    Slot("threading", "_shutdown_locks", lambda _: set()),
    Slot("threading", "_shutdown_locks_lock", lambda _: Lock()),
    Slot("threading", "_SHUTTING_DOWN", lambda _: False),
    Slot("threading", "_counter", lambda _: itertools.count(1).__next__),
    Slot("threading", "_main_thread", _same),
    Slot("threading", "excepthook", lambda _: _thread_failed),
    Slot("concurrent.futures.thread", "_threads_queues", lambda _: WeakKeyDictionary()),
    Slot("concurrent.futures.thread", "_shutdown", lambda _: False),
    Slot("concurrent.futures.thread", "_global_shutdown_lock", lambda _: Lock()),
    Slot("concurrent.futures.thread", "ThreadPoolExecutor._counter", lambda _: itertools.count().__next__),
    Slot("os", "environ._data", dict),
    Slot("sys", "argv", list),
    Slot("sys", "stdout", _same),
    Slot("sys", "stderr", _same),
    Slot("sys", "unraisablehook", _same),
    Slot("tempfile", "_name_sequence", lambda _: None),
    Slot("uuid", "_last_timestamp", lambda _: None),
)

#: What aml_train keeps for each process. A test finds variables that are in neither list.
PRODUCT: Final = (
    Slot("aml_train.azure.sdk", "_SILENCE", lambda present: type(present)()),
    Slot("aml_train.core.temporary", "_this_process", uncached),
    Slot("aml_train.core.threads", "_cleanups", lambda _: []),
    Slot("aml_train.image.leftovers", "this_owner", uncached),
    Slot("aml_train.local.target", "_changed", lambda _: {}),
    Slot("aml_train.models.passport.keyless", "_trust_config", uncached),
    Slot("aml_train.pipeline.target", "_present", list),
)

#: What processes share without harm: what is computed from the code or the machine alone, or kept for each thread anyway.
SHARED: Final = {
    ("aml_train.azure.sdk_v1", "_WORKING_DIRECTORY"): "a lock, which simulation.kernel.references replaces",
    ("aml_train.azure.sdk_v2", "_LEAVING"): "a context variable: each thread has a separate context",
    ("aml_train.config.yaml.nodes", "_constructor"): "used for single scalars, and keeps nothing between them",
    ("aml_train.core.file_selection", "_spec"): "computed from its arguments",
    ("aml_train.core.masked_events", "_words"): "computed from the types of events",
    ("aml_train.core.temporary", "this_machine"): "computed from the machine",
    ("aml_train.image.readiness.check", "probe_key"): "computed from a file of the product",
    ("aml_train.image.readiness.check", "probe_script"): "computed from a file of the product",
    ("aml_train.report.html", "_template"): "computed from a file of the product",
}


class Globals:
    """The variables of all slots, and whose values they have at present."""

    def __init__(self, slots: Iterable[Slot]) -> None:
        self._places: list[tuple[object, str]] = []
        self._fresh: list[tuple[Callable[[Any], object], int]] = []
        self._groups: list[int] = []
        self._outside: list[object] = []
        self._present: Process | None = None
        self.add(slots)

    def add(self, slots: Iterable[Slot]) -> None:
        """Add slots, before any process runs."""
        for slot in slots:
            module = sys.modules.get(slot.module)
            if module is None:
                continue
            *path, name = slot.name.split(".")
            owner = functools.reduce(getattr, path, module)
            if not hasattr(owner, name):  # another release of Python
                continue
            for place in [(owner, name), *_aliases(slot, getattr(owner, name))]:
                self._places.append(place)
                self._groups.append(len(self._fresh))
            self._fresh.append((slot.fresh, len(self._places) - 1))
        self._outside = self._read()

    def _read(self) -> list[object]:
        return [getattr(owner, name) for owner, name in self._places]

    def _write(self, values: list[object]) -> None:
        for (owner, name), value in zip(self._places, values, strict=True):
            setattr(owner, name, value)

    def enter(self, process: Process | None) -> None:
        """Keep the values of the present process, and set those of *process*.

        None is the outside.
        """
        if process is self._present:
            return
        if self._present is None:
            self._outside = self._read()
        else:
            self._present.values = self._read()
        if process is None:
            self._write(self._outside)
        else:
            if process.values is None:
                made = [fresh(self._outside[place]) for fresh, place in self._fresh]
                process.values = [made[group] for group in self._groups]
            self._write(process.values)
        self._present = process


def _aliases(slot: Slot, value: object) -> list[tuple[object, str]]:
    """Return the modules that have imported a cached function by its name."""
    if slot.fresh is not uncached:
        return []
    loaded = [module for name, module in sorted(sys.modules.items()) if name != slot.module]
    return [(module, slot.name) for module in loaded if getattr(module, "__dict__", {}).get(slot.name) is value]
