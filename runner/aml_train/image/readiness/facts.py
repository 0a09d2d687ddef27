"""The form of the facts that the probe reports of an image. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

Facts = Mapping[str, Any]
"""The output of the probe."""

_TEXT: Final = (str, NoneType)
_LIBRARY: Final = {"status": str, "path": _TEXT, "version": _TEXT, "error": _TEXT}
# Facts of every probe, and facts that only a Python can find. A mapping is a mapping with these keys at least.
_ALWAYS: Final[Mapping[str, Any]] = {"format": int, "bash": _TEXT, "python": (dict, NoneType)}
_WITH_PYTHON: Final[Mapping[str, Any]] = {
    "python": {"version": str, "path": str},
    "commands": dict,
    "user": {"uid": int, "name": _TEXT, "home": str, "home_writable": bool, "tmp_writable": bool},
    "certificates": int,
    "environment": dict,
    "missing_files": list,
    "python_packages": dict,
    "system_packages": dict,
    "azureml": list,
    "pip_check": (list, NoneType),
    "imports": dict,
    "libraries": dict.fromkeys(("libibverbs.so.1", "libfuse.so.2"), _LIBRARY),
    "mlx5": {"configured": bool, "wanted": _TEXT, "others": list, "library": (dict, NoneType)},
    "nccl": {"library": _LIBRARY, "plugin": {**_LIBRARY, "name": str}},
    "cuda": _TEXT,
    "torch_cuda": _TEXT,
}


def check_facts(facts: object) -> None:
    """Raise ValueError unless *facts* have the probe's form; an image may hold anything."""
    check_shape(facts, _ALWAYS, "it")
    if isinstance(facts, dict) and facts["python"] is not None:
        check_shape(facts, _WITH_PYTHON, "it")


def check_shape(value: object, shape: Any, name: str) -> None:
    """Raise ValueError unless *value* has the types of *shape*, a mapping its keys at least."""
    if isinstance(shape, Mapping):
        if not isinstance(value, dict):
            raise ValueError(f"{name} is not a mapping")  # noqa: TRY004 - foreign input, not a caller's mistake
        for key, part in shape.items():
            if key not in value:
                raise ValueError(f"{name} lacks {key}")
            check_shape(value[key], part, key)
    elif not isinstance(value, shape) or (isinstance(value, bool) and shape is not bool):
        raise ValueError(f"{name} is {type(value).__name__}")
