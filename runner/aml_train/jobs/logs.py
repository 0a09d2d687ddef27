"""Follow a run's logs: each byte is downloaded once, memory is bounded, lines come out whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from aml_train.jobs.service import JobService
from aml_train.lines import LineSplitter, Piece

#: How many last lines are kept for the report.
TAIL_LINES: Final = 30
_TAIL_WIDTH: Final = 2000

LineSink = Callable[[str, Piece], None]


class LogFollower:
    """Follows every log of one run.

    Args:
        service: reads the logs by ranges.
        sink: takes each line, or piece of one, with the path of its log.
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

    def _pass_on(self, path: str, pieces: list[Piece]) -> None:
        for piece in pieces:
            self._tail.append(piece.text[:_TAIL_WIDTH])
            self._sink(path, piece)
