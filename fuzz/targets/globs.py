"""Wildcards of data paths, here and in the local AzureML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aml_emulator.executor.globs import matcher, split_glob
from aml_train.core.errors import InvalidError
from aml_train.core.globs import blob_name, has_wildcards, order, safe_relative, select
from fuzz.target import Target, require


def seeds() -> Sequence[Any]:
    """Return patterns with names that they match."""
    return [
        {"pattern": "data/*.csv", "name": "data/a.csv"},
        {"pattern": "data/**/part-?.parquet", "name": "data/2024/01/part-1.parquet"},
        {"pattern": "**", "name": "a/b"},
        {"pattern": "x/[ab][!c]/", "name": "x/ad/e"},
        {"pattern": "[[]x]*", "name": "[x]y"},
        {"pattern": "folder/", "name": "folder/a"},
        {"pattern": "a/b.txt", "name": "a/b.txt"},
    ]


def check(value: Any) -> None:
    """Read a pattern; try a name."""
    pattern, name = (value.get("pattern"), value.get("name")) if isinstance(value, dict) else (None, None)
    if not isinstance(pattern, str) or not isinstance(name, str) or len(pattern) > 200 or len(name) > 1024:
        return
    try:
        selection = select(pattern)
        inner = selection.relative(name)
        require(inner is None or name.endswith(inner), "a relative name is another name")
        require(
            inner is None or not inner.startswith("/") or "//" in name or name.startswith("/"),
            "a relative name is absolute",
        )
    except InvalidError as error:
        require(has_wildcards(pattern), f"a plain path is refused: {error}")
        require("is not a pattern" in str(error), f"the refusal is another one: {error}")
    plain = select(pattern, literal=True)
    require(plain.pattern is None, "a literal path has a pattern")
    require(plain.relative(plain.folder + "x") == "x", "a name in the folder is not below it")
    folder, inside = split_glob(pattern)
    matches = matcher(inside)
    require(isinstance(matches(name), bool), "no decision")
    require(inside is not None or folder == pattern, "a path without wildcards is changed")
    order(name)
    readers: tuple[Callable[[str], object], ...] = (safe_relative, lambda text: blob_name("f/", text))
    for one in readers:
        try:
            one(name)
        except InvalidError as error:
            require(str(error), "a refusal says nothing")


TARGET = Target(
    kind="json",
    reads=("aml_train.core.globs", "aml_emulator.executor.globs"),
    seeds=seeds,
    check=check,
    words=("*", "**", "?", "[", "]", "[!", "[^", "[]", "[a-z]", "[z-a]", "[[]", "/", "**/", "-", "\\", "&&", "a/"),
)
