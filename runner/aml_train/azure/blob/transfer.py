"""Sending, receiving and copying one file: whole if it is small, in checked blocks if it is large, resumed where it broke off."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aml_train.azure.blob.local_files import LocalFile, PartFile, blocks_of, holds, md5_of
from aml_train.azure.blob.storage import Entry, Storage
from aml_train.core.errors import InvalidError, ServiceError

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
    """Return the size of the blocks of a file of *size* bytes: as small as the number of blocks allows."""
    least = -(-size // MOST_BLOCKS)
    return max(BLOCK, -(-least // MEBIBYTE) * MEBIBYTE)


def block_id(index: int, md5: bytes) -> str:
    """Return the id of a block. It tells what is in the block, so that a block that is there is known to be the right one.

    Ids of one blob must be equally long, and these are as long as azure-storage-blob's: blocks that it left do not stand in the way.
    """
    return base64.b64encode(f"{index:06d}-{md5.hex()}-blocks".encode("ascii")[:46]).decode("ascii")


@dataclass(kw_only=True)
class Tally:
    """What was done so far, counted from several threads. *files* and *size* (bytes) are what there is to do, as far as it is known."""

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


class Lanes:
    """What all files of one command share: threads for blocks, and room for a few large files."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(LARGE_AT_ONCE * WINDOW, thread_name_prefix="blocks")
        self.large = threading.Semaphore(LARGE_AT_ONCE)

    def close(self) -> None:
        """Let the threads go; blocks that were not begun are left out."""
        self.pool.shutdown(wait=False, cancel_futures=True)


def send_file(
    file: LocalFile, name: str, there: Entry | None, *, storage: Storage, lanes: Lanes, tally: Tally
) -> None:
    """Send *file* as the blob *name*, unless *there* is the same already.

    Raises:
        InvalidError: the file cannot be read, or changes meanwhile.
        ServiceError: the storage refuses or stays away.
    """
    maybe = there is not None and there.size == file.size and there.md5 is not None
    if file.size <= SMALL:
        data = b"".join(blocks_of(file, SMALL + 1))
        md5 = _md5(data)
        if maybe and there is not None and there.md5 == md5:
            tally.add(same_files=1, same_bytes=file.size)
            return
        storage.put(name, data, md5=md5)
        tally.add(sent_files=1, sent_bytes=len(data))
        return
    with lanes.large:
        if maybe and there is not None and there.md5 == md5_of(file.path):
            tally.add(same_files=1, same_bytes=file.size)
            return
        _send_blocks(
            lambda: blocks_of(file, block_size(file.size)), name, None, storage=storage, lanes=lanes, tally=tally
        )


def copy_blob(
    entry: Entry, source: Storage, name: str, there: Entry | None, *, storage: Storage, lanes: Lanes, tally: Tally
) -> None:
    """Copy the blob *entry* of *source* to *name*, unless *there* is the same already; by way of this machine.

    Raises:
        ServiceError: a storage refuses or stays away, or the checksum is not that of the source.
    """
    if there is not None and is_copy(entry, there):
        tally.add(same_files=1, same_bytes=entry.size)
        return
    if entry.md5 is None:
        tally.add(unchecked=1)
    if entry.size <= SMALL:
        data = source.read(entry, 0, entry.size)
        md5 = _checked(entry, _md5(data), source)
        storage.put(name, data, md5=md5)
        tally.add(sent_files=1, sent_bytes=len(data))
        return
    with lanes.large:
        step = block_size(entry.size)
        _send_blocks(
            lambda: _fetched(entry, source, 0, step, lanes),
            name,
            lambda md5: _checked(entry, md5, source),
            storage=storage,
            lanes=lanes,
            tally=tally,
        )


def is_copy(entry: Entry, there: Entry) -> bool:
    """Tell whether *there* is a copy of *entry*: by size and checksum; without a checksum, by size and being newer."""
    if entry.size != there.size:
        return False
    if entry.md5 is not None and there.md5 is not None:
        return entry.md5 == there.md5
    return entry.md5 is None and there.modified > entry.modified


def receive_file(entry: Entry, source: Storage, path: Path, *, lanes: Lanes, tally: Tally) -> None:
    """Download *entry* as *path*, unless it is there already. The file has its name only when it is complete and checked.

    Raises:
        ServiceError: the storage refuses or stays away, or the checksum does not fit.
        InvalidError: the file cannot be written.
    """
    if holds(path, entry):
        tally.add(same_files=1, same_bytes=entry.size)
        return
    try:
        _receive(entry, source, path, lanes, tally)
    except OSError as error:
        raise InvalidError(
            f"The file {path} cannot be written: {error.strerror or error}.",
            hint="What has arrived is kept: make room, and run the command again.",
        ) from error


def _receive(entry: Entry, source: Storage, path: Path, lanes: Lanes, tally: Tally) -> None:
    def counted(blocks: Iterator[bytes]) -> Iterator[bytes]:
        for data in blocks:
            yield data
            tally.add(sent_bytes=len(data))

    with PartFile(path, entry, source.place) as part:
        tally.add(kept_bytes=part.received, unchecked=entry.md5 is None)
        if entry.size <= SMALL:
            part.write(counted(iter([source.read(entry, part.received, entry.size - part.received)])))
        else:
            with lanes.large:
                part.write(counted(_fetched(entry, source, part.received, BLOCK, lanes)))
        if not part.complete():
            raise _damaged(entry, source)
    tally.add(sent_files=1)


def _send_blocks(
    read: Callable[[], Iterator[bytes]],
    name: str,
    check: Callable[[bytes], bytes] | None,
    *,
    storage: Storage,
    lanes: Lanes,
    tally: Tally,
) -> None:
    """Send what *read* yields in blocks, those that are not there yet, and make the blob of them."""
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
                    tally.add(kept_bytes=len(data))
                    continue
                if len(pending) >= WINDOW:
                    pending.popleft().result()
                pending.append(lanes.pool.submit(_stage, storage, name, ids[-1], data, md5, tally))
            while pending:
                pending.popleft().result()
        finally:
            for one in pending:
                one.cancel()
        digest = check(whole.digest()) if check is not None else whole.digest()
        if storage.commit(name, ids, md5=digest):
            tally.add(sent_files=1)
            return
        if attempt == 0:
            # Blocks that were there have been dropped by the storage since: all are sent.
            known = frozenset()
    raise ServiceError(
        f"{storage.place}/{name}: the storage does not keep the blocks that it was sent.",
        hint="Is another client writing the same blob? Run the command again when it has ended.",
        transient=True,
    )


def _stage(storage: Storage, name: str, block: str, data: bytes, md5: bytes, tally: Tally) -> None:
    storage.stage(name, block, data, md5=md5)
    tally.add(sent_bytes=len(data))


def _fetched(entry: Entry, source: Storage, start: int, step: int, lanes: Lanes) -> Iterator[bytes]:
    """Yield the blob's bytes from *start* on, in blocks and in order, a few of them fetched ahead."""
    pending: deque[Future[bytes]] = deque()
    offsets = iter(range(start, entry.size, step))
    try:
        for offset in offsets:
            pending.append(lanes.pool.submit(source.read, entry, offset, min(step, entry.size - offset)))
            if len(pending) >= WINDOW:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for one in pending:
            one.cancel()


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
