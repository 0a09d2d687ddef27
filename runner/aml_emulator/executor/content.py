"""The content of a job's container before its command, and its results afterwards."""

from __future__ import annotations

import contextlib
import os
import re
import tarfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from aml_emulator.executor import archive, launch, layout
from aml_emulator.executor.archive import Capture, ChunkReader, ContentError
from aml_emulator.executor.layout import Layout, UnsafePathError
from aml_emulator.executor.spec import BlobStore, InputSpec, RunSink, RunSpec

_WILD = re.compile(r"[*?]")
#: Bytes of the working folder that are looked through for files that the job loses.
_MOST_LOOKED_THROUGH = 2 << 30


def split_glob(path: str) -> tuple[str, str | None]:
    """Return the folder before the first wildcard, and the pattern below it or None."""
    parts = path.split("/")
    first = next((at for at, part in enumerate(parts) if _WILD.search(part)), None)
    if first is None:
        return path, None
    return "/".join(parts[:first]), "/".join(parts[first:])


def matcher(pattern: str | None) -> Callable[[str], bool]:
    """Return a function that matches relative paths; all match without *pattern*."""
    if pattern is None:
        return lambda _path: True
    parts = [_part(part) for part in pattern.split("/")]
    regex = re.compile("".join(parts[:-1]) + _last(pattern.rpartition("/")[2]))
    return lambda path: regex.fullmatch(path) is not None


def _part(part: str) -> str:
    return r"(?:[^/]+/)*" if part == "**" else _name(part) + "/"


def _last(part: str) -> str:
    return r".+" if part == "**" else _name(part)


def _name(part: str) -> str:
    return "".join({"*": "[^/]*", "?": "[^/]"}.get(letter, re.escape(letter)) for letter in part)


PYTHON_FILES = {
    "aml_parallel_run.py": Path(__file__).with_name("parallel_run.py"),
    "aml_run_flush.py": Path(__file__).with_name("run_flush.py"),
    "sitecustomize.py": Path(__file__).with_name("run_flush_site.py"),
}
"""The files that every Python of a job loads at start: name there → file here."""

Get = Callable[[str], Generator[bytes, None, None] | None]
"""Gives a path of the container as a tar stream, or None where there is nothing."""


