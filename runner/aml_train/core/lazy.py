"""Public names that load their modules at the first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazily(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return a package's ``__getattr__`` (PEP 562).

    Args:
        package: the package's name.
        modules: the names that it offers, by the module below the package that defines them; a module offers itself by its last name.
    """

    def attribute(name: str) -> object:
        place = next((place for place, names in modules.items() if name in names), None)
        if place is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        module = import_module(f"{package}.{place}")
        return module if place.endswith(f".{name}") else getattr(module, name)

    return attribute
