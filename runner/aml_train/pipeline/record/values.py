"""Values of the pipeline as JSON and back: configuration, plan, images. Pure.

A value is written with the name of its class, which is one of ours, and is made again without its constructor: scrubbed values need
not pass its checks.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import importlib
import math
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Final

_OURS: Final = "aml_train."


class Unknown:
    """A part of a value that a bundle cannot hold, such as a function.

    Args:
        name: the name of its class.
    """

    def __init__(self, name: str) -> None:
        self.name = name


def encode(value: Any) -> Any:
    """Return *value* as JSON; contents of files become their length."""
    if value is None or (isinstance(value, bool | int | str) and not isinstance(value, enum.Enum)):
        return value
    match value:
        case enum.Enum():
            return {"$enum": _class_name(type(value)), "name": value.name}
        case float():
            return value if math.isfinite(value) else {"$float": repr(value)}
        case bytes():
            return {"$bytes": len(value)}
        case datetime.datetime():
            return {"$time": value.isoformat()}
        case datetime.timedelta():
            return {"$seconds": value.total_seconds()}
        case PurePath():
            return {"$path": str(value)}
        case tuple():
            return {"$tuple": [encode(one) for one in value]}
        case set() | frozenset():
            return {"$set": sorted((encode(one) for one in value), key=repr)}
        case list():
            return [encode(one) for one in value]
        case Mapping():
            if all(isinstance(key, str) and not key.startswith("$") for key in value):
                return {key: encode(one) for key, one in value.items()}
            return {"$map": [[encode(key), encode(one)] for key, one in value.items()]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: encode(getattr(value, one.name)) for one in dataclasses.fields(value) if one.init}
        return {"$type": _class_name(type(value)), **fields}
    return {"$unknown": type(value).__qualname__}


def _class_name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def decode(value: Any) -> Any:
    """Return the value of a JSON value that :func:`encode` made.

    Raises:
        ValueError: it names a class that is none of ours, or is of another form.
    """
    if isinstance(value, list):
        return [decode(one) for one in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$type": str(name), **fields}:
            return _made(_class(name), {key: decode(one) for key, one in fields.items()})
        case {"$enum": str(name), "name": str(member)}:
            return _member(_class(name), member)
        case {"$float": str(text)}:
            return float(text)
        case {"$bytes": int(length)}:
            return b" " * length
        case {"$time": str(text)}:
            return datetime.datetime.fromisoformat(text)
        case {"$seconds": int() | float() as seconds}:
            return datetime.timedelta(seconds=seconds)
        case {"$path": str(text)}:
            return Path(text)
        case {"$tuple": list(items)}:
            return tuple(decode(one) for one in items)
        case {"$set": list(items)}:
            return frozenset(decode(one) for one in items)
        case {"$map": list(pairs)}:
            return {decode(key): decode(one) for key, one in pairs}
        case {"$unknown": str(name)}:
            return Unknown(name)
    return {key: decode(one) for key, one in value.items()}


def _class(name: str) -> type:
    module, _, path = name.partition(":")
    if not module.startswith(_OURS):
        raise ValueError(f"{name} is no class of aml-train")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"this version of aml-train has no {name}") from error
    if not isinstance(found, type) or not (dataclasses.is_dataclass(found) or issubclass(found, enum.Enum)):
        raise ValueError(f"{name} is no value")
    return found


def _member(cls: type, name: str) -> Any:
    if not issubclass(cls, enum.Enum) or name not in cls.__members__:
        raise ValueError(f"{cls.__qualname__} has no member of that name")
    return cls[name]


def _made(cls: type, given: dict[str, Any]) -> Any:
    made: Any = object.__new__(cls)
    for one in dataclasses.fields(cls):
        if one.name in given:
            value = given[one.name]
        elif one.default is not dataclasses.MISSING:
            value = one.default
        elif one.default_factory is not dataclasses.MISSING:
            value = one.default_factory()
        else:
            continue
        object.__setattr__(made, one.name, value)
    return made
