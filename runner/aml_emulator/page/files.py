"""The files of a run as a tree. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from aml_emulator.store.runs import Artifact

SHOWN = 2000
"""So many files are shown; a run may have any number."""

DEPTH = 12
"""Folders below this depth are written as part of the file's name."""


@dataclass(kw_only=True)
class Folder:
    """A folder of a run's files."""

    name: str
    folders: dict[str, Folder] = field(default_factory=dict)
    files: list[tuple[str, Artifact]] = field(default_factory=list)
    count: int = 0


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The files of a run: the first of them as a tree, and how many there are in all."""

    root: Folder
    shown: int
    total: int


def tree(artifacts: Sequence[Artifact]) -> Tree:
    """Return files as a tree, in the order of their paths."""
    root = Folder(name="")
    shown = artifacts[:SHOWN]
    for artifact in shown:
        *above, name = artifact.path.split("/", DEPTH)
        place = root
        place.count += 1
        for part in above:
            place = place.folders.setdefault(part, Folder(name=part))
            place.count += 1
        place.files.append((name, artifact))
    return Tree(root=root, shown=len(shown), total=len(artifacts))
