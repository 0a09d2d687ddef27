"""Local files: walked, and read in blocks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from aml_train.azure.blob.storage import Entry
from aml_train.core.boundary import of_the_kernel, repository_top
from aml_train.core.errors import InvalidError

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
