"""Which names a path with wildcards means, and in which order names come. Pure.

``*`` and ``?`` stay within one folder, ``**`` as a whole part of the path stands for any number of folders, ``[abc]`` for one of the
characters. A wildcard that is meant as a character is written in brackets: ``[*]``.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.core.errors import InvalidError

_WILD: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Names below a folder.

    Attributes:
        folder: the folder that results are relative to, with a slash at its end; empty for the whole container.
        prefix: what every name that is meant begins with; it goes into the request.
        name: the one blob that may be meant instead of a folder; None where only a folder or a pattern is.
        parts: the pattern of names relative to *folder*, by folders; none for all of them.
        inside: the pattern names folders, of which only the contents are meant.
    """

    folder: str
    prefix: str
    name: str | None = None
    parts: tuple[str, ...] = ()
    inside: bool = False

    def relative(self, name: str) -> str | None:
        """Return *name* relative to the folder where it is meant, else None.

        Blobs in folders that the pattern names are meant, too.
        """
        if not name.startswith(self.prefix):
            return None
        inner = name[len(self.folder) :]
        ends = range(1, inner.count("/") + 2 - self.inside)
        names = inner.split("/")
        return inner if inner and (not self.parts or any(_matches(self.parts, names[:end]) for end in ends)) else None

    def names(self, relative: str) -> bool:
        """Return whether the pattern itself names *relative*, and not a folder around it."""
        return not self.parts or _matches(self.parts, relative.split("/"))


def select(path: str, *, literal: bool = False) -> Selection:
    """Return what *path* in a datastore means: a blob, a folder, or a pattern.

    A folder has a slash at its end. With *literal*, nothing is a pattern.
    """
    if literal or not _WILD.search(path):
        folder = path.strip("/")
        if path.endswith("/") or not folder:
            return Selection(folder=f"{folder}/" if folder else "", prefix=f"{folder}/" if folder else "")
        return Selection(folder=f"{folder}/", prefix=f"{folder}/", name=folder)
    fixed, wild = [], path.split("/")
    while wild and not _WILD.search(wild[0]):
        fixed.append(wild.pop(0))
    folder = "".join(f"{part}/" for part in fixed)
    first = _WILD.search(wild[0])
    prefix = folder + (wild[0][: first.start()] if first else "")
    parts = tuple("/".join(wild).rstrip("/").split("/"))
    return Selection(folder=folder, prefix=prefix, parts=parts, inside=path.endswith("/"))


def _matches(parts: Sequence[str], names: Sequence[str]) -> bool:
    if not parts:
        return not names
    if parts[0] == "**":
        return len(parts) == 1 or any(_matches(parts[1:], names[start:]) for start in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and _matches(parts[1:], names[1:])


def has_wildcards(path: str) -> bool:
    """Return whether *path* holds wildcards."""
    return bool(_WILD.search(path))


def safe_relative(relative: str) -> str:
    """Return *relative* where it can be a path below a folder of this machine.

    Raises:
        InvalidError: it would lead elsewhere, or cannot be a file's name.
    """
    parts = relative.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in relative:
        raise InvalidError(
            f"The blob {relative!r} cannot be downloaded: its name is no path below a folder.",
            hint="Leave it out with a wildcard, or copy it to another name.",
        )
    return relative
