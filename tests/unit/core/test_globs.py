from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.core.errors import InvalidError
from aml_train.core.globs import blob_name, order, safe_relative, select

NAMES = (
    "a.txt",
    "a/b.txt",
    "a/c/d.txt",
    "a/c/e.csv",
    "a-b/f.txt",
    "ab.txt",
    "x[1].txt",
    "2024-01/p.png",
    "2024-02/q/r.png",
)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("", [*NAMES]),
        ("a", ["b.txt", "c/d.txt", "c/e.csv"]),
        ("a/", ["b.txt", "c/d.txt", "c/e.csv"]),
        ("*.txt", ["a.txt", "ab.txt", "x[1].txt"]),
        ("a?.txt", ["ab.txt"]),
        ("a/*/*.csv", ["c/e.csv"]),
        ("a/**/*.txt", ["b.txt", "c/d.txt"]),
        ("**/*.csv", ["a/c/e.csv"]),
        ("a/**", ["b.txt", "c/d.txt", "c/e.csv"]),
        ("2024-*", ["2024-01/p.png", "2024-02/q/r.png"]),
        ("2024-0[!1]/", ["2024-02/q/r.png"]),
        ("2024-0[12]", ["2024-01/p.png", "2024-02/q/r.png"]),
        ("x[[]1].txt", ["x[1].txt"]),
        ("z*", []),
    ],
)
def test_what_a_path_means(path: str, meant: list[str]) -> None:
    selection = select(path)
    assert [found for name in NAMES if (found := selection.relative(name)) is not None] == meant


def test_what_a_pattern_names_itself() -> None:
    direct = select("2024-*").direct
    assert direct is not None
    assert not direct.fullmatch("2024-01/p.png")
    assert direct.fullmatch("2024-01")


def test_the_request_asks_for_no_more_than_it_must() -> None:
    assert select("images/2024-*/x.png").prefix == "images/2024-"
    assert (select("images").name, select("images/").name) == ("images", None)


@pytest.mark.parametrize("pattern", ["data/[z-a]", "[!9-0]x", "[a--]"])
def test_a_range_without_characters_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidError, match="no character is in the range"):
        select(pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("[+--]", "-", True),
        ("[+--]", "a", False),
        ("[a-]", "-", True),
        ("[&&~~||]", "~", True),
        ("[&&~~||]", "a", False),
        ("[[a]", "[", True),
    ],
)
def test_brackets_hold_plain_characters_and_ranges(pattern: str, name: str, matches: bool) -> None:
    assert (select(pattern).relative(name) == name) is matches


def test_an_open_bracket_is_told() -> None:
    with pytest.raises(InvalidError, match="a bracket is not closed"):
        select("a[b")


@given(st.lists(st.text(min_size=1), min_size=2))
def test_names_sort_as_storage_lists_them(names: list[str]) -> None:
    # JavaScript and .NET compare UTF-16 code units.
    assert sorted(names, key=order) == sorted(names, key=lambda name: list(memoryview(order(name))))


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "a//b", "a/", ".", "a/\0"])
def test_a_name_that_leads_elsewhere_is_no_path(name: str) -> None:
    with pytest.raises(InvalidError, match="is no path below a folder"):
        safe_relative(name)


def test_names_that_no_blob_can_have() -> None:
    with pytest.raises(InvalidError, match="is not UTF-8"):
        blob_name("a/", "\udcff")
    with pytest.raises(InvalidError, match="longer than 1024 characters"):
        blob_name("a/", "x" * 1024)
