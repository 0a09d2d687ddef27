"""Local files: walked in the order of a listing, read in blocks, replaced whole."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Self

from aml_train.azure.blob.storage import Entry
from aml_train.core.boundary import of_the_kernel, repository_top
from aml_train.core.errors import InvalidError
from aml_train.core.globs import order

_READ: Final = 1024 * 1024
_LONGEST_NAME: Final = 255
_IDENTITY: Final = 12


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
    """Yield the files below *folder*, in the order in which Blob Storage lists names.

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
        for name in sorted(found, key=order):
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


def blocks_of(file: LocalFile, block: int) -> Iterator[bytes]:
    """Yield the file's contents in blocks of *block* bytes.

    Raises:
        InvalidError: it cannot be read, or changes meanwhile.
    """
    try:
        with file.path.open("rb") as source:
            while data := source.read(block):
                yield data
            now = os.fstat(source.fileno())
    except OSError as error:
        raise InvalidError(f"The file {file.path} cannot be read: {error.strerror}.") from error
    if (now.st_size, now.st_mtime_ns) != (file.size, file.changed):
        raise InvalidError(
            f"The file {file.path} was changed while it was sent.", hint="Run the command again when it is finished."
        )


class PartFile:
    """A download that becomes the file when it is complete, and can be resumed.

    It is next to the file and named after it and its source, so that another state of the blob never continues it.
    Bytes come in order, so its length says what is there.

    Args:
        path: the file that it will be.
        entry: the blob.
        place: account and container of the blob.
    """

    def __init__(self, path: Path, entry: Entry, place: str) -> None:
        self._path = path
        self._entry = entry
        identity = hashlib.sha256(f"{place}\n{entry.name}\n{entry.etag}\n{entry.size}".encode()).hexdigest()[
            :_IDENTITY
        ]
        ending = f".{identity}.part"
        room = _LONGEST_NAME - len(ending) - 1
        self._stem = "." + os.fsdecode(os.fsencode(path.name)[:room])
        self.part = path.with_name(self._stem + ending)
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._file: BinaryIO | None = None
        self.received = 0

    def __enter__(self) -> Self:
        """Take up what is there; the folder is made where it is not.

        Raises:
            InvalidError: another process is downloading the same.
            OSError: it cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.part.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise InvalidError(f"The file {self._path} is being downloaded by another process.") from None
        if self._file.tell() > self._entry.size:
            self._file.truncate(0)
        self._file.seek(0)
        while data := self._file.read(_READ):
            self._md5.update(data)
            self.received += len(data)
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, blocks: Iterator[bytes]) -> None:
        """Append *blocks*."""
        if self._file is None:
            raise ValueError("the file is not open")
        for data in blocks:
            self._file.write(data)
            self._file.flush()
            self._md5.update(data)
            self.received += len(data)
        if self._entry.size > _READ:
            os.fsync(self._file.fileno())

    def complete(self) -> bool:
        """Check size and checksum, then rename it; False, and removed, if they differ."""
        if self.received != self._entry.size or self._entry.md5 not in (None, self._md5.digest()):
            self.part.unlink(missing_ok=True)
            return False
        moment = int(self._entry.modified.timestamp() * 1_000_000_000)
        os.utime(self.part, ns=(moment, moment))
        self.part.replace(self._path)
        if self._entry.size > _READ:
            # The parts of an earlier state of the blob. Of small files there is next to nothing, and looking would take long.
            for stale in self._path.parent.glob(f"{glob.escape(self._stem)}.{'[0-9a-f]' * _IDENTITY}.part"):
                stale.unlink(missing_ok=True)
        return True


def holds(path: Path, entry: Entry) -> bool:
    """Return whether *path* is the blob already: by size and checksum, or time."""
    if not path.is_file():
        return False
    found = path.stat()
    if found.st_size != entry.size:
        return False
    if entry.md5 is not None:
        return md5_of(path) == entry.md5
    return found.st_mtime_ns == int(entry.modified.timestamp() * 1_000_000_000)
