"""Python tracebacks in a job's logs, and the source lines they lead to. Pure."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from aml_train.core.events import Traceback

# Launchers put a rank before each line: "[rank0]: ", "[1,0]<stderr>:", "[default0]:".
_PREFIX: Final = re.compile(r"^\[[\w,]{1,20}\](?:<std(?:err|out)>)?:")
_MARK: Final = "Traceback (most recent call last):"
_START: Final = re.compile(r"^[\s+|]*(?:Exception Group )?Traceback \(most recent call last\):\s*$")
_FRAME: Final = re.compile(r'^[\s|]+File "([^"]{1,1000})", line (\d{1,9})')
_GROUP: Final = re.compile(r"^\s*\| ([\w.]+: .*)$")
#: The lines between two tracebacks of which one led to the other (CPython, ``traceback.py``).
_CHAIN: Final = frozenset(
    {
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
    }
)
_FOREIGN: Final = re.compile(r"/(?:site|dist)-packages/|/lib/python3(?:\.\d+)?/")
_MOST_FRAMES: Final = 200
_MOST_OPEN: Final = 200
_MOST_KEPT: Final = 64
_LONGEST: Final = 1000
_HEAD_LINES: Final = 30
_END_LINES: Final = 50


@dataclass(kw_only=True)
class _Open:
    """A traceback that is being read.

    *message* is empty until its last line; *waiting* may lead to the next one of the chain.
    """

    number: int
    origin: str
    rank: str
    pad: str = ""
    frames: list[tuple[str, int]] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    end: deque[str] = field(default_factory=lambda: deque(maxlen=_END_LINES))
    left_out: int = 0
    message: str = ""
    waiting: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        if len(self.head) < _HEAD_LINES:
            self.head.append(line)
            return
        self.left_out += len(self.end) == _END_LINES
        self.end.append(line)

    def done(self) -> Traceback:
        gap = [f"… {self.left_out} lines left out …"] if self.left_out else []
        return Traceback(
            frames=tuple(self.frames),
            message=self.message,
            text="\n".join([*self.head, *gap, *self.end]),
            origin=self.origin,
            rank=self.rank,
        )


class TracebackFinder:
    """Reads logs as they arrive; keeps the first and last traceback of each.

    Text without a traceback costs one search for a fixed string.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], _Open] = {}
        self._per_log: dict[str, int] = {}
        self._begun = 0
        self._first: dict[str, tuple[int, Traceback]] = {}
        self._last: dict[str, tuple[int, Traceback]] = {}

    def feed(self, origin: str, text: str, *, rank: str = "") -> None:
        """Read lines of the log *origin*, joined by line feeds."""
        if self._per_log.get(origin) or _MARK in text:
            for line in text.split("\n"):
                self._line(origin, rank, line[:_LONGEST])

    def found(self) -> tuple[Traceback, ...]:
        """Return the tracebacks in order of arrival: the first of each log, and its last."""
        for key in list(self._open):
            if self._open[key].message:
                self._close(key)
        return tuple(one for _, one in sorted({**dict(self._first.values()), **dict(self._last.values())}.items()))

    def _line(self, origin: str, rank: str, line: str) -> None:
        match = _PREFIX.match(line)
        launcher = match[0] if match else ""
        line = line[len(launcher) :]
        key = origin, launcher
        one = self._open.get(key)
        # Some launchers put a space behind the rank: "[rank0]: Traceback", and "[default0]:Traceback".
        pad = (one.pad if one else " ") if launcher and line.startswith(" ") else ""
        line = line.removeprefix(pad)
        if _START.match(line):
            if one is not None and one.message and any(text in _CHAIN for text in one.waiting):
                for text in (*one.waiting, line):
                    one.take(text)
                one.waiting, one.message = [], ""
                one.frames.clear()
                return
            if one is not None and not one.message and line.lstrip().startswith(("+", "|")):
                one.take(line)  # an exception group's member
                return
            self._close(key)
            self._begin(key, rank, line, pad)
        elif one is not None and one.message:
            self._after(key, one, line)
        elif one is not None:
            self._inside(key, one, line)

    def _begin(self, key: tuple[str, str], rank: str, line: str, pad: str) -> None:
        if len(self._open) >= _MOST_OPEN:
            return
        self._open[key] = _Open(number=self._begun, origin=key[0], rank=rank, pad=pad)
        self._open[key].take(line)
        self._begun += 1
        self._per_log[key[0]] = self._per_log.get(key[0], 0) + 1

    def _inside(self, key: tuple[str, str], one: _Open, line: str) -> None:
        if frame := _FRAME.match(line):
            one.frames.append((frame[1], int(frame[2])))
            del one.frames[:-_MOST_FRAMES]
        elif line and not line[0].isspace():
            if not one.frames:
                self._drop(key)
                return
            group = next((m[1] for text in one.head if (m := _GROUP.match(text))), "")
            if group:
                # The frame of a group is indented: this line is the first one after it.
                one.message = group
                self._close(key)
                return
            one.message = line
        one.take(line)

    def _after(self, key: tuple[str, str], one: _Open, line: str) -> None:
        if len(one.waiting) < 4 and (not line.strip() or line in _CHAIN):
            one.waiting.append(line)
        else:
            self._close(key)

    def _drop(self, key: tuple[str, str]) -> _Open | None:
        one = self._open.pop(key, None)
        if one is not None:
            self._per_log[key[0]] -= 1
        return one

    def _close(self, key: tuple[str, str]) -> None:
        one = self._drop(key)
        if one is None or not one.message:
            return
        found = one.number, one.done()
        if one.origin in self._first or len(self._first) < _MOST_KEPT:
            self._first.setdefault(one.origin, found)
            self._last[one.origin] = found


def is_own(file: str) -> bool:
    """Return whether a frame's file may be the user's: none of Python or of a package, and no code without a file."""
    return not _FOREIGN.search(file) and not file.startswith("<")


def innermost(
    traceback: Traceback, code: Path, *, is_file: Callable[[Path], bool] = os.path.isfile
) -> tuple[Path, int] | None:
    """Return the innermost frame in the code snapshot, as a path in *code* and a line.

    A job runs somewhere else: of an absolute path, the longest ending that *code* has counts. A log may name anything, also what no file
    system takes as a name: that is no file (``os.path.isfile``, where ``Path.is_file`` raises).
    """
    for file, line in reversed(traceback.frames):
        parts = [part for part in PurePosixPath(file).parts if part not in ("/", ".")]
        if not is_own(file) or ".." in parts:
            continue
        starts = range(len(parts)) if file.startswith("/") else range(min(1, len(parts)))
        for start in starts:
            path = code.joinpath(*parts[start:])
            if is_file(path):
                return path, line
    return None
