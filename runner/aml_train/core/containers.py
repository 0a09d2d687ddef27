"""Files of containers, by archive copy: the one way that works wherever the engine is."""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Iterator
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from docker.models.containers import Container

_LIMIT: Final = 50 << 20
_CHUNK: Final = 1 << 20


class TooLargeError(ValueError):
    """A file of a container is larger than the caller takes."""


class _Stream(io.RawIOBase):
    """Chunks of a response, as a file to read from."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._chunks, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


@contextlib.contextmanager
def open_archive(container: Container, path: str) -> Iterator[IO[bytes] | None]:
    """Open the tar stream of a path of a container, running or not; None where it is not there.

    The connection is closed at the end, whether all of the stream was read or not: the engine locks a container while it sends
    an archive of it (``containerArchivePath`` in daemon/archive.go of moby 20.10), so that every later call would wait.
    docker-py's own ``get_archive`` does not give the response away.
    """
    client: Any = container.client
    api = client.api
    url, headers = api._url("/containers/{0}/archive", container.id), {"Accept-Encoding": "identity"}
    with api._get(url, params={"path": path}, headers=headers, stream=True) as response:
        if response.status_code == HTTPStatus.NOT_FOUND:
            yield None
            return
        api._raise_for_status(response)
        yield io.BufferedReader(_Stream(response.iter_content(_CHUNK)))


def fetch_file(container: Container, path: str, *, limit: int = _LIMIT) -> bytes | None:
    """Return a file of a container, running or not; None where it is not there.

    Raises:
        TooLargeError: if it is larger than *limit* bytes.
        ValueError: if it is not a file.
    """
    with open_archive(container, path) as stream:
        if stream is None:
            return None
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            member = archive.next()
            if member is not None and member.size > limit:
                raise TooLargeError(f"{path} in the container is larger than {limit >> 20} MiB")
            file = archive.extractfile(member) if member is not None and member.isfile() else None
            if file is None:
                raise ValueError(f"{path} in the container is not a file")
            return file.read()


def pack_files(files: dict[str, bytes], *, folder: str) -> bytes:
    """Return a tar archive with *folder*, which anybody may write to, and *files* in it (name → contents)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(folder)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o777
        archive.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
