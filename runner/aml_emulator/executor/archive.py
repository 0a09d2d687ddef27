"""Files between Blob storage and a container, as tar streams, without bind mounts."""

from __future__ import annotations

import io
import posixpath
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import IO

from aml_emulator.executor.layout import UnsafePathError, safe_relative
from aml_emulator.executor.spec import BlobStore, Folder

SMALL_BYTES = 1024 * 1024
"""Files up to this size are moved several at a time."""

PARALLEL = 8
WINDOW = 32
"""At most so many small files are held in memory."""

SPOOL_BYTES = 8 * 1024 * 1024

_LONGEST_NAME = 1024
_LONGEST_SHOWN = 200


class ContentError(Exception):
    """An input of the job is not stored, or not with its announced size.

    No OSError: those the HTTP client takes for its own while it sends an archive.
    """


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A member of a new archive at an absolute *path*; a folder without *read*."""

    path: str
    mode: int
    size: int = 0
    read: Callable[[], Iterable[bytes]] | None = None


def folder_entry(path: str) -> Entry:
    """Return a folder that anybody may write to, as Azure's mounts are."""
    return Entry(path=path, mode=0o777)


def file_entry(path: str, data: bytes, *, mode: int = 0o644) -> Entry:
    """Return a file of ours, readable by all."""
    return Entry(path=path, mode=mode, size=len(data), read=lambda: (data,))


def blob_entries(
    blobs: BlobStore,
    folder: Folder,
    target: str,
    *,
    single: bool = False,
    wanted: Callable[[str], bool] = lambda _path: True,
) -> Iterator[Entry]:
    """Yield the files of *folder* below *target*; with *single* one blob as *target*.

    *wanted* returns by a file's path below *folder* whether it is taken. All are executable.

    Raises:
        UnsafePathError: a blob's name leads outside of the folder.
        ContentError: there is nothing at *folder*.
    """
    found = False
    for item in blobs.walk(folder.container, folder.prefix):
        if not wanted(item.name):
            continue
        found = True
        name = folder.name_of(item.name) if item.name else folder.prefix.strip("/")
        if single and item.name:
            raise UnsafePathError(f"{folder.prefix!r} is a folder, and a uri_file input needs a file")
        relative = item.name or name.rpartition("/")[2]
        path = target if single else f"{target}/{safe_relative(relative)}"
        yield Entry(path=path, mode=0o755, size=item.size, read=partial(blobs.read, folder.container, name))
    if not found:
        raise ContentError(f"There is nothing stored at {folder.container}/{folder.prefix}")


