"""List, upload, download, copy and remove any number of files in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from aml_train.azure.blob.local_files import LocalFile, local_file, walk
from aml_train.azure.blob.storage import Entry, Storage
from aml_train.azure.blob.transfer import Lanes, Tally, Workers, copy_blob, receive_file, send_file
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.globs import Selection, blob_name, has_wildcards, order, safe_relative, select

#: So many names are looked up one by one before the listing is begun: for a few files in a huge folder it would be dear.
_ONE_BY_ONE: Final = 8


class Lookup:
    """Finds blobs by name, for names that come in the order of a listing.

    The listing is read along with the names, so that nothing but its current page is held. If it comes in another order, as in
    accounts with a hierarchical namespace, names are looked up one by one.

    Args:
        storage: where to look.
        prefix: what all names begin with.
    """

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix
        self._asked = 0
        self._listing: Iterator[Entry] | None = None
        self._current: Entry | None = None
        self._ordered = True

    def find(self, name: str) -> Entry | None:
        """Return the blob, or None.

        Names must come in the order of :func:`aml_train.core.globs.order`.
        """
        self._asked += 1
        if self._asked <= _ONE_BY_ONE or not self._ordered:
            return self._storage.find(name)
        if self._listing is None:
            if self._storage.hierarchical:
                self._ordered = False
                return self._storage.find(name)
            self._listing = self._storage.walk(self._prefix)
            self._current = next(self._listing, None)
        key = order(name)
        while self._current is not None and order(self._current.name) < key:
            before = order(self._current.name)
            self._current = next(self._listing, None)
            if self._current is not None and order(self._current.name) < before:
                self._ordered = False
                return self._storage.find(name)
        return self._current if self._current is not None and self._current.name == name else None


WORKERS: Final = 24
"""Files that are on their way at once. One Azurite is busiest between 16 and 32; Azure takes far more."""

_Job = TypeVar("_Job")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A path in a container. *address* is how the user named it, for messages."""

    storage: Storage
    path: str
    address: str

    @property
    def folder(self) -> str:
        """The path as a folder: with a slash at its end, or empty for the container."""
        stripped = self.path.strip("/")
        return f"{stripped}/" if stripped else ""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The blobs of a path, each with its relative path; *single* for one by its name."""

    single: bool
    items: Iterator[tuple[str, Entry]]


def find(place: Place, *, direct: bool = False) -> Found:
    """Return the blobs that are meant, in the order of the listing.

    Args:
        place: a blob, a folder, or a pattern.
        direct: of a pattern, leave out blobs in folders that it matches.

    Raises:
        InvalidError: the pattern is none.
        ServiceError: there is nothing.
    """
    selection = select(place.path)
    if selection.name is not None and (entry := place.storage.find(selection.name)) is not None:
        return Found(single=True, items=iter([(selection.name.rpartition("/")[2], entry)]))
    items = _matching(place.storage, selection, direct=direct)
    first = next(items, None)
    if first is None:
        raise ServiceError(
            f"There is nothing at {place.address} ({place.storage.place}).",
            hint="Look around with: aml-train data ls",
        )
    return Found(single=False, items=_chain(first, items))


def _matching(storage: Storage, selection: Selection, *, direct: bool) -> Iterator[tuple[str, Entry]]:
    for entry in storage.walk(selection.prefix):
        relative = selection.relative(entry.name)
        if relative is not None and not (direct and selection.direct and not selection.direct.fullmatch(relative)):
            yield relative, entry


def _chain(first: tuple[str, Entry], rest: Iterator[tuple[str, Entry]]) -> Iterator[tuple[str, Entry]]:
    yield first
    yield from rest


def listing(place: Place, *, recursive: bool) -> Iterator[tuple[str, Entry | None]]:
    """Yield names relative to the folder; a folder's name ends with a slash.

    Raises:
        ServiceError: there is nothing, in a place that is not the whole container.
    """
    selection = select(place.path)
    if selection.pattern is None and not recursive:
        found = False
        if selection.name is not None and (entry := place.storage.find(selection.name)) is not None:
            yield selection.name.rpartition("/")[2], entry
            return
        for item in place.storage.level(selection.folder):
            found = True
            if isinstance(item, str):
                yield item[len(selection.folder) :], None
            else:
                yield item.name[len(selection.folder) :], item
        if found or not selection.folder:
            return
    if not selection.prefix and selection.pattern is None:
        yield from _matching(place.storage, selection, direct=False)
        return
    yield from find(place, direct=not recursive).items


def upload(source: str, place: Place, tally: Tally) -> bool:
    """Send a file, a folder's contents, or a pattern's files, to *place*.

    Returns whether it was a single file.

    A single file gets the place's name, or its own below it where the place ends with a slash.

    Raises:
        InvalidError: there is no such file, or it cannot be read.
        ServiceError: the storage refuses or stays away.
    """
    _no_wildcards(place)
    path = Path(source)
    if os.path.isfile(path):  # noqa: PTH113 - too long a name is no file
        name = f"{place.folder}{path.name}" if place.path.endswith("/") or not place.path else place.path.strip("/")
        files = iter([(local_file(path, path.name), blob_name("", name))])
        _send(files, place.storage, name, tally)
        return True
    if os.path.isdir(path):  # noqa: PTH112
        found = ((file, blob_name(place.folder, file.relative)) for file in walk(path))
    elif has_wildcards(source):
        found = ((file, blob_name(place.folder, file.relative)) for file in _local_matches(source))
    else:
        raise InvalidError(f"There is no file or folder {source}.")
    _send(found, place.storage, place.folder, tally)
    if tally.files == 0:
        raise InvalidError(
            f"There are no files in {source}.",
            hint="Blob Storage has no folders: an empty one is nothing.",
        )
    return False


def _local_matches(source: str) -> Iterator[LocalFile]:
    selection = select(source)
    folder = Path(selection.folder or ".")
    if folder.is_dir():
        yield from walk(folder, lambda relative: selection.relative(selection.folder + relative) is not None)


def _send(files: Iterator[tuple[LocalFile, str]], storage: Storage, prefix: str, tally: Tally) -> None:
    lookup = Lookup(storage, prefix)

    def jobs() -> Iterator[tuple[LocalFile, str, Entry | None]]:
        for file, name in files:
            tally.add(files=1, size=file.size)
            yield file, name, lookup.find(name)
        tally.counted = True

    _in_lanes(
        jobs(),
        lambda job, lanes: send_file(job[0], job[1], job[2], storage=storage, lanes=lanes, tally=tally),
    )


def download(place: Place, target: Path, tally: Tally, *, folder_wanted: bool) -> None:
    """Fetch a blob, a folder's contents, or what a pattern names, to *target*.

    A single blob gets the target's name, or its own below it where *folder_wanted* or where the target is a folder.

    Raises:
        InvalidError: a name cannot be a file's here, or a file cannot be written.
        ServiceError: there is nothing, the storage refuses, or a checksum does not fit.
    """
    found = find(place)
    if found.single and not folder_wanted and not target.is_dir():
        pairs = ((entry, target) for _, entry in found.items)
    else:
        pairs = ((entry, target / safe_relative(relative)) for relative, entry in found.items)

    def jobs() -> Iterator[tuple[Entry, Path]]:
        for entry, path in pairs:
            tally.add(files=1, size=entry.size)
            yield entry, path
        tally.counted = True

    _in_lanes(jobs(), lambda job, lanes: receive_file(job[0], place.storage, job[1], lanes=lanes, tally=tally))


def copy(source: Place, target: Place, tally: Tally) -> bool:
    """Copy a blob, a folder's contents, or a pattern's blobs, to *target*.

    Returns whether it was a single blob.

    Raises:
        InvalidError: it would be copied into itself.
        ServiceError: there is nothing, a storage refuses, or a checksum does not fit.
    """
    _no_wildcards(target)
    found = find(source)
    selection = select(source.path)
    if found.single:
        own = selection.name or ""
        whole = target.path.endswith("/") or not target.path
        prefix = target.folder + own.rpartition("/")[2] if whole else target.path.strip("/")
        pairs = ((entry, prefix) for _, entry in found.items)
        into_itself = prefix == own
    else:
        prefix = target.folder
        pairs = ((entry, blob_name(target.folder, relative)) for relative, entry in found.items)
        into_itself = prefix.startswith(selection.prefix) or selection.prefix.startswith(prefix)
    if into_itself and source.storage.place == target.storage.place:
        raise InvalidError(
            f"{source.address} cannot be copied to {target.address}: one is inside the other.",
            hint="Copy it to a folder next to it.",
        )
    lookup = Lookup(target.storage, prefix)

    def jobs() -> Iterator[tuple[Entry, str, Entry | None]]:
        for entry, name in pairs:
            tally.add(files=1, size=entry.size)
            yield entry, name, lookup.find(name)
        tally.counted = True

    _in_lanes(
        jobs(),
        lambda job, lanes: copy_blob(
            job[0], source.storage, job[1], job[2], storage=target.storage, lanes=lanes, tally=tally
        ),
    )
    return found.single


def check_removal(place: Place, *, recursive: bool) -> None:
    """Refuse a removal of more than single blobs that was not asked for.

    Raises:
        InvalidError: the place is a folder or a container, and *recursive* is not given.
        ServiceError: there is nothing.
    """
    if recursive:
        return
    selection = select(place.path)
    if not selection.prefix and selection.name is None:
        raise InvalidError(
            f"{place.address} means everything in the container {place.storage.place}.",
            hint="Give a path; or --recursive, if that is what you want.",
        )
    if selection.pattern is None and not find(place).single:
        raise InvalidError(
            f"{place.address} is a folder: nothing was removed.", hint="Give --recursive to remove all of it."
        )


def remove(place: Place, tally: Tally, *, recursive: bool) -> None:
    """Delete what *place* means; see :func:`check_removal`.

    Raises:
        ServiceError: there is nothing, or the storage refuses.
    """
    found = find(place, direct=not recursive)

    def jobs() -> Iterator[Entry]:
        for _, entry in found.items:
            tally.add(files=1, size=entry.size)
            yield entry
        tally.counted = True

    def delete(entry: Entry, _lanes: Lanes) -> None:
        place.storage.delete(entry.name)
        tally.add(sent_files=1, sent_bytes=entry.size)

    _in_lanes(jobs(), delete)


def count(place: Place, *, recursive: bool) -> tuple[int, int]:
    """Return how many blobs *place* means, and their bytes."""
    files = size = 0
    for _, entry in find(place, direct=not recursive).items:
        files, size = files + 1, size + entry.size
    return files, size


def _no_wildcards(place: Place) -> None:
    if has_wildcards(place.path):
        raise InvalidError(
            f"{place.address}: what is written to has no wildcards.", hint="Name the folder or the blob."
        )


def _in_lanes(jobs: Iterator[_Job], work: Callable[[_Job, Lanes], None]) -> None:
    lanes = Lanes()
    try:
        Workers[_Job](lambda job: work(job, lanes), WORKERS).run(jobs)
    finally:
        lanes.close()
