"""Send, receive and copy files: small ones whole, large ones in resumable blocks.

azure-storage-blob's ``upload_blob(max_concurrency=…)`` and ``download_blob`` are not used: their block ids are offsets, which do not prove what a
staged block holds, and parallel downloads are written out of order, so that an interrupted transfer begins at zero; neither checks the MD5
of the whole. Its requests, retries and connection pool are (:mod:`aml_train.azure.blob.storage`)."""

from __future__ import annotations

import base64
import hashlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

from aml_train.azure.blob.local_files import LocalFile, PartFile, blocks_of, holds, md5_of
from aml_train.azure.blob.storage import Entry, Storage
from aml_train.core.errors import InvalidError, ServiceError

_Item = TypeVar("_Item")
_WAIT: Final = 0.2


class Workers(Generic[_Item]):
    """Threads that do *work* with each thing that they are given.

    They are daemons: an interrupted process ends without them, and the next run resumes their work.
    """

    def __init__(self, work: Callable[[_Item], None], count: int) -> None:
        self._work = work
        self._count = count
        self._queue: queue.Queue[_Item] = queue.Queue(maxsize=2 * count)
        self._failure: BaseException | None = None
        self._stopped = threading.Event()
        self._ended = threading.Event()

    def run(self, items: Iterable[_Item]) -> None:
        """Do the work for all of *items*, which are taken as there is room.

        Raises:
            Exception: the first that any of the work, or *items*, raised; what had not begun by then is left.
        """
        threads = [threading.Thread(target=self._serve, name=f"data-{n}", daemon=True) for n in range(self._count)]
        for thread in threads:
            thread.start()
        try:
            for item in items:
                self._put(item)
                if self._stopped.is_set():
                    break
            self._ended.set()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_WAIT)
        finally:
            self._stopped.set()
        if self._failure is not None:
            raise self._failure

    def _put(self, item: _Item) -> None:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=_WAIT)
            except queue.Full:
                continue
            return

    def _serve(self) -> None:
        while not self._stopped.is_set():
            # Asked before the queue is: the last item may come between its being empty and the question.
            ended = self._ended.is_set()
            try:
                item = self._queue.get(timeout=_WAIT / 4)
            except queue.Empty:
                if ended:
                    return
                continue
            try:
                self._work(item)
            except BaseException as error:  # noqa: BLE001 - the caller of run gets the first one
                if self._failure is None:
                    self._failure = error
                self._stopped.set()


BLOCK: Final = 4 * 1024 * 1024
"""Bytes of a block."""

SMALL: Final = 4 * 1024 * 1024
"""Files up to this size are sent and received at once, in the thread that is at them."""

MOST_BLOCKS: Final = 50_000
"""Of one blob: https://learn.microsoft.com/azure/storage/blobs/scalability-targets."""

MEBIBYTE: Final = 1024 * 1024
WINDOW: Final = 4
"""Blocks of one file that are on their way at once."""

LARGE_AT_ONCE: Final = 2
"""Large files that are on their way at once. Memory is bounded by this, the window and the block."""


