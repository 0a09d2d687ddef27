"""The files of a code folder as they are sent: AzureML's hash, and checksums.

The hash is azure-ai-ml's own, so that either client reuses the other's uploads. Source: ``get_content_hash`` and
``_get_file_list_content_hash`` in ``azure/ai/ml/_utils/_asset_utils.py`` (1.34.1), whose comment says that the service depends on it: the
number of files; then ``#path#size`` of each in the order of their paths in lower case; then the contents in the same order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from aml_train.core.files import FileSet

HASH_VERSION: Final = 202208
"""``get_content_hash_version`` of azure-ai-ml 1.34.1."""

_PIECE: Final = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The files of a code folder as they were read.

    Attributes:
        files: what belongs to it.
        content_hash: azure-ai-ml's hash, hexadecimal.
        md5s: path → the MD5 of the file.
    """

    files: FileSet
    content_hash: str
    md5s: Mapping[str, bytes]

    @property
    def listing(self) -> str:
        """The digest of the files as a storage lists them."""
        sizes = {entry.path: entry.size for entry in self.files.entries}
        return listing_digest((path, sizes[path], md5) for path, md5 in self.md5s.items())


def listing_digest(files: Iterable[tuple[str, int, bytes]]) -> str:
    """Return the SHA-256 (hexadecimal) over names, sizes and MD5s, in any order."""
    lines = sorted([name, size, md5.hex()] for name, size, md5 in files)
    return hashlib.sha256(json.dumps(lines).encode()).hexdigest()


def read_snapshot(files: FileSet) -> Snapshot:
    """Read every file again; the bytes must have the digest of *files*.

    Raises:
        InvalidError: a file has changed since its contents were hashed.
    """
    # Paths that differ in case alone come in the order of the paths; azure-ai-ml takes them as the folder lists them.
    entries = sorted(files.entries, key=lambda entry: entry.path.lower())
    whole = hashlib.sha256(str(len(entries)).encode())
    for entry in entries:
        whole.update(f"#{entry.path}#{entry.size}".encode())
    md5s: dict[str, bytes] = {}
    for entry in entries:
        file_md5 = hashlib.md5(usedforsecurity=False)
        with files.open(entry) as file:
            for data in _pieces(file):
                whole.update(data)
                file_md5.update(data)
        md5s[entry.path] = file_md5.digest()
    return Snapshot(files=files, content_hash=whole.hexdigest(), md5s=md5s)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _pieces(file: _Readable) -> Iterator[bytes]:
    while data := file.read(_PIECE):
        yield data


def upload_hash(path: Path) -> str:
    """Return azure-ai-ml's hash of a local input, by which it names the upload.

    It is ``get_object_hash`` of 1.34.1: the names of files and folders, and the contents, folder by folder.

    Raises:
        InvalidError: it cannot be read.
    """
    whole = hashlib.sha256(b"Initialize for october 2021 AML CLI version")
    if path.is_file():
        with path.open("rb") as file:
            for data in _pieces(file):
                whole.update(data)
        return whole.hexdigest()
    files = FileSet.collect_upload(path)
    known = {entry.path: entry for entry in files.entries}
    folders = {parent.as_posix() for name in known for parent in PurePosixPath(name).parents}

    def add(folder: Path) -> None:
        for child in sorted(folder.iterdir(), key=lambda one: str(one).lower()):
            name = child.relative_to(path).as_posix()
            if name in known or name in folders:
                whole.update(child.name.encode())
            if name in known:
                with files.open(known[name]) as file:
                    for data in _pieces(file):
                        whole.update(data)
            elif name in folders:
                add(child)

    add(path)
    return whole.hexdigest()
