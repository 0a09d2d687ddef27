"""Which names a path with wildcards means, and in which order names come. Pure.

``*`` and ``?`` stay within one folder, ``**`` as a whole part of the path stands for any number of folders, ``[abc]`` for one of the
characters. A wildcard that is meant as a character is written in brackets: ``[*]``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aml_train.core.errors import InvalidError

_WILD: Final = re.compile(r"[*?\[]")
_LONGEST: Final = 1024


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Names below a folder.

    Attributes:
        folder: the folder that results are relative to, with a slash at its end; empty for the whole container.
        prefix: what every name that is meant begins with; it goes into the request.
        name: the one blob that may be meant instead of a folder; None where only a folder or a pattern is.
        pattern: matches names relative to *folder*, also of blobs in folders that it names; None for all of them.
        direct: matches only what the pattern itself names.
    """

    folder: str
    prefix: str
    name: str | None = None
    pattern: re.Pattern[str] | None = None
    direct: re.Pattern[str] | None = None

    def relative(self, name: str) -> str | None:
        """Return *name* relative to the folder where it is meant, else None."""
        if not name.startswith(self.prefix):
            return None
        inner = name[len(self.folder) :]
        return inner if inner and (self.pattern is None or self.pattern.fullmatch(inner)) else None


def select(path: str, *, literal: bool = False) -> Selection:
    """Return what *path* in a datastore means: a blob, a folder, or a pattern.

    A folder has a slash at its end. With *literal*, nothing is a pattern.

    Raises:
        InvalidError: the brackets of the pattern do not make one.
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
    pattern = _expression("/".join(wild))
    tail = "/.*" if path.endswith("/") else "(?:/.*)?"
    return Selection(folder=folder, prefix=prefix, pattern=_compile(pattern + tail), direct=_compile(pattern))


def has_wildcards(path: str) -> bool:
    """Return whether *path* holds wildcards."""
    return bool(_WILD.search(path))


def _compile(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.DOTALL)


def _expression(pattern: str) -> str:
    parts = pattern.rstrip("/").split("/")
    text = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            text += ".*" if last else "(?:[^/]+/)*"
        else:
            text += _segment(part, pattern) + ("" if last else "/")
    return text


def _segment(part: str, pattern: str) -> str:
    text, at = "", 0
    while at < len(part):
        character = part[at]
        if character == "*":
            text += "[^/]*"
        elif character == "?":
            text += "[^/]"
        elif character == "[":
            end = part.find("]", at + 2)
            if end < 0:
                raise InvalidError(
                    f"{pattern!r} is not a pattern: a bracket is not closed.", hint="Write [[] for a bracket itself."
                )
            inner = part[at + 1 : end]
            negated = inner[0] in "!^" and len(inner) > 1
            body = _characters(inner[1:] if negated else inner, pattern)
            text += f"(?!/)[{'^' if negated else ''}{body}]"
            at = end
        else:
            text += re.escape(character)
        at += 1
    return text


def _characters(inner: str, pattern: str) -> str:
    """Return the characters in the brackets of *pattern*, for an expression."""
    text, at = "", 0
    while at < len(inner):
        low, high = inner[at], inner[at + 2 : at + 3]
        if inner[at + 1 : at + 2] != "-" or not high:
            text += re.escape(low)
            at += 1
            continue
        if low > high:
            raise InvalidError(
                f"{pattern!r} is not a pattern: no character is in the range {low}-{high}.",
                hint="Write the lower end first, or a hyphen itself as the last character: [ab-].",
            )
        text += f"{re.escape(low)}-{re.escape(high)}"
        at += 3
    return text


def blob_name(folder: str, relative: str) -> str:
    """Return the name of the blob at *relative* below *folder*.

    *folder* ends with a slash or is empty.

    Raises:
        InvalidError: Blob Storage has no such name
            (https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata).
    """
    name = folder + relative
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidError(
            f"{name!r} cannot be the name of a blob: it is not UTF-8.", hint="Rename the file."
        ) from None
    if len(name) > _LONGEST:
        raise InvalidError(f"{name!r} cannot be the name of a blob: it is longer than {_LONGEST} characters.")
    return name


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
