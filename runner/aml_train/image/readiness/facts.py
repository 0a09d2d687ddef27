"""The facts that the probe reports of an image: form and access. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import NoneType
from typing import Any, Final

from aml_train.core.checks import Finding
from aml_train.image.spec import CheckPolicy

Facts = Mapping[str, Any]
"""The output of the probe, with ``image`` added: size, entrypoint and user by the engine."""

Rule = Callable[[Facts, CheckPolicy], Iterator[Finding]]

_MOST_DIGITS: Final = 10
_TEXT: Final = (str, NoneType)
_LIBRARY: Final = {"status": str, "path": _TEXT, "version": _TEXT, "error": _TEXT}
# Facts of every probe, and facts that only a Python can find. A mapping is a mapping with these keys at least.
_ALWAYS: Final[Mapping[str, Any]] = {"format": int, "bash": _TEXT, "python": (dict, NoneType)}
_WITH_PYTHON: Final[Mapping[str, Any]] = {
    "python": {"version": str, "path": str, "bits": int},
    "commands": dict,
    "system": {"name": _TEXT, "machine": str, "libc": _TEXT},
    "user": {"uid": int, "name": _TEXT, "home": str, "home_writable": bool, "tmp_writable": bool},
    "certificates": {"count": (int, NoneType), "bundle": _TEXT},
    "environment": dict,
    "missing_files": list,
    "python_packages": dict,
    "system_packages": dict,
    "azureml": list,
    "pip_check": (list, NoneType),
    "imports": dict,
    "libraries": dict.fromkeys(("libibverbs.so.1", "librdmacm.so.1", "libfuse.so.2", "libcuda.so.1"), _LIBRARY),
    "mlx5": {"configured": bool, "wanted": _TEXT, "others": list, "library": (dict, NoneType)},
    "devices": {"kernel": list, "nodes": list, "seen": (dict, NoneType)},
    "ofed": _TEXT,
    "mpi": _TEXT,
    "nccl": {"library": _LIBRARY, "plugin": {**_LIBRARY, "name": str}},
    "cuda": _TEXT,
    "torch_cuda": _TEXT,
}


def parse_facts(content: bytes) -> dict[str, Any]:
    """Read what the probe wrote.

    Raises:
        ValueError: if it is not that; an image may hold anything.
    """
    try:
        facts = json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    check_facts(facts)
    return dict(facts)


def check_facts(facts: object) -> None:
    """Raise ValueError unless *facts* have the probe's form."""
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


def python_version(facts: Facts) -> tuple[int, ...] | None:
    """Return the version of the image's Python, or None without a usable one."""
    python = facts["python"]
    if python is None:
        return None
    # An image may say anything: `²` is a digit, and no integer.
    parts = str(python["version"]).split(".")
    return tuple(int(part) for part in parts if part.isdecimal() and len(part) < _MOST_DIGITS)
