"""Blob storage in memory and a sink that remembers, for tests of the executor alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from aml_emulator.executor.spec import Ending, RunError, RunSpec

HANGING_SECONDS = 300.0
"""Only what hangs takes so long, even on a machine under load."""


@dataclass(frozen=True, kw_only=True)
class MemoryEntry:
    name: str
    size: int


class MemoryBlobs:
    """The executor's part of `aml_emulator.store.blobs.Blobs`, with the same idea of a folder."""

    def __init__(self) -> None:
        self.content: dict[tuple[str, str], bytes] = {}
        self.appends: dict[str, int] = {}
        self._lock = threading.Lock()

    def put(self, container: str, name: str, data: bytes) -> None:
        with self._lock:
            self.content[container, name] = data

    def walk(self, container: str, prefix: str) -> Iterator[MemoryEntry]:
        stem = prefix.strip("/")
        folder = f"{stem}/" if stem else ""
        with self._lock:
            inside = sorted(
                (name, len(data))
                for (place, name), data in self.content.items()
                if place == container and name.startswith(folder)
            )
            exact = self.content.get((container, stem))
        for name, size in inside:
            yield MemoryEntry(name=name[len(folder) :], size=size)
        if not inside and exact is not None:
            yield MemoryEntry(name="", size=len(exact))

    def read(self, container: str, name: str) -> Iterator[bytes]:
        data = self.content[container, name]
        for at in range(0, len(data), 1 << 20):
            yield data[at : at + (1 << 20)]

    def write(self, container: str, name: str, data: IO[bytes], length: int | None = None) -> None:
        content = data.read()
        assert length is None or len(content) == length
        self.put(container, name, content)

    def append(self, container: str, name: str, data: bytes) -> None:
        with self._lock:
            self.content[container, name] = self.content.get((container, name), b"") + data
            self.appends[name] = self.appends.get(name, 0) + 1

    def delete_prefix(self, container: str, prefix: str) -> Sequence[MemoryEntry]:
        gone = list(self.walk(container, prefix))
        for entry in gone:
            del self.content[container, f"{prefix}/{entry.name}" if entry.name else prefix]
        return gone


@dataclass
class RecordingSink:
    """Keeps everything that was reported of one run."""

    statuses: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    artifacts: dict[str, int] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    ending: Ending | None = None
    error: RunError | None = None
    lost: Mapping[str, int] = field(default_factory=dict)
    following: RunSpec | None = None
    done: threading.Event = field(default_factory=threading.Event)
    _seen: threading.Condition = field(default_factory=threading.Condition)

    def status(self, word: str, /) -> None:
        with self._seen:
            self.statuses.append(word)
            self._seen.notify_all()

    def log(self, path: str, /) -> None:
        self.logs.append(path)

    def artifact(self, path: str, size: int, /) -> None:
        self.artifacts[path] = size

    def output(self, name: str, /) -> None:
        self.outputs.append(name)

    def unkept(self, files: Mapping[str, int], /) -> None:
        self.lost = files

    def requeued(self) -> RunSpec | None:
        return self.following

    def finished(self, status: Ending, error: RunError | None, /) -> None:
        assert self.ending is None, "finished twice"
        self.ending, self.error = status, error
        self.done.set()

    def wait_status(self, word: str, seconds: float = HANGING_SECONDS) -> None:
        with self._seen:
            assert self._seen.wait_for(lambda: word in self.statuses, seconds), self.statuses

    def wait(self, seconds: float = HANGING_SECONDS) -> Ending:
        assert self.done.wait(seconds), f"not finished: {self.statuses}"
        assert self.ending is not None
        return self.ending
