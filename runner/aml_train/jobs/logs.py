"""Follow a run's logs: each byte is downloaded once, memory is bounded, lines come out whole."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from aml_train.jobs.service import JobService

#: A line longer than this is passed on in pieces.
LONGEST_LINE: Final = 64 * 1024
#: How many last lines are kept for the report.
TAIL_LINES: Final = 30
_TAIL_WIDTH: Final = 2000

LineSink = Callable[[str, str], None]


class LineSplitter:
    """Turns pieces of bytes into whole lines of text; what is not UTF-8 becomes U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def feed(self, data: bytes, *, final: bool = False) -> list[str]:
        """Return the lines that *data* completes; with *final* also the last one without a line end."""
        text = self._rest + self._decoder.decode(data, final)
        lines = text.split("\n")
        self._rest = lines.pop()
        while len(self._rest) > LONGEST_LINE:
            lines.append(self._rest[:LONGEST_LINE])
            self._rest = self._rest[LONGEST_LINE:]
        if final and self._rest:
            lines.append(self._rest)
            self._rest = ""
        # A carriage return rewrites the line on a terminal: only what would stay visible is kept.
        return [line.rstrip("\r").rpartition("\r")[2] for line in lines]


class LogFollower:
    """Follows every log of one run.

    Args:
        service: reads the logs by ranges.
        sink: takes each line, with the path of its log.
    """

    def __init__(self, service: JobService, sink: LineSink) -> None:
        self._service = service
        self._sink = sink
        self._offsets: dict[str, int] = {}
        self._splitters: dict[str, LineSplitter] = {}
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def tail(self) -> str:
        """The last lines that were seen, of all logs, in the order of arrival."""
        return "\n".join(self._tail)

    def follow(self, log_files: Mapping[str, str], *, final: bool = False) -> None:
        """Read what is new in each log. With *final* the last unfinished lines are passed on as well.

        Raises:
            ServiceError: if a log cannot be read; calling again goes on where reading stopped.
        """
        for path, url in sorted(log_files.items()):
            splitter = self._splitters.setdefault(path, LineSplitter())
            for data in self._service.read_log(url, self._offsets.get(path, 0)):
                self._offsets[path] = self._offsets.get(path, 0) + len(data)
                self._pass_on(path, splitter.feed(data))
            if final:
                self._pass_on(path, splitter.feed(b"", final=True))

    def _pass_on(self, path: str, lines: list[str]) -> None:
        for line in lines:
            self._tail.append(line[:_TAIL_WIDTH])
            self._sink(path, line)
