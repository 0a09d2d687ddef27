"""The hash by which AzureML finds a code asset again: azure-ai-ml's own, so that either client reuses what the other sent.

Source: ``get_content_hash`` and ``_get_file_list_content_hash`` in ``azure/ai/ml/_utils/_asset_utils.py`` (1.34.1), whose
comment says that the service depends on it: the number of files; then ``#path#size`` of each in the order of their paths
in lower case; then the contents in the same order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from aml_train.core.files import FileSet

HASH_VERSION: Final = 202208
"""``get_content_hash_version`` of azure-ai-ml 1.34.1."""

BLOCK: Final = 8 << 20
"""Bytes that go in one request; a longer file goes in several."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a file: *length* bytes from *offset*, with their MD5, by which the storage checks what arrives."""

    offset: int
    length: int
    md5: bytes


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The files of a code folder as they were read.

    Attributes:
        files: what belongs to it.
        content_hash: azure-ai-ml's hash, hexadecimal.
        blocks: path → the parts of the file; an empty file has one empty part.
    """

    files: FileSet
    content_hash: str
    blocks: Mapping[str, tuple[Block, ...]]


def read_snapshot(files: FileSet) -> Snapshot:
    """Read every file once more; what is read must be what the digest of *files* stands for.

    Raises:
        InvalidError: a file has changed since its contents were hashed.
    """
    # Paths that differ in case alone come in the order of the paths; azure-ai-ml takes them as the folder lists them.
    entries = sorted(files.entries, key=lambda entry: entry.path.lower())
    whole = hashlib.sha256(str(len(entries)).encode())
    for entry in entries:
        whole.update(f"#{entry.path}#{entry.size}".encode())
    blocks: dict[str, tuple[Block, ...]] = {}
    for entry in entries:
        found: list[Block] = []
        with files.open(entry) as file:
            for data in _pieces(file):
                whole.update(data)
                at = found[-1].offset + found[-1].length if found else 0
                md5 = hashlib.md5(data, usedforsecurity=False).digest()
                found.append(Block(offset=at, length=len(data), md5=md5))
        blocks[entry.path] = tuple(found)
    return Snapshot(files=files, content_hash=whole.hexdigest(), blocks=blocks)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _pieces(file: _Readable) -> Iterator[bytes]:
    """Yield the contents in blocks; one empty block for an empty file."""
    data = file.read(BLOCK)
    yield data
    while len(data) == BLOCK and (data := file.read(BLOCK)):
        yield data
