"""The imports of `aml-train validate`, as the modules' source has them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import aml_train

_ROOT = Path(aml_train.__file__).parent
_CALLED = ("__main__", "cli.main", "cli.validate")


def _file(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split(".")[1:])
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _imports(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what these statements import when they are executed."""
    for statement in body:
        match statement:
            case ast.Import():
                yield from (alias.name for alias in statement.names)
            case ast.ImportFrom(module=str(module)):
                yield module
                yield from (f"{module}.{alias.name}" for alias in statement.names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from _imports(statement.orelse)
            case ast.If() | ast.Try():
                yield from _imports([*statement.body, *statement.orelse])


@cache
def _imported() -> frozenset[str]:
    """Return every module that the modules above import, and those that these import."""
    found, left = set[str](), [f"aml_train.{name}" for name in _CALLED]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        if name.startswith("aml_train") and (file := _file(name)) is not None:
            left += _imports(ast.parse(file.read_text(encoding="utf-8")).body)
    return frozenset(found)


def test_the_search_follows_imports() -> None:
    assert {"aml_train.config.load", "aml_train.gate.rules", "yaml", "click"} <= _imported()


@pytest.mark.parametrize(
    "name", ["azure", "azureml", "mlflow", "sigstore", "rich", "docker", "aml_train.azure", "aml_train.pipeline"]
)
def test_validating_does_not_import(name: str) -> None:
    assert not [one for one in _imported() if one == name or one.startswith(f"{name}.")]
