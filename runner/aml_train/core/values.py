"""Dataclasses that are quick to define.

The standard library compiles six methods for each frozen dataclass, which takes 0.4 ms. A run defines more than 200 of
them, so that compiling would be half of its imports. Here all classes share the same methods. Type checkers and the
functions of :mod:`dataclasses` take them as any other dataclass.

Making a value takes 2 µs longer: dataclasses of which a run makes many thousands are those of the library.
"""

from __future__ import annotations

import dataclasses
import inspect
import reprlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """Make a dataclass; share its methods if it takes keywords only."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        if options not in _SHARED:
            return dataclasses.dataclass(cls, **options)
        cls.__doc__ = cls.__doc__ or cls.__name__  # else the library computes a signature for it
        dataclasses.dataclass(kw_only=True, init=False, repr=False, eq=False)(cls)
        cls.__aml_train_fields__ = dataclasses.fields(cls)
        cls.__signature__ = _SIGNATURE
        for name, method in (_METHODS | (_FROZEN if options.get("frozen") else _CHANGING)).items():
            if name not in vars(cls) or (name == "__hash__" and vars(cls)[name] is None):
                setattr(cls, name, method)
        return cls


_SHARED: Final = ({"kw_only": True}, {"frozen": True, "kw_only": True})


def _fields(value: Any) -> tuple[dataclasses.Field[Any], ...]:
    return value.__aml_train_fields__  # type: ignore[no-any-return]


def _init(self: Any, /, **given: object) -> None:
    missing = []
    for field in _fields(self):
        name = field.name
        if field.init and name in given:
            value = given.pop(name)
        elif field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            if field.init:
                missing.append(name)
            continue
        object.__setattr__(self, name, value)
    for problem, names in (("needs", missing), ("does not know", list(given))):
        if names:
            raise TypeError(f"{type(self).__qualname__}() {problem} the arguments: {', '.join(names)}")
    if hasattr(self, "__post_init__"):
        self.__post_init__()


class _Signature:
    """The attribute ``__signature__`` of the classes, for :func:`inspect.signature`."""

    def __get__(self, _value: object, owner: type) -> inspect.Signature:
        return inspect.Signature([_parameter(field) for field in _fields(owner) if field.init])


def _parameter(field: dataclasses.Field[Any]) -> inspect.Parameter:
    default: Any = inspect.Parameter.empty
    if field.default is not dataclasses.MISSING:
        default = field.default
    elif field.default_factory is not dataclasses.MISSING:
        default = field.default_factory
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.type)


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in _fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _compared(value: Any) -> tuple[object, ...]:
    return tuple(getattr(value, field.name) for field in _fields(value) if field.compare)


def _eq(self: Any, other: object) -> bool:
    return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(
        tuple(
            getattr(self, field.name)
            for field in _fields(self)
            if (field.compare if field.hash is None else field.hash)
        )
    )


def _setattr(_self: Any, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


_SIGNATURE: Final = _Signature()
_METHODS: Final = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
}
_CHANGING: Final = {"__hash__": None}
_FROZEN: Final = {
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
}
