from __future__ import annotations

import pytest

from aml_train.azure.blob.globs import select

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
        ("a-[[]*", []),
        ("[z-a]*", []),
        ("z*", []),
    ],
)
def test_what_a_path_means(path: str, meant: list[str]) -> None:
    selection = select(path)
    assert [found for name in NAMES if (found := selection.relative(name)) is not None] == meant


def test_the_request_asks_for_no_more_than_it_must() -> None:
    assert select("images/2024-*/x.png").prefix == "images/2024-"
    assert (select("images").name, select("images/").name) == ("images", None)
