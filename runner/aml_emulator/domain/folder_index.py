"""Finds folders of Blob storage that overlap without comparing all pairs. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from aml_emulator.executor import Folder

_T = TypeVar("_T")
_Path = tuple[str, ...]


class FolderIndex(Generic[_T]):
    """Values by their folders.

    Two folders overlap if one is the other or in it; folders of two containers never do. Adding and looking take a time by the depth
    of the folder alone.
    """

    def __init__(self) -> None:
        self._at: dict[_Path, list[_T]] = {}
        self._below: dict[_Path, list[_T]] = {}

    def add(self, folder: Folder, value: _T) -> None:
        """Add a value; a folder may have several."""
        path, *above = _paths(folder)
        self._at.setdefault(path, []).append(value)
        for one in above:
            self._below.setdefault(one, []).append(value)

    def overlapping(self, folder: Folder) -> Iterator[_T]:
        """Yield the values of all folders that overlap *folder*."""
        paths = _paths(folder)
        for path in paths:
            yield from self._at.get(path, ())
        yield from self._below.get(paths[0], ())


def _paths(folder: Folder) -> list[_Path]:
    """Return the folder and all folders that it is in, up to the container."""
    prefix = folder.prefix.strip("/")
    path = (folder.container, *(prefix.split("/") if prefix else ()))
    return [path[:length] for length in range(len(path), 0, -1)]
