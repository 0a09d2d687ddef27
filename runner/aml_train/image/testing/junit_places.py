"""Where a test failed, as a file of the project: reports name files in their own ways. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

# pytest ends each entry of a traceback with ``file:line:`` (_pytest/_code/code.py); Python writes ``File "file", line N``.
_ENTRY: Final = re.compile(
    r'^(?:\s*File "(?P<python>[^"\n]+)", line (?P<python_line>\d{1,9})|(?P<pytest>[^\s:"][^:\n]*):(?P<pytest_line>\d{1,9}):)',
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class Places:
    """The files that the tests saw.

    Attributes:
        files: their paths, relative to the project.
        root: the folder that they lay in, in the container.
        workdir: the folder that the tests ran in, relative to it.
    """

    files: Collection[str] = ()
    root: str = "/workspace"
    workdir: str = ""

    def find(self, name: str) -> str | None:
        """Return the file of the project that *name* means, or None.

        A name may start at the container's root, at the project, at the folder that the tests ran in, or at one that a test
        tool takes for its root: then it counts if only one file ends like it.
        """
        if name.startswith("/"):
            inner = posixpath.relpath(name, self.root)
            return inner if inner in self.files else None
        for start in (self.workdir, ""):
            path = posixpath.normpath(posixpath.join(start, name))
            if path in self.files:
                return path
        tail = "/" + posixpath.normpath(name)
        same = [path for path in self.files if path.endswith(tail)]
        return same[0] if len(same) == 1 else None

    def find_module(self, classname: str) -> str | None:
        """Return the file of a dotted name, such as ``tests.test_a.TestB``, or None."""
        parts = classname.split(".")
        for count in range(len(parts), 0, -1):
            if (found := self.find("/".join(parts[:count]) + ".py")) is not None:
                return found
        return None

    def locate(
        self, file: str | None, start: str | None, classname: str, traceback: str
    ) -> tuple[str | None, int | None]:
        """Return file and line (one-based) of a failure; None for what is not told.

        Args:
            file: the report's attribute ``file``.
            start: its attribute ``line``: where the test begins; pytest counts it from zero (_pytest/junitxml.py, family xunit1).
            classname: its attribute ``classname``.
            traceback: text of the failure. The last line that it names in the test's file is the one; where the file is
                not told, the last line in any file of the project.
        """
        found = self.find(file) if file is not None else self.find_module(classname)
        entries = list(self._entries(traceback))
        known = found or file
        lines = [line for path, line in entries if path == known or (found is None and path == file)]
        if known is None:
            return entries[-1] if entries and entries[-1][0] in self.files else (None, None)
        if lines:
            return known, lines[-1]
        return known, int(start) + 1 if start is not None and start.isdigit() else None

    def _entries(self, traceback: str) -> Iterator[tuple[str, int]]:
        for match in _ENTRY.finditer(traceback):
            name = match["python"] or match["pytest"]
            yield self.find(name) or name, int(match["python_line"] or match["pytest_line"])
