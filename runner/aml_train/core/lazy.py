"""Doors of folders.

A package loads each module at the first use of one of its names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return a package's ``__getattr__`` (PEP 562).

    Args:
        package: the package's name.
        names: the names that it offers, each with the module below the package that defines it, or with "" for a module itself.
    """

    def attribute(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        if not names[name]:
            return import_module(f"{package}.{name}")
        return getattr(import_module(f"{package}.{names[name]}"), name)

    return attribute
