"""Follow a job's logs in Blob storage, else in AzureML's artifact service.

Each byte is downloaded once, memory is bounded, secrets are masked, and lines are passed on in batches. Only logs are in storage that this
machine may be unable to reach (a firewall, a private endpoint). Status, metrics and models come from AzureML itself, so only log lines
depend on this module."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from aml_train.core.errors import ServiceError
from aml_train.core.events import Listener, LogLines, LogTail, Notice
from aml_train.core.masking import Masker, Scrubber, without_tokens
from aml_train.core.text import LineBlocks, Piece
from aml_train.jobs.logs.names import LogName
from aml_train.jobs.workspace import LogBeganAnewError, StorageUnreachableError, Workspace

DEPENDS: Final = "The job's status, gate and model do not depend on its logs."


class LogReader:
    """Reads the logs of one job, in Blob storage or else by AzureML's artifact service.

    Args:
        service: both sources.
        job: the job's name.
        listener: receives one notice when a source cannot be reached.
    """

    def __init__(self, service: Workspace, job: str, listener: Listener) -> None:
        self._service = service
        self._job = job
        self._listener = listener
        self._paths: dict[str, str] = {}
        self._problem: StorageUnreachableError | None = None
        self._warned: set[str] = set()
        self._refused = False

    @property
    def reads_storage(self) -> bool:
        """Whether Blob storage is read: only there is it cheap to ask often."""
        return self._problem is None

    def know(self, logs: Iterable[LogAddress]) -> None:
        """Take the addresses of logs."""
        # Each look has new signatures: those of the one before are not kept.
        self._paths = {url: name.path for name, url in logs}

    def read_log(self, url: str, offset: int) -> Iterator[bytes]:
        """Yield the bytes of the log at *url* from *offset* on.

        See :meth:`aml_train.jobs.workspace.Workspace.read_log`.

        Raises:
            StorageUnreachableError: neither source can be read; that was reported.
            ServiceError: the reading failed otherwise, and may be repeated.
            LogBeganAnewError: see there.
        """
        if self._problem is None:
            try:
                for data in self._service.read_log(url, offset):
                    offset += len(data)
                    yield data
            except StorageUnreachableError as error:
                self._problem = error
            else:
                return
        if self._refused:
            raise self._problem
        try:
            yield from self._service.read_log_by_service(self._job, self._paths[url], offset)
        except ServiceError as error:
            self._refused = not error.transient
            self._warn("none", f", and AzureML does not pass them on: {error.message} {DEPENDS}", self._problem)
            raise self._problem from error
        self._warn("service", "; AzureML's artifact service passes them on instead.", self._problem)

    def _warn(self, kind: str, text: str, problem: StorageUnreachableError) -> None:
        if kind in self._warned:
            return
        self._warned.add(kind)
        hint = f" {problem.hint}" if problem.hint else ""
        text = f"The logs of the job {self._job} cannot be read from storage: {problem.message}{text}{hint}"
        self._listener(Notice(text=text, level="warning"))


#: How many last lines of each log are kept for the report, and how many characters of them.
TAIL_LINES: Final = 30
_TAIL_WIDTH: Final = 2000
_TAIL_SIZE: Final = 16_000
#: Bytes remembered of the end of a log, to recognize the log after it was written again.
_KNOWN_BYTES: Final = 256
_BEGAN_ANEW: Final = "--- this log starts again: the job has probably been preempted and restarted ---"


#: A log, and the address that it can be read at by ranges.
LogAddress = tuple[LogName, str]
LogSink = Callable[[LogLines], None]


class Tail:
    """The last lines of a log: at most ``TAIL_LINES``, of bounded width and size."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        self._open = False

    def add(self, piece: Piece) -> None:
        """Take lines, joined by line feeds."""
        lines = piece.text.rsplit("\n", TAIL_LINES)
        if self._open and self._lines and "\n" not in lines[0]:
            # The line's beginning is there already; of a line that is too long, no more is kept.
            first, *lines = lines
            self._lines[-1] = (self._lines[-1] + first)[:_TAIL_WIDTH]
        self._lines.extend(line[:_TAIL_WIDTH] for line in lines)
        self._open = piece.more

    def lines(self) -> tuple[str, ...]:
        """Return the lines."""
        kept: deque[str] = deque()
        room = _TAIL_SIZE
        for line in reversed(self._lines):
            room -= len(line) + 1
            if room < 0:
                break
            kept.appendleft(line)
        return tuple(kept)


