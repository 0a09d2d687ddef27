"""What the transfers know of a container: names, contents, checksums. The adapter is `azure_blobs`."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One blob.

    Attributes:
        name: its full name in the container.
        size: bytes.
        md5: the checksum that is stored with it, 16 bytes; None where whoever wrote it stored none.
        modified: when it was written.
        etag: changes with each writing.
    """

    name: str
    size: int
    md5: bytes | None
    modified: datetime.datetime
    etag: str


class Storage(Protocol):
    """One container, signed in to. Safe to use from several threads.

    Every method raises :class:`aml_train.core.errors.ServiceError` when the storage refuses or stays away; what may go away by itself was
    tried again.
    """

    @property
    def place(self) -> str:
        """Account and container, for messages; two with the same place are one."""

    @property
    def hierarchical(self) -> bool:
        """Whether the account has a hierarchical namespace, and lists folder by folder instead of by whole names."""

    def walk(self, prefix: str) -> Iterator[Entry]:
        """Yield the blobs whose names begin with *prefix*, page by page; folders' own markers are left out."""

    def level(self, folder: str) -> Iterator[Entry | str]:
        """Yield what lies directly in *folder* (with a slash at its end, or empty): blobs, and folders by their names."""

    def find(self, name: str) -> Entry | None:
        """Return the blob of exactly that name, or None."""

    def read(self, entry: Entry, offset: int, length: int) -> bytes:
        """Return *length* bytes from *offset*; an error if the blob is not what *entry* says any more."""

    def put(self, name: str, data: bytes, *, md5: bytes) -> None:
        """Write a small blob at once; the storage checks *md5* before, and keeps it."""

    def blocks(self, name: str) -> frozenset[str]:
        """Return the ids of the blocks that are there for *name*, committed or not."""

    def stage(self, name: str, block: str, data: bytes, *, md5: bytes) -> None:
        """Send one block of a large blob; the storage checks *md5*."""

    def commit(self, name: str, blocks: list[str], *, md5: bytes) -> bool:
        """Make the blob of its blocks, with its checksum; False where one of them is not there (any more)."""

    def delete(self, name: str) -> None:
        """Delete the blob; one that is gone already is no error."""