def block_size(size: int) -> int:
    """Return the block size for *size* bytes: as small as the number of blocks allows."""
    least = -(-size // MOST_BLOCKS)
    return max(BLOCK, -(-least // MEBIBYTE) * MEBIBYTE)


def block_id(index: int, md5: bytes) -> str:
    """Return the id of a block, which holds its MD5: a staged block is known by it.

    Ids of one blob must be equally long, and these are as long as azure-storage-blob's: blocks that it left do no harm.
    """
    return base64.b64encode(f"{index:06d}-{md5.hex()}-blocks".encode("ascii")[:46]).decode("ascii")


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
    kept_bytes: int = 0
    unchecked: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, **amounts: int) -> None:
        """Add to some of the numbers."""
        with self._lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)


class Transfer:
    """The transfers of one command, with threads for blocks and the tally of all.

    Methods raise ServiceError if a storage refuses or stays away, or a checksum is not that of the source.
    """

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self._pool = ThreadPoolExecutor(LARGE_AT_ONCE * WINDOW, thread_name_prefix="blocks")
        self._large = threading.Semaphore(LARGE_AT_ONCE)

    def close(self) -> None:
        """Let the threads go; blocks that were not begun are left out."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def send(self, file: LocalFile, name: str, there: Entry | None, *, storage: Storage) -> None:
        """Send *file* as the blob *name*, unless *there* is the same already.

        Raises:
            InvalidError: the file cannot be read, or changes meanwhile.
        """
        known = there.md5 if there is not None and there.size == file.size else None
        if file.size <= SMALL:
            data = b"".join(blocks_of(file, SMALL + 1))
            md5 = _md5(data)
            if known == md5:
                self.tally.add(same_files=1, same_bytes=file.size)
                return
            storage.put(name, data, md5=md5)
            self.tally.add(sent_files=1, sent_bytes=len(data))
            return
        with self._large:
            if known is not None and known == md5_of(file.path):
                self.tally.add(same_files=1, same_bytes=file.size)
                return
            self._send_blocks(lambda: blocks_of(file, block_size(file.size)), name, storage, lambda md5: md5)

    def copy(self, entry: Entry, source: Storage, name: str, there: Entry | None, *, storage: Storage) -> None:
        """Copy the blob *entry* to *name*, by this machine, unless *there* is the same."""
        if there is not None and is_copy(entry, there):
            self.tally.add(same_files=1, same_bytes=entry.size)
            return
        if entry.md5 is None:
            self.tally.add(unchecked=1)
        if entry.size <= SMALL:
            data = source.read(entry, 0, entry.size)
            storage.put(name, data, md5=_checked(entry, _md5(data), source))
            self.tally.add(sent_files=1, sent_bytes=len(data))
            return
        with self._large:
            step = block_size(entry.size)
            self._send_blocks(
                lambda: self._fetched(entry, source, 0, step), name, storage, lambda md5: _checked(entry, md5, source)
            )

    def receive(self, entry: Entry, source: Storage, path: Path) -> None:
        """Download *entry* as *path*, unless it exists; rename it when it is complete.

        Raises:
            InvalidError: the file cannot be written.
        """
        if holds(path, entry):
            self.tally.add(same_files=1, same_bytes=entry.size)
            return
        try:
            self._receive(entry, source, path)
        except OSError as error:
            raise InvalidError(
                f"The file {path} cannot be written: {error.strerror or error}.",
                hint="The bytes received so far are kept: make room, and run the command again.",
            ) from error

    def _receive(self, entry: Entry, source: Storage, path: Path) -> None:
        def counted(blocks: Iterator[bytes]) -> Iterator[bytes]:
            for data in blocks:
                yield data
                self.tally.add(sent_bytes=len(data))

        with PartFile(path, entry, source.place) as part:
            self.tally.add(kept_bytes=part.received, unchecked=entry.md5 is None)
            if entry.size <= SMALL:
                part.write(counted(iter([source.read(entry, part.received, entry.size - part.received)])))
            else:
                with self._large:
                    part.write(counted(self._fetched(entry, source, part.received, BLOCK)))
            if not part.complete():
                raise _damaged(entry, source)
        self.tally.add(sent_files=1)

    def _send_blocks(
        self, read: Callable[[], Iterator[bytes]], name: str, storage: Storage, check: Callable[[bytes], bytes]
    ) -> None:
        """Send the blocks of *read* that are missing, and make the blob of them."""
        known = storage.blocks(name)
        for attempt in range(2):
            whole = hashlib.md5(usedforsecurity=False)
            ids: list[str] = []
            pending: deque[Future[None]] = deque()
            try:
                for data in read():
                    whole.update(data)
                    md5 = _md5(data)
                    ids.append(block_id(len(ids), md5))
                    if ids[-1] in known:
                        self.tally.add(kept_bytes=len(data))
                        continue
                    if len(pending) >= WINDOW:
                        pending.popleft().result()
                    pending.append(self._pool.submit(self._stage, storage, name, ids[-1], data, md5))
                while pending:
                    pending.popleft().result()
            finally:
                for one in pending:
                    one.cancel()
            if storage.commit(name, ids, md5=check(whole.digest())):
                self.tally.add(sent_files=1)
                return
            if attempt == 0:
                # Blocks that were there have been dropped by the storage since: all are sent.
                known = frozenset()
        raise ServiceError(
            f"{storage.place}/{name}: the storage does not keep the blocks that it was sent.",
            hint="Is another client writing the same blob? Run the command again when it has ended.",
            transient=True,
        )

    def _stage(self, storage: Storage, name: str, block: str, data: bytes, md5: bytes) -> None:
        storage.stage(name, block, data, md5=md5)
        self.tally.add(sent_bytes=len(data))

    def _fetched(self, entry: Entry, source: Storage, start: int, step: int) -> Iterator[bytes]:
        """Yield the blob's bytes from *start* on, in ordered blocks, fetching ahead."""
        pending: deque[Future[bytes]] = deque()
        try:
            for offset in range(start, entry.size, step):
                pending.append(self._pool.submit(source.read, entry, offset, min(step, entry.size - offset)))
                if len(pending) >= WINDOW:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for one in pending:
                one.cancel()


def is_copy(entry: Entry, there: Entry) -> bool:
    """Return whether *there* has *entry*'s size and checksum; without one, is newer."""
    if entry.size != there.size:
        return False
    if entry.md5 is not None and there.md5 is not None:
        return entry.md5 == there.md5
    return entry.md5 is None and there.modified > entry.modified


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _checked(entry: Entry, md5: bytes, source: Storage) -> bytes:
    if entry.md5 not in (None, md5):
        raise _damaged(entry, source)
    return md5


def _damaged(entry: Entry, source: Storage) -> ServiceError:
    return ServiceError(
        f"{source.place}/{entry.name}: what arrived has not the checksum that is stored with the blob.",
        hint="Run the command again; if it happens again, the stored blob itself is damaged, or its Content-MD5 is wrong.",
        transient=True,
    )
