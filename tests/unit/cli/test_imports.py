"""The imports of a run in which nothing changed, as the modules' source has them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import aml_train

_ROOT = Path(aml_train.__file__).parent
#: The modules whose functions such a run calls.
_CALLED = (
    "__main__",
    "cli.main",
    "cli.run",
    "cli.console",
    "config.load",
    "pipeline.prepare",
    "pipeline.execute",
    "image.ensure",
    "image.builders.place",
    "image.leftovers",
    "local.target",
    "azure.run_metrics",
)


def _file(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split(".")[1:])
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _imports(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what these statements import when they are executed; of a door, the module behind a name."""
    for statement in body:
        match statement:
            case ast.Import():
                yield from (alias.name for alias in statement.names)
            case ast.ImportFrom(module=str(module)):
                yield module
                behind = (
                    getattr(importlib.import_module(module), "_MODULES", {}) if module.startswith("aml_train") else {}
                )
                yield from (f"{module}.{behind.get(alias.name, alias.name)}" for alias in statement.names)
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


def test_the_search_follows_imports_and_doors() -> None:
    assert {"aml_train.jobs.workspace", "aml_train.azure.sdk_v2", "aml_train.image.readiness.judge"} <= _imported()
    assert {"requests", "yaml", "click"} <= _imported()


@pytest.mark.parametrize(
    "name",
    [
        "azure.ai.ml",
        "azure.identity",
        "cryptography",
        "ctypes",
        "docker",
        "junitparser",
        "markupsafe",
        "stamina",
        "aml_train.pipeline.api",
        "aml_train.azure.acr_tasks",
        "aml_train.azure.code",
        "aml_train.cli.live",
        "aml_train.image.build",
        "aml_train.image.builders.engine",
        "aml_train.image.make",
        "aml_train.image.push",
        "aml_train.image.sbom",
        "aml_train.image.testing",
        "aml_train.jobs.logs",
        "aml_train.jobs.watch",
        "aml_train.local.image",
        "aml_train.models.passport",
        "aml_train.pipeline.gate_junit",
        "aml_train.core.request_log",
        "aml_train.pipeline.passport",
    ],
)
def test_a_run_in_which_nothing_changed_does_not_import(name: str) -> None:
    assert not [one for one in _imported() if one == name or one.startswith(f"{name}.")]
