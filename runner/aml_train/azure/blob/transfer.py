"""Local files, walked and read in blocks; and their transfer by azure-storage-blob, each checked by its MD5."""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from aml_train.azure.blob.storage import AzureBlobs, Entry
from aml_train.core.boundary import of_the_kernel, repository_top
from aml_train.core.errors import InvalidError, ServiceError

_READ: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class LocalFile:
    """A file to send: *size* in bytes and *changed* in nanoseconds, when it was found."""

    path: Path
    relative: str
    size: int
    changed: int


def local_file(path: Path, relative: str) -> LocalFile:
    """Return the file at *path*, to be known as *relative*."""
    found = path.stat()
    return LocalFile(path=path, relative=relative, size=found.st_size, changed=found.st_mtime_ns)


def walk(folder: Path, wanted: Callable[[str], bool] = lambda _relative: True) -> Iterator[LocalFile]:
    """Yield the files below *folder*, sorted.

    Links are followed; one that leads back into a folder above it, and anything that is neither file nor folder, is passed over.
    No more than the names of the folders on the way to the current file are held.

    Args:
        folder: where to look; it may be a link itself.
        wanted: returns of each file, by its path below *folder*, whether it is to be yielded.

    Raises:
        InvalidError: a folder cannot be read; or a link leads to a file of the kernel, or out of the git repository that
            *folder* is in: who wrote the repository does not decide what else of this machine is sent.
    """
    top = repository_top(folder)
    yield from _Walk(top=top, wanted=wanted).below(folder, "", (os.path.realpath(folder),), linked=False)


@dataclass(frozen=True, kw_only=True)
class _Walk:
    """One walk. *top* is the git repository that it is in; None outside of any."""

    top: Path | None
    wanted: Callable[[str], bool]

    def below(self, folder: Path, base: str, above: tuple[str, ...], *, linked: bool) -> Iterator[LocalFile]:
        """Yield the files below *folder*; *linked*: a link led there."""
        try:
            with os.scandir(folder) as scan:
                found = {(f"{entry.name}/" if entry.is_dir() else entry.name): entry.is_symlink() for entry in scan}
        except OSError as error:
            raise InvalidError(f"The folder {folder} cannot be read: {error.strerror}.") from error
        for name in sorted(found):
            path, by_link = folder / name, linked or found[name]
            if name.endswith("/"):
                real = os.path.realpath(path)
                if real not in above:
                    yield from self.below(path, base + name, (*above, real), linked=by_link)
            elif self.wanted(base + name) and path.is_file():
                if by_link:
                    self._check(path)
                yield local_file(path, base + name)

    def _check(self, path: Path) -> None:
        real = path.resolve()
        hint = "Copy it in its place, or name what the link leads to as the source."
        if of_the_kernel(real):
            raise InvalidError(f"{path} leads by a link to {real}, a file of the kernel.", hint=hint)
        if self.top is not None and (not real.is_relative_to(self.top) or ".git" in real.relative_to(self.top).parts):
            where = "out of the repository" if not real.is_relative_to(self.top) else "into git's own data"
            raise InvalidError(f"{path} leads by a link to {real}, {where} {self.top}.", hint=hint)


def md5_of(path: Path) -> bytes:
    """Return a file's MD5, 16 bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()


def blocks_of(file: LocalFile) -> Iterator[bytes]:
    """Yield the file's contents.

    Raises:
        InvalidError: it cannot be read, or changes meanwhile.
    """
    try:
        with file.path.open("rb") as source:
            read = 0
            while data := source.read(_READ):
                read += len(data)
                if read >= file.size:
                    _check_unchanged(file, source)
                yield data
            _check_unchanged(file, source)
    except OSError as error:
        raise InvalidError(f"The file {file.path} cannot be read: {error.strerror}.") from error


def _check_unchanged(file: LocalFile, source: BinaryIO) -> None:
    now = os.fstat(source.fileno())
    if (now.st_size, now.st_mtime_ns) != (file.size, file.changed):
        raise InvalidError(
            f"The file {file.path} was changed while it was sent.", hint="Run the command again when it is finished."
        )


def stamp(path: Path, entry: Entry) -> None:
    """Give a file the time of the blob."""
    os.utime(path, ns=(_moment(entry), _moment(entry)))


def _moment(entry: Entry) -> int:
    return int(entry.modified.timestamp() * 1_000_000_000)


def holds(path: Path, entry: Entry) -> bool:
    """Return whether *path* is the blob already: by size and checksum, or time."""
    if not path.is_file():
        return False
    found = path.stat()
    if found.st_size != entry.size:
        return False
    if entry.md5 is not None:
        return md5_of(path) == entry.md5
    return found.st_mtime_ns == _moment(entry)


_Item = TypeVar("_Item")

WORKERS: Final = 32
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

    def send(self, file: LocalFile, name: str, storage: AzureBlobs) -> None:
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

    def copy(self, entry: Entry, source: AzureBlobs, name: str, storage: AzureBlobs) -> None:
        """Copy *entry* to the blob *name*, unless that has its size and checksum already."""
        there = storage.find(name)
        if there is not None and entry.md5 is not None and (there.size, there.md5) == (entry.size, entry.md5):
            self.tally.add(same_files=1, same_bytes=entry.size)
            return
        with self._room(entry.size):
            storage.upload(name, self._counted(source.chunks(entry)), entry.size, md5=entry.md5)
        self.tally.add(sent_files=1)

    def delete(self, entry: Entry, storage: AzureBlobs) -> None:
        """Delete a blob."""
        storage.delete(entry.name)
        self.tally.add(sent_files=1, sent_bytes=entry.size)

    def receive(self, entry: Entry, source: AzureBlobs, path: Path) -> None:
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


def _damaged(entry: Entry, source: AzureBlobs) -> ServiceError:
    return ServiceError(
        f"{source.place}/{entry.name}: what arrived has not the checksum that is stored with the blob.",
        hint="Run the command again; if it happens again, the stored blob itself is damaged, or its Content-MD5 is wrong.",
        transient=True,
    )
