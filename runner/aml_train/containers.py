"""Files of containers, by archive copy: the one way that works wherever the engine is."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from docker.models.containers import Container

_LIMIT: Final = 50 << 20


def fetch_file(container: Container, path: str, *, limit: int = _LIMIT) -> bytes | None:
    """Return a file of a container, running or not; None where it is not there.

    Raises:
        ValueError: if it is larger than *limit* bytes or not a file.
    """
    from docker.errors import NotFound

    try:
        chunks, _ = container.get_archive(path)
    except NotFound:
        return None
    buffer = io.BytesIO()
    for chunk in chunks:
        buffer.write(chunk)
        if buffer.tell() > limit:
            raise ValueError(f"{path} in the container is larger than {limit >> 20} MiB")
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as archive:
        member = archive.next()
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
