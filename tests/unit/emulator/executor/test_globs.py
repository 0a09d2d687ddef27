"""Wildcards in the path of an input."""

from __future__ import annotations

import pytest

from aml_emulator.executor.globs import matcher, split_glob


@pytest.mark.parametrize(
    ("path", "folder", "pattern"),
    [
        ("a/b.csv", "a/b.csv", None),
        ("a/*.csv", "a", "*.csv"),
        ("a/b?/c/*", "a", "b?/c/*"),
        ("**/x", "", "**/x"),
        ("a/**", "a", "**"),
    ],
)
def test_a_path_is_split_before_its_first_wildcard(path: str, folder: str, pattern: str | None) -> None:
    assert split_glob(path) == (folder, pattern)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (None, ["a", "a/b"], []),
        ("*.csv", ["a.csv", ".csv"], ["a.csvx", "b/a.csv", "aXcsv"]),
        ("**/*.csv", ["a.csv", "b/a.csv", "b/c/a.csv"], ["a.txt"]),
        ("**", ["a", "a/b/c"], []),
        ("20??/*", ["2023/a"], ["203/a", "2023/a/b"]),
        ("a/**/b", ["a/b", "a/x/y/b"], ["b", "a/xb"]),
        ("[ab]+", ["[ab]+"], ["a"]),
    ],
)
def test_a_pattern_matches_whole_paths(pattern: str | None, matching: list[str], others: list[str]) -> None:
    wanted = matcher(pattern)
    assert [path for path in matching + others if wanted(path)] == matching
