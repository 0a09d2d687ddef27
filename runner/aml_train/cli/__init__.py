"""The command line: one module for each group of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.cli.main import cli as cli

_MODULES = {
    "cli": "main",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