@dataclass(kw_only=True)
class _Log:
    """The state of one log. *offset* counts bytes as storage has them."""

    name: LogName
    scrubber: Scrubber
    blocks: LineBlocks = field(default_factory=LineBlocks)
    tail: Tail = field(default_factory=Tail)
    offset: int = 0
    total: int = 0
    recent: bytes = b""

    def take(self, data: bytes) -> None:
        self.offset += len(data)
        self.total += len(data)
        self.recent = (self.recent + data[-_KNOWN_BYTES:])[-_KNOWN_BYTES:]


class LogFollower:
    """Follows logs of one run.

    Args:
        service: reads the logs by ranges.
        sink: takes the lines.
        masker: knows the secrets; they are replaced before anything else sees the text, wherever the bytes are cut.
    """

    def __init__(self, service: LogReader, sink: LogSink, *, masker: Masker | None = None) -> None:
        self._service = service
        self._sink = sink
        self._masker = masker or Masker()
        self._logs: dict[str, _Log] = {}

    def tails(self) -> tuple[LogTail, ...]:
        """Return the last lines of each log that has any, in the order of the ranks."""
        logs = sorted(self._logs.values(), key=lambda log: log.name.order)
        found = ((log, log.tail.lines()) for log in logs)
        return tuple(
            LogTail(origin=log.name.path, rank=log.name.rank, lines=lines, size=log.total)
            for log, lines in found
            if lines
        )

    def sizes(self) -> dict[LogName, int]:
        """Return how many bytes were read of each log that the job's own processes write."""
        return {log.name: log.total for log in self._logs.values() if not log.name.system}

    def follow(self, logs: Iterable[LogAddress], *, final: bool = False) -> None:
        """Read what is new in each log; with *final* also the last unfinished lines.

        Args:
            logs: each log and the address to read it at, in the order in which they are to be read.

        Raises:
            ServiceError: if a log cannot be read, after the others were; calling again continues where reading stopped.
        """
        given = list(logs)
        for name, _ in given:
            if name.path not in self._logs:
                self._logs[name.path] = _Log(name=name, scrubber=Scrubber(self._masker))
        failure: ServiceError | None = None
        for name, url in given:
            log = self._logs[name.path]
            try:
                for data in self._unread(log, url):
                    log.take(data)
                    self._pass_on(log, data)
            except ServiceError as error:
                failure = failure or error
                continue
            if final:
                self._pass_on(log, b"", final=True)
        if failure is not None:
            raise failure

    def finish(self) -> None:
        """Pass on the last unfinished line of every log, as far as they could be read."""
        for log in self._logs.values():
            self._pass_on(log, b"", final=True)

    def _unread(self, log: _Log, url: str) -> Iterator[bytes]:
        try:
            yield from self._service.read_log(url, log.offset)
        except LogBeganAnewError:
            yield from self._again(log, url)

    def _again(self, log: _Log, url: str) -> Iterator[bytes]:
        """Continue with a log in another blob, at the known bytes or at its start."""
        found, known = b"", False
        try:
            for data in self._service.read_log(url, log.offset - len(log.recent)):
                if known:
                    yield data
                    continue
                found += data
                if len(found) >= len(log.recent):
                    known = found.startswith(log.recent)
                    if not known:
                        break
                    yield found[len(log.recent) :]
        except LogBeganAnewError:
            known = False  # it is shorter still
        if known:
            return
        self._pass_on(log, b"", final=True)
        self._sink(LogLines(origin=log.name.path, rank=log.name.rank, text=_BEGAN_ANEW))
        log.offset, log.recent = 0, b""
        log.blocks, log.scrubber = LineBlocks(), Scrubber(self._masker)
        yield from self._service.read_log(url, 0)

    def _pass_on(self, log: _Log, data: bytes, *, final: bool = False) -> None:
        path, rank = log.name.path, log.name.rank
        several = sum(bool(one.name.rank) for one in self._logs.values()) > 1
        for piece in log.blocks.feed(log.scrubber.feed(data, final=final), final=final):
            text = without_tokens(piece.text)
            log.tail.add(Piece(text, piece.more))
            self._sink(LogLines(origin=path, rank=rank, text=text, more=piece.more, several=several))


def log_addresses(names: Iterable[LogName], log_files: Mapping[str, str]) -> Iterator[LogAddress]:
    """Yield each of *names* with its address."""
    for name in names:
        yield name, log_files[name.path]
