"""List, upload, download, copy and delete any number of files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from aml_train.azure.blob.address import JobOutput, LocalPath, parse_address
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.globs import Selection, has_wildcards, safe_relative, select
from aml_train.azure.blob.storage import AzureBlobs, Entry
from aml_train.azure.blob.transfer import LocalFile, Tally, Transfer, for_each, local_file, walk
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.jobs.workspace import ModelView

_Thing = TypeVar("_Thing", LocalFile, Entry)
_Goal = TypeVar("_Goal")


@dataclass(frozen=True, kw_only=True)
class Found:
    """The blobs of a path, each with its relative path; *single* for one by its name."""

    single: bool
    items: Iterator[tuple[str, Entry]]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A path in a container. *address* is how the user named it, for messages.

    With *literal*, wildcards in the path are ordinary characters.

    Methods raise ServiceError if there is nothing at the path, and if the storage refuses or does not answer.
    """

    storage: AzureBlobs
    path: str
    address: str
    literal: bool = False

    @property
    def folder(self) -> str:
        """The path as a folder: with a slash at its end, or empty for the container."""
        stripped = self.path.strip("/")
        return f"{stripped}/" if stripped else ""

    def find(self, *, direct: bool = False) -> Found:
        """Return the blobs that are meant, in the order of the listing.

        The path is a blob, a folder or a pattern; *direct* leaves out blobs in folders that a pattern matches.

        Raises:
            InvalidError: the pattern is none.
        """
        selection = select(self.path, literal=self.literal)
        if selection.name is not None and (entry := self.storage.find(selection.name)) is not None:
            return Found(single=True, items=iter([(selection.name.rpartition("/")[2], entry)]))
        items = self._matching(selection, direct=direct)
        first = next(items, None)
        if first is None:
            raise ServiceError(
                f"There is nothing at {self.address} ({self.storage.place}).",
                hint="Look around with: aml-train data ls",
            )
        return Found(single=False, items=itertools.chain([first], items))

    def _matching(self, selection: Selection, *, direct: bool) -> Iterator[tuple[str, Entry]]:
        for entry in self.storage.walk(selection.prefix):
            relative = selection.relative(entry.name)
            if relative is not None and (not direct or selection.names(relative)):
                yield relative, entry

    def listing(self, *, recursive: bool) -> Iterator[tuple[str, Entry | None]]:
        """Yield names relative to the folder; a folder's name ends with a slash.

        An empty container has none, and is no error.
        """
        selection = select(self.path, literal=self.literal)
        if not selection.parts and not recursive:
            found = False
            if selection.name is not None and (entry := self.storage.find(selection.name)) is not None:
                yield selection.name.rpartition("/")[2], entry
                return
            for item in self.storage.level(selection.folder):
                found = True
                if isinstance(item, str):
                    yield item[len(selection.folder) :], None
                else:
                    yield item.name[len(selection.folder) :], item
            if found or not selection.folder:
                return
        if not selection.prefix and not selection.parts:
            yield from self._matching(selection, direct=False)
            return
        yield from self.find(direct=not recursive).items

    def upload(self, source: str, tally: Tally) -> bool:
        """Send a file, a folder's contents, or a pattern's files; return whether one file.

        A single file gets the place's name, or its own below it where the place ends with a slash.

        Raises:
            InvalidError: there is no such file, or it cannot be read.
        """
        self._check_no_wildcards()
        path = Path(source)
        if os.path.isfile(path):  # noqa: PTH113 - too long a name is no file
            name = f"{self.folder}{path.name}" if self.path.endswith("/") or not self.path else self.path.strip("/")
            self._send(iter([(local_file(path, path.name), name)]), tally)
            return True
        if os.path.isdir(path):  # noqa: PTH112
            files = walk(path)
        elif has_wildcards(source):
            files = _local_matches(source)
        else:
            raise InvalidError(f"There is no file or folder {source}.")
        self._send(((file, self.folder + file.relative) for file in files), tally)
        if tally.files == 0:
            raise InvalidError(
                f"There are no files in {source}.",
                hint="Blob Storage has no folders: an empty one is nothing.",
            )
        return False

    def _send(self, files: Iterator[tuple[LocalFile, str]], tally: Tally) -> None:
        _transfer(files, lambda transfer, file, name: transfer.send(file, name, self.storage), tally)

    def download(self, target: Path, tally: Tally, *, folder_wanted: bool) -> None:
        """Fetch a blob, a folder's contents, or what a pattern names, to *target*.

        A single blob gets the target's name, or its own below it where *folder_wanted* or where the target is a folder.

        Raises:
            InvalidError: a name cannot be a file's here, or a file cannot be written.
            ServiceError: a checksum does not fit, too.
        """
        found = self.find()
        into_folder = not found.single or folder_wanted or target.is_dir()
        _transfer(
            ((entry, target / safe_relative(name) if into_folder else target) for name, entry in found.items),
            lambda transfer, entry, path: transfer.receive(entry, self.storage, path),
            tally,
        )

    def copy_to(self, target: Place, tally: Tally) -> None:
        """Copy a blob, a folder's contents, or a pattern's blobs, by this machine.

        Raises:
            InvalidError: it would be copied into itself.
        """
        target._check_no_wildcards()
        found, own = self.find(), self.path.strip("/")
        into_folder = not found.single or target.path.endswith("/") or not target.path
        whole = target.folder + own.rpartition("/")[2] if into_folder else target.path.strip("/")
        inside = (
            whole == own if found.single else target.folder.startswith(select(self.path, literal=self.literal).prefix)
        )
        if inside and self.storage.place == target.storage.place:
            raise InvalidError(f"{self.address} cannot be copied to {target.address}: one is inside the other.")
        _transfer(
            ((entry, whole if found.single else target.folder + relative) for relative, entry in found.items),
            lambda transfer, entry, name: transfer.copy(entry, self.storage, name, target.storage),
            tally,
        )

    def to_remove(self, *, recursive: bool) -> list[Entry]:
        """Return the blobs that would be deleted: all that are meant; without *recursive*, no folder's contents.

        Raises:
            InvalidError: the path is a folder or a container, and *recursive* is not given.
        """
        found = self.find(direct=not recursive)
        if not recursive and not found.single and not select(self.path, literal=self.literal).parts:
            raise InvalidError(
                f"{self.address} is a folder: nothing was deleted.", hint="Give --recursive to delete all of it."
            )
        return [entry for _, entry in found.items]

    def remove(self, entries: Iterable[Entry], tally: Tally) -> None:
        """Delete blobs."""
        _transfer(
            ((entry, None) for entry in entries),
            lambda transfer, entry, _: transfer.delete(entry, self.storage),
            tally,
        )

    def _check_no_wildcards(self) -> None:
        if has_wildcards(self.path):
            raise InvalidError(
                f"{self.address}: what is written to has no wildcards.", hint="Name the folder or the blob."
            )


