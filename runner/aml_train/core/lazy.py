"""Public names that load their modules at the first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return a package's ``__getattr__`` (PEP 562).

    Args:
        package: the package's name.
        names: the names that it offers, each with the module below the package that defines it, or that it is.
    """

    def attribute(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module = import_module(f"{package}.{names[name]}")
        return module if names[name].endswith(f".{name}") else getattr(module, name)

    return attribute
