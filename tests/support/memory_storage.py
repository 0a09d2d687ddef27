"""A container in memory, in the place of `aml_train.azure.blob.storage.AzureBlobs`; it breaks where it is told to."""

from __future__ import annotations

import datetime
import hashlib
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from aml_train.azure.blob.storage import Entry

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


@dataclass
class MemoryStorage:
    """Blobs by name. *fail* is asked before each operation, with its word and the blob's name, and may raise.

    It is asked for one operation at a time, whose number is in *calls*.
    """

    place: str = "memory/one"
    keep_md5: bool = True
    fail: Callable[[str, str], None] = lambda _what, _name: None
    blobs: dict[str, tuple[Entry, bytes]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _moment: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def fill(self, names: Iterable[str], content: bytes = b"x") -> MemoryStorage:
        for name in names:
            self._write(name, content)
        return self

    def contents(self) -> dict[str, bytes]:
        return {name: data for name, (_, data) in sorted(self.blobs.items())}

    def _write(self, name: str, data: bytes) -> None:
        number = next(self._moment)
        entry = Entry(
            name=name,
            size=len(data),
            md5=md5(data) if self.keep_md5 else None,
            modified=START + datetime.timedelta(seconds=number),
            etag=str(number),
        )
        self.blobs[name] = (entry, data)

    def _call(self, what: str, name: str) -> None:
        with self._lock:
            self.calls[what] += 1
            self.fail(what, name)

    def walk(self, prefix: str) -> Iterator[Entry]:
        self._call("walk", prefix)
        with self._lock:
            names = sorted(name for name in self.blobs if name.startswith(prefix))
        yield from (self.blobs[name][0] for name in names)

    def level(self, folder: str) -> Iterator[Entry | str]:
        seen = set()
        for entry in list(self.walk(folder)):
            head, slash, _ = entry.name[len(folder) :].partition("/")
            if not slash:
                yield entry
            elif head not in seen:
                seen.add(head)
                yield f"{folder}{head}/"

    def find(self, name: str) -> Entry | None:
        self._call("find", name)
        return self.blobs[name][0] if name in self.blobs else None

    def chunks(self, entry: Entry) -> Iterator[bytes]:
        self._call("read", entry.name)
        now, data = self.blobs[entry.name]
        assert now.etag == entry.etag, "changed"
        yield from (data[at : at + 1000] for at in range(0, len(data), 1000))

    def download(self, entry: Entry, file: BinaryIO) -> None:
        file.writelines(self.chunks(entry))

    def upload(self, name: str, blocks: Iterator[bytes], size: int, *, md5: bytes | None) -> None:
        data = b"".join(blocks)
        self._call("upload", name)
        assert len(data) == size
        with self._lock:
            self._write(name, data)

    def delete(self, name: str) -> None:
        self._call("delete", name)
        with self._lock:
            self.blobs.pop(name, None)
