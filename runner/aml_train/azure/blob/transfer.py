"""Send, receive and copy files by azure-storage-blob, each checked by its MD5."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from aml_train.azure.blob.local_files import LocalFile, blocks_of, holds, md5_of, stamp
from aml_train.azure.blob.storage import Entry, Storage
from aml_train.core.errors import InvalidError, ServiceError

_Item = TypeVar("_Item")

WORKERS: Final = 24
"""Files that are on their way at once. One Azurite is busiest between 16 and 32; Azure takes far more."""

LARGE: Final = 4 * 1024 * 1024
"""Files of more bytes are large: azure-storage-blob sends and receives their parts in parallel."""

LARGE_AT_ONCE: Final = 4
"""Large files that are on their way at once, which bounds the memory."""


def for_each(work: Callable[[_Item], None], items: Iterable[_Item]) -> None:
    """Do *work* for all of *items* in threads; the first failure ends it, and so does an interruption."""
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="data")
    pending: deque[Future[None]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) > 2 * WORKERS:
                pending.popleft().result()
        while pending:
            pending.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@dataclass(kw_only=True)
class Tally:
    """The progress, counted from several threads; *files* and *size* as far as known."""

    files: int = 0
    size: int = 0
    counted: bool = False
    sent_files: int = 0
    sent_bytes: int = 0
    same_files: int = 0
    same_bytes: int = 0
    unchecked: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, **amounts: int) -> None:
        """Add to some of the numbers."""
        with self._lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)


class Transfer:
    """The transfers of one command, and the tally of all.

    Methods raise ServiceError if a storage refuses or stays away, or a checksum is not that of the source.
    """

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self._small = threading.Semaphore(WORKERS)
        self._large = threading.Semaphore(LARGE_AT_ONCE)

    def send(self, file: LocalFile, name: str, storage: Storage) -> None:
        """Send *file* as the blob *name*, unless that is the same already.

        Raises:
            InvalidError: the file cannot be read, or changes meanwhile.
        """
        there = storage.find(name)
        md5 = md5_of(file.path)
        if there is not None and (there.size, there.md5) == (file.size, md5):
            self.tally.add(same_files=1, same_bytes=file.size)
            return
        with self._room(file.size):
            storage.upload(name, self._counted(blocks_of(file)), file.size, md5=md5)
        self.tally.add(sent_files=1)

    def copy(self, entry: Entry, source: Storage, name: str, storage: Storage) -> None:
        """Copy the blob *entry* to *name*, by this machine, unless that is the same already."""
        there = storage.find(name)
        if there is not None and is_copy(entry, there):
            self.tally.add(same_files=1, same_bytes=entry.size)
            return
        with self._room(entry.size):
            storage.upload(name, self._counted(_checked(entry, source)), entry.size, md5=entry.md5)
        self.tally.add(sent_files=1, unchecked=entry.md5 is None)

    def receive(self, entry: Entry, source: Storage, path: Path) -> None:
        """Download *entry* as *path*, unless it is there; it gets its name when it is complete.

        Raises:
            InvalidError: the file cannot be written.
        """
        if holds(path, entry):
            self.tally.add(same_files=1, same_bytes=entry.size)
            return
        part = path.with_name(f".{secrets.token_hex(8)}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with self._room(entry.size), part.open("xb") as file:
                    source.download(entry, file)
                if part.stat().st_size != entry.size or (entry.md5 is not None and md5_of(part) != entry.md5):
                    raise _damaged(entry, source)
                stamp(part, entry)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise InvalidError(f"The file {path} cannot be written: {error.strerror or error}.") from error
        self.tally.add(sent_files=1, sent_bytes=entry.size, unchecked=entry.md5 is None)

    def _room(self, size: int) -> threading.Semaphore:
        return self._large if size > LARGE else self._small

    def _counted(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for data in blocks:
            self.tally.add(sent_bytes=len(data))
            yield data


def is_copy(entry: Entry, there: Entry) -> bool:
    """Return whether *there* has *entry*'s size and checksum; without one, is newer."""
    if entry.size != there.size:
        return False
    if entry.md5 is not None and there.md5 is not None:
        return entry.md5 == there.md5
    return entry.md5 is None and there.modified > entry.modified


def _checked(entry: Entry, source: Storage) -> Iterator[bytes]:
    """Yield a blob's contents; raise before its last block if the checksum is not that of the source."""
    whole, read = hashlib.md5(usedforsecurity=False), 0
    for data in source.chunks(entry):
        whole.update(data)
        read += len(data)
        if read >= entry.size and entry.md5 not in (None, whole.digest()):
            raise _damaged(entry, source)
        yield data


def _damaged(entry: Entry, source: Storage) -> ServiceError:
    return ServiceError(
        f"{source.place}/{entry.name}: what arrived has not the checksum that is stored with the blob.",
        hint="Run the command again; if it happens again, the stored blob itself is damaged, or its Content-MD5 is wrong.",
        transient=True,
    )