def tar_stream(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield a tar archive of *entries*, for extraction at ``/``.

    Small files are fetched several at a time.

    Raises:
        ContentError: a file did not have the size that was announced.
    """
    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="fetch") as pool:
        window: deque[tuple[Entry, Future[bytes] | None]] = deque()
        for entry in entries:
            small = entry.read is not None and entry.size <= SMALL_BYTES
            window.append((entry, pool.submit(_whole, entry) if small else None))
            if len(window) >= WINDOW:
                yield from _member(*window.popleft())
        while window:
            yield from _member(*window.popleft())
    yield bytes(2 * tarfile.BLOCKSIZE)


def _whole(entry: Entry) -> bytes:
    return b"".join(entry.read()) if entry.read else b""


def _member(entry: Entry, fetched: Future[bytes] | None) -> Iterator[bytes]:
    header = tarfile.TarInfo(entry.path.lstrip("/"))
    header.mode = entry.mode
    header.size = entry.size
    header.type = tarfile.REGTYPE if entry.read else tarfile.DIRTYPE
    yield header.tobuf(tarfile.PAX_FORMAT)
    if entry.read is None:
        return
    sent = 0
    for chunk in (fetched.result(),) if fetched else entry.read():
        sent += len(chunk)
        yield chunk
    if sent != entry.size:
        raise ContentError(f"{entry.path} has {sent} bytes where {entry.size} were announced")
    if sent % tarfile.BLOCKSIZE:
        yield bytes(tarfile.BLOCKSIZE - sent % tarfile.BLOCKSIZE)


class ChunkReader(io.RawIOBase):
    """A readable file over chunks of bytes, which cannot be rewound."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


@dataclass(kw_only=True)
class Capture:
    """Stores the files of a tar stream from the engine.

    Links to files of the same archive are stored as copies; links to anywhere else, anything that is neither file nor folder, and
    files whose names no blob can have, are left out. Empty folders have no counterpart in Blob storage.

    Attributes:
        base: a folder below *target*; empty for *target* itself.
        on_file: called for every stored file with its path below *target* and its size.
        skip: returns for each member that is no folder, by its path, whether it is skipped.
    """

    blobs: BlobStore
    target: Folder
    base: str = ""
    on_file: Callable[[str, int], None]
    skip: Callable[[str, tarfile.TarInfo], bool] = lambda _path, _member: False
    stored: dict[str, int] = field(default_factory=dict)
    links: list[tuple[str, str]] = field(default_factory=list)
    pending: deque[tuple[str, int, Future[None]]] = field(default_factory=deque)
    notes: list[str] = field(default_factory=list)

    def run(self, chunks: Iterator[bytes]) -> tuple[str, ...]:
        """Store an archive, whose first component, the path's own name, is dropped; return notes on omitted files.

        Raises:
            UnsafePathError: a member's name leads outside of the archive.
            tarfile.TarError: the archive is damaged or cut short.
        """
        reader = io.BufferedReader(ChunkReader(chunks), buffer_size=1024 * 1024)
        with (
            ThreadPoolExecutor(PARALLEL, thread_name_prefix="store") as pool,
            tarfile.open(fileobj=reader, mode="r|", bufsize=64 * tarfile.BLOCKSIZE) as archive,
        ):
            for member in archive:
                self._take(archive, member, pool)
            self._drain(0)
            self._copy_links()
        # The data after the archive's end mark is read too: only then is the connection free again.
        deque(chunks, maxlen=0)
        return tuple(self.notes)

    def _take(self, archive: tarfile.TarFile, member: tarfile.TarInfo, pool: ThreadPoolExecutor) -> None:
        path = self._relative(member.name)
        if member.isdir() or self.skip(path, member):
            return
        if (why := _no_blob(self._blob_name(path))) is not None:
            self.notes.append(f"{_printable(self._named(path))} {why} and was left out")
            return
        if member.islnk():
            self.links.append((path, self._relative(member.linkname)))
        elif member.issym():
            self.links.append((path, _link_target(path, member.linkname)))
        elif member.isreg():
            content = archive.extractfile(member)
            if content is None:
                raise tarfile.ReadError(f"{member.name} has no content")
            if member.size > SMALL_BYTES:
                # A member of a stream says that it can be rewound, which fails.
                chunks = iter(partial(content.read, SMALL_BYTES), b"")
                self._store(path, io.BufferedReader(ChunkReader(chunks)), member.size)
                self._done(path, member.size)
                return
            job = pool.submit(self._store, path, io.BytesIO(content.read()), member.size)
            self.pending.append((path, member.size, job))
            self._drain(WINDOW)
        else:
            self.notes.append(f"{self._named(path)} is not a regular file and was left out")

    @staticmethod
    def _relative(name: str) -> str:
        """Return a member's path without its first component, empty for the root."""
        inner = safe_relative(name).partition("/")[2]
        return safe_relative(inner) if inner else ""

    def _named(self, path: str) -> str:
        return posixpath.join(*(part for part in (self.base, path) if part)) if self.base or path else ""

    def _blob_name(self, path: str) -> str:
        named = self._named(path)
        return self.target.name_of(named) if named else self.target.prefix.strip("/")

    def _store(self, path: str, content: IO[bytes], size: int) -> None:
        self.blobs.write(self.target.container, self._blob_name(path), content, size)

    def _done(self, path: str, size: int) -> None:
        self.stored[path] = size
        self.on_file(self._named(path), size)

    def _drain(self, room: int) -> None:
        while len(self.pending) > room:
            path, size, job = self.pending.popleft()
            job.result()
            self._done(path, size)

    def _copy_links(self) -> None:
        """Store links as copies of what they lead to, also by way of other links."""
        left = self.links
        while left:
            waiting = []
            for path, goal in left:
                if goal in self.stored:
                    self._copy(goal, path)
                else:
                    waiting.append((path, goal))
            if len(waiting) == len(left):
                break
            left = waiting
        self.notes += [
            f"{self._named(path)} links outside of its folder or to a folder and was left out" for path, _ in left
        ]

    def _copy(self, source: str, path: str) -> None:
        size = self.stored[source]
        with tempfile.SpooledTemporaryFile(SPOOL_BYTES) as spool:
            for chunk in self.blobs.read(self.target.container, self._blob_name(source)):
                spool.write(chunk)
            spool.seek(0)
            self._store(path, spool, size)
        self._done(path, size)


def _no_blob(name: str) -> str | None:
    """Return why no blob can have that name, None if one can.

    A name is Unicode, of 1 to 1,024 characters:
    https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata#blob-names
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    return "has too long a name" if len(name) > _LONGEST_NAME else None


def _printable(name: str) -> str:
    """Return a name as writable text: bytes that are no UTF-8 become ``\\udcff`` etc."""
    text = name.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _link_target(path: str, linkname: str) -> str:
    """Return the target of a symbolic link at *path*, as a path of the same archive.

    It is an impossible path if the link leaves the archive.
    """
    if linkname.startswith("/"):
        return "/"
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), linkname))
