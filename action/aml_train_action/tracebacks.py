"""Python tracebacks in a job's log, and the place in the repository that they lead to."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

# Launchers put a rank before each line: "[rank0]: ", "[1,0]<stderr>:", "[default0]:".
_PREFIX: Final = re.compile(r"^\[[\w,]{1,20}\](?:<std(?:err|out)>)?: ?")
_START: Final = re.compile(r"^\s*Traceback \(most recent call last\):\s*$")
_FRAME: Final = re.compile(r'^\s+File "([^"]{1,1000})", line (\d{1,9})')
_FOREIGN: Final = frozenset({"site-packages", "dist-packages"})
_MOST_FRAMES: Final = 200
_MOST_LOGS: Final = 1000
_LONGEST: Final = 2000


@dataclass(frozen=True, kw_only=True)
class Traceback:
    """One traceback: (file, line) of its frames, outermost first, and the line that names the exception."""

    frames: tuple[tuple[str, int], ...]
    message: str


class TracebackFinder:
    """Reads logs line by line and keeps the last traceback that was complete. Bounded in memory."""

    def __init__(self) -> None:
        self._open: dict[str, list[tuple[str, int]]] = {}
        self.last: Traceback | None = None

    def feed(self, origin: str, line: str) -> None:
        """Read one line of the log *origin*."""
        line = _PREFIX.sub("", line[:_LONGEST])
        if _START.match(line):
            if len(self._open) < _MOST_LOGS or origin in self._open:
                self._open[origin] = []
            return
        frames = self._open.get(origin)
        if frames is None:
            return
        if frame := _FRAME.match(line):
            frames.append((frame[1], int(frame[2])))
            del frames[:-_MOST_FRAMES]
        elif line and not line[0].isspace():
            del self._open[origin]
            if frames:
                self.last = Traceback(frames=tuple(frames), message=line)


def innermost(
    traceback: Traceback, code: Path, *, is_file: Callable[[Path], bool] = Path.is_file
) -> tuple[Path, int] | None:
    """Return the innermost frame that is a file of the code snapshot, as a path in *code*, with its line.

    A job runs somewhere else: of an absolute path, the longest ending that *code* has counts.
    """
    for file, line in reversed(traceback.frames):
        parts = [part for part in PurePosixPath(file).parts if part not in ("/", ".")]
        if _FOREIGN & set(parts) or ".." in parts or file.startswith("<"):
            continue
        starts = range(len(parts)) if file.startswith("/") else range(min(1, len(parts)))
        for start in starts:
            path = code.joinpath(*parts[start:])
            if is_file(path):
                return path, line
    return None