def _local_matches(source: str) -> Iterator[LocalFile]:
    selection = select(source)
    folder = Path(selection.folder or ".")
    if folder.is_dir():
        yield from walk(folder, lambda relative: selection.relative(selection.folder + relative) is not None)


def _transfer(
    pairs: Iterable[tuple[_Thing, _Goal]], work: Callable[[Transfer, _Thing, _Goal], None], tally: Tally
) -> None:
    """Count each file or blob as it is found, and do its *work* in several threads."""

    def counted() -> Iterator[tuple[_Thing, _Goal]]:
        for thing, goal in pairs:
            tally.add(files=1, size=thing.size)
            yield thing, goal
        tally.counted = True

    transfer = Transfer(tally)
    for_each(lambda pair: work(transfer, *pair), counted())


def job_files(
    workspace: DataWorkspace, job: str, folder: Path, *, patterns: Sequence[str] = (), outputs: Sequence[str] = ()
) -> list[tuple[Place, Path]]:
    """Return where a job's files are, each with the folder that it is downloaded to.

    Args:
        workspace: the job's.
        job: its name.
        folder: the folder that everything goes below.
        patterns: of artefacts, or of files of the named outputs; none for all.
        outputs: named outputs, in place of the artefacts.

    Raises:
        ServiceError: there is no such job or output, or the service does not answer.
    """
    places: list[tuple[Place, Path]] = []
    for name in outputs or ("default",):
        base = folder / name if len(outputs) > 1 else folder
        for pattern in patterns or ("",):
            where = workspace.locate(JobOutput(job=job, output=name, path=pattern))
            storage = workspace.storage(where.datastore)
            place = Place(storage=storage, path=where.path, address=f"{job}: {pattern or name}")
            places.append((place, base / _kept(place, pattern)))
    return places


def _kept(place: Place, pattern: str) -> str:
    """Return the folders that downloaded files keep: those before a wildcard."""
    if not has_wildcards(pattern) and not pattern.endswith("/") and place.storage.find(place.path) is not None:
        return pattern.rpartition("/")[0]
    return select(pattern).folder.strip("/")


def model_place(workspace: DataWorkspace, path: str, title: str) -> Place:
    """Return where the files of a model version are.

    Args:
        workspace: the model's.
        path: the place that the version names, such as ``azureml://jobs/JOB/outputs/…``.
        title: the version, for messages.

    Raises:
        ServiceError: the place is none in a datastore, or the service does not answer.
    """
    address = parse_address(path)
    if isinstance(address, LocalPath):
        raise ServiceError(f"The files of {title} are at {path}, no datastore.")
    where = workspace.locate(address)
    return Place(storage=workspace.storage(where.datastore), path=where.path, address=title, literal=True)


def copy_model(source: DataWorkspace, target: DataWorkspace, model: ModelView, folder: str) -> str:
    """Copy the files of a version into *folder* of another workspace's default datastore; return their address there.

    Files that are there already are not copied again.

    Raises:
        ServiceError: there is nothing, or a storage refuses or does not answer.
    """
    title = f"{model.name} version {model.version}"
    files, datastore = model_place(source, model.path, title), target.default_datastore()
    storage, path = target.storage(datastore), f"{folder}/"
    files.copy_to(Place(storage=storage, path=path, address=title, literal=True), Tally())
    leaf = files.path.strip("/")
    return target.address(datastore, path + leaf.rpartition("/")[2] if files.storage.find(leaf) is not None else path)


def fetch_place(place: Place, folder: Path, tally: Tally) -> None:
    """Download what is at *place*, so that *folder* has exactly that.

    An earlier download that was interrupted is continued; a file of it that is not at the place any more is removed.

    Raises:
        InvalidError: a name cannot be a file's here, or a file cannot be written.
        ServiceError: there is nothing, a checksum does not fit, or the storage refuses or does not answer.
    """
    place.download(folder, tally, folder_wanted=True)
    wanted = {folder / safe_relative(name) for name, _ in place.find().items}
    for path in folder.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
