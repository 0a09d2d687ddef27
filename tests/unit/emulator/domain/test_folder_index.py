"""Folders that contain one another: what the index finds is what comparing each with each finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_emulator.domain.folder_index import FolderIndex
from aml_emulator.executor.spec import Folder

CONTAINERS = st.sampled_from("cd")
PREFIXES = st.lists(st.sampled_from(["", "a", "b", "ab", "a b"]), max_size=4).map("/".join)
FOLDERS = st.builds(Folder, container=CONTAINERS, prefix=PREFIXES)


def overlap(one: Folder, other: Folder) -> bool:
    left, right = (f"{folder.prefix.strip('/')}/".lstrip("/") for folder in (one, other))
    return one.container == other.container and (left.startswith(right) or right.startswith(left))


@given(folders=st.lists(FOLDERS, max_size=12), asked=FOLDERS)
def test_the_index_finds_what_comparing_finds(folders: list[Folder], asked: Folder) -> None:
    index: FolderIndex[int] = FolderIndex()
    for number, folder in enumerate(folders):
        index.add(folder, number)
    expected = [number for number, folder in enumerate(folders) if overlap(folder, asked)]
    assert sorted(index.overlapping(asked)) == expected


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [("a/b", "a/b/c", True), ("a/b", "a/bc", False), ("a", "", True), ("a/b/", "a/b", True), ("x", "y", False)],
)
def test_a_folder_overlaps_those_above_and_below(one: str, other: str, together: bool) -> None:
    for first, second in ((one, other), (other, one)):
        index: FolderIndex[str] = FolderIndex()
        index.add(Folder(container="c", prefix=first), "value")
        assert any(index.overlapping(Folder(container="c", prefix=second))) is together
        assert not any(index.overlapping(Folder(container="d", prefix=second)))
