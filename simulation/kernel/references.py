"""References to the replaced functions, wherever they were taken.

``from time import monotonic`` keeps a reference, and so does ``def wait(now=time.monotonic)``. All loaded modules are
searched, once for each module; what was found is replaced during a run, and put back afterwards.
"""

from __future__ import annotations

import _thread
import sys
import types
from _threading_local import local as greenlet_local
from collections.abc import Callable
from typing import Any, Final

from simulation.kernel.locks import Lock, ProcessLock, RLock

#: Modules that keep the real functions: the import system, the kernel itself, and what measures and runs tests.
_LEFT_OUT: Final = frozenset(
    {
        "_frozen_importlib",
        "_imp",
        "_pytest",
        "coverage",
        "execnet",
        "faulthandler",
        "greenlet",
        "hypothesis",
        "importlib",
    }
    | {"pluggy", "pytest", "pytest_timeout", "simulation", "time_machine", "_time_machine", "xdist", "zipimport"}
)
#: Names of ``_thread`` that the import system looks up there.
_OF_IMPORTS: Final = frozenset({"allocate_lock", "get_ident", "RLock", "LockType"})
_REAL_LOCKS: Final[dict[type, type[Lock | RLock]]] = {
    type(_thread.allocate_lock()): Lock,
    type(_thread.RLock()): RLock,
}

Put = Callable[[object], object]


class References:
    """The references in all loaded modules to the originals of *pairs*."""

    def __init__(self, pairs: list[tuple[object, object]]) -> None:
        self._pairs = pairs  # keeps the originals, whose addresses are looked up
        self._replacements = {id(original): replacement for original, replacement in pairs}
        self._seen: set[int] = set()
        self._found: list[tuple[Put, object, Callable[[], object]]] = []

    def search(self) -> None:
        """Look for references in the modules that were loaded since the last time."""
        loaded: dict[str, object] = dict(sys.modules)  # which may hold other things than modules
        for name, module in loaded.items():
            if id(module) in self._seen or not isinstance(module, types.ModuleType) or _left_out(name):
                continue
            self._seen.add(id(module))
            for attribute, value in list(vars(module).items()):
                if not (name == "_thread" and attribute in _OF_IMPORTS):
                    self._look(vars(module), attribute, value, name)

    def _look(self, values: dict[str, Any], name: str, value: object, module: str) -> None:
        """Look at a name of a module, and into its value if the module made it."""
        if self._note(lambda new: values.__setitem__(name, new), value):
            return
        if isinstance(value, type):
            if value.__module__ == module:
                for attribute, member in list(vars(value).items()):
                    self._look_into_class(value, attribute, member)
        elif isinstance(value, types.FunctionType):
            self._defaults(value)
        elif type(value).__module__ not in ("builtins", "types") and not isinstance(value, types.ModuleType):
            fields = _fields(value)
            for attribute, member in list(fields.items()):
                self._note(_setter(fields, attribute), member)

    def _look_into_class(self, owner: type, name: str, member: object) -> None:
        function = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if isinstance(function, types.FunctionType):
            self._defaults(function)
        elif id(member) in self._replacements:
            self._note(lambda new: setattr(owner, name, new), member)

    def _defaults(self, function: types.FunctionType) -> None:
        values = function.__defaults__ or ()
        if any(id(value) in self._replacements for value in values):
            replaced = tuple(self._replacements.get(id(value), value) for value in values)
            self._found.append((lambda new: setattr(function, "__defaults__", new), values, lambda: replaced))
        options = function.__kwdefaults__ or {}
        for name, value in options.items():
            self._note(_setter(options, name), value)

    def _note(self, put: Put, value: object) -> bool:
        """Note a reference; return whether the value is one that is replaced."""
        if id(value) in self._replacements:
            replacement = self._replacements[id(value)]
            self._found.append((put, value, lambda: replacement))
        elif type(value) in _REAL_LOCKS:
            kind = _REAL_LOCKS[type(value)]
            self._found.append((put, value, lambda: ProcessLock(kind)))
        elif type(value) is _thread._local:
            self._found.append((put, value, greenlet_local))
        else:
            return False
        return True

    def replace(self) -> None:
        """Put the replacements in place."""
        for put, _original, make in self._found:
            put(make())

    def restore(self) -> None:
        """Put the originals back."""
        for put, original, _make in self._found:
            put(original)


def _left_out(name: str) -> bool:
    return name.partition(".")[0] in _LEFT_OUT


def _fields(value: object) -> dict[str, Any]:
    """Return the attributes of a value.

    Its class is not involved, which may import or connect to find them.
    """
    try:
        found: object = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def _setter(values: dict[str, Any], name: str) -> Put:
    return lambda new: values.__setitem__(name, new)
