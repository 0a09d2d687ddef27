"""The trace of a run: what happened, when, and in which thread."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

#: Kinds of entries that a reader needs; the others, each switch between threads, are for the hash.
_READABLE: Final = frozenset({"process", "request", "fault", "kill", "signal", "thread", "forced", "check", "note"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a trace.

    Attributes:
        at: virtual nanoseconds since the beginning.
        who: process and thread.
        kind: such as ``request``.
        text: what happened.
    """

    at: int
    who: str
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.at / 1e9:12.6f} s  {self.who:<32}  {self.kind:<8} {self.text}"


class Trace:
    """The events of a run, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, at: int, who: str, kind: str, text: str) -> None:
        """Add an entry."""
        self.entries.append(Entry(at, who, kind, text))

    def digest(self) -> str:
        """Return a hash of all entries: equal for equal runs."""
        digest = hashlib.sha256()
        for entry in self.entries:
            digest.update(
                f"{entry.at}\t{entry.who}\t{entry.kind}\t{entry.text}\n".encode("utf-8", "backslashreplace")
            )
        return digest.hexdigest()[:16]

    def lines(self, *, everything: bool = False) -> Iterator[str]:
        """Yield readable lines.

        Args:
            everything: each switch between threads, too.
        """
        for entry in self.entries:
            if everything or entry.kind in _READABLE:
                yield str(entry)