class Content:
    """The files of one run's containers."""

    def __init__(self, spec: RunSpec, *, blobs: BlobStore) -> None:
        self._spec = spec
        self._blobs = blobs
        self._plan = Layout(run_id=spec.run_id)
        self._placed: dict[str, set[str]] = {}

    def entries(self, ca_bundle: bytes, files: Mapping[str, IO[bytes]]) -> Iterator[archive.Entry]:
        """Yield what is copied into the container before it starts.

        Args:
            ca_bundle: the authorities that the job trusts, PEM.
            files: the inputs that were downloaded, by name.

        Raises:
            ContentError: something is not stored; the message names the input.
        """
        yield archive.file_entry(layout.CA_BUNDLE_PATH, ca_bundle)
        for path in self._plan.folders(self._spec):
            yield archive.folder_entry(path)
        for name, source in PYTHON_FILES.items():
            yield archive.file_entry(f"{launch.PYTHON_FOLDER}/{name}", source.read_bytes())
        if self._spec.code is not None:
            yield from archive.blob_entries(self._blobs, self._spec.code, self._plan.working_directory)
        # Of an earlier attempt only what it wrote to mounted outputs is there: not outputs/ (Azure/MachineLearningNotebooks#1575).
        for output in self._spec.outputs if self._spec.attempt > 1 else ():
            place = output.location
            if output.mode == "ReadWriteMount" and any(self._blobs.walk(place.container, place.prefix)):
                single = output.kind == "uri_file"
                yield from archive.blob_entries(self._blobs, place, self._plan.output_path(output), single=single)
        for item in self._spec.inputs:
            if item.name in files:
                yield _file(self._plan.input_path(item), files[item.name])
            elif item.literal is None:
                yield from self._input(item)

    def _input(self, item: InputSpec) -> Iterator[archive.Entry]:
        if item.location is None:
            return
        target = self._plan.input_path(item)
        single = item.kind == "uri_file"
        placed = self._placed.setdefault(item.name, set())
        found = archive.blob_entries(self._blobs, item.location, target, single=single, wanted=matcher(item.pattern))
        try:
            for entry in found:
                placed.add("" if single else entry.path.removeprefix(f"{target}/"))
                yield entry
        except (ContentError, UnsafePathError) as error:
            raise ContentError(
                f"The input '{item.name}' ({item.uri or 'no address'}) cannot be read: {error}"
            ) from error

    def capture(self, nodes: Sequence[Get], sink: RunSink) -> Iterator[str]:
        """Store outputs, logs and changed inputs of a run; yield notes on problems.

        If two nodes have a file of one name, that of the later one of *nodes* stays.

        Raises:
            UnsafePathError, tarfile.TarError: as :meth:`aml_emulator.executor.archive.Capture.run`.
        """
        for name in layout.CAPTURED_FOLDERS:
            for get in nodes:
                stream = get(f"{self._plan.working_directory}/{name}")
                if stream is not None:
                    place = self._spec.artifacts
                    found = Capture(blobs=self._blobs, target=place, base=name, on_file=sink.artifact)
                    yield from found.run(stream)
        for item in self._spec.outputs:
            if item.mode != "Direct":
                written = False
                for get in nodes:
                    stream = get(self._plan.output_path(item))
                    if stream is not None:
                        written = True
                        found = Capture(blobs=self._blobs, target=item.location, on_file=_unrecorded)
                        yield from found.run(stream)
                if not written:
                    yield f"The output {item.name} was not written by the job."
                    continue
            sink.output(item.name)
        yield from self._write_back(nodes)

    def unkept(self, nodes: Sequence[Get]) -> dict[str, int]:
        """Return the files that the command left in its folder, where nobody finds them again: path → bytes.

        The first 2 GiB of each node's folder are looked through. The engine's list of changes would name all of them, but
        for it the engine compares every file of the image, which takes many seconds for a large one.

        Raises:
            tarfile.TarError: an archive is damaged or cut short.
        """
        code, sent = self._spec.code, set[str]()
        if code is not None:
            sent = {entry.name for entry in self._blobs.walk(code.container, code.prefix)}
        lost: dict[str, int] = {}
        for get in nodes:
            stream = get(self._plan.working_directory)
            if stream is None:
                continue
            with contextlib.closing(stream), tarfile.open(fileobj=ChunkReader(stream), mode="r|") as members:
                for member in members:
                    path = member.name.partition("/")[2]
                    hidden = any(part.startswith((".", "__pycache__")) for part in path.split("/"))
                    kept = path in sent or path.partition("/")[0] in layout.CAPTURED_FOLDERS
                    if member.isreg() and not (hidden or kept):
                        lost[path] = member.size
                    if member.offset_data + member.size > _MOST_LOOKED_THROUGH:
                        break
        return lost

    def _write_back(self, nodes: Sequence[Get]) -> list[str]:
        """Store changed files of inputs of the mode ``ReadWriteMount``; return notes.

        Files that were put there and are gone from any node are deleted from storage as well, where this process put them.
        """
        notes: list[str] = []
        for item in self._spec.inputs:
            if item.mode != "ReadWriteMount" or item.location is None or item.literal is not None:
                continue
            kept, changed = self._placed.get(item.name, set()), set[str]()
            for get in nodes:
                seen: set[str] = set()
                stream = get(self._plan.input_path(item))
                if stream is not None:
                    found = Capture(
                        blobs=self._blobs,
                        target=item.location,
                        on_file=lambda path, _size, changed=changed: changed.add(path),  # type: ignore[misc]
                        skip=lambda path, member, seen=seen: _unchanged(path, member, seen),  # type: ignore[misc]
                    )
                    notes += found.run(stream)
                kept = kept & seen
            if item.name not in self._placed:
                notes.append(
                    f"Files of the input {item.name} that the job deleted stay: the emulator was restarted meanwhile."
                )
            for path in self._placed.get(item.name, set()) - kept - changed:
                name = item.location.name_of(path) if path else item.location.prefix.strip("/")
                self._blobs.delete_prefix(item.location.container, name)
        return notes


def _unrecorded(_path: str, _size: int) -> None:
    """Files of outputs and inputs are no artefacts of the run."""


def _unchanged(path: str, member: tarfile.TarInfo, seen: set[str]) -> bool:
    """Return whether a file is unchanged, and remember it: our archives have time 0."""
    seen.add(path)
    return member.isreg() and member.mtime == 0


def _file(path: str, file: IO[bytes]) -> archive.Entry:
    def read() -> Iterator[bytes]:
        file.seek(0)
        while chunk := file.read(archive.SMALL_BYTES):
            yield chunk

    return archive.Entry(path=path, mode=0o755, size=os.fstat(file.fileno()).st_size, read=read)
