"""Selections of files under a folder: tests, code snapshots. Hashed and packed.

The order is that of the paths' UTF-8 bytes; times and owners never count.
"""

from __future__ import annotations

import functools
import hashlib
import json
import tarfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Literal, Self, cast

from aml_train.core.boundary import boundaries, is_inside
from aml_train.core.errors import InvalidError
from aml_train.core.file_selection import CACHES, IGNORE_FILES, SECRETS, FileEntry, FileId, Walker, unreadable

_CHUNK: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """Files under *root*, in order.

    Contents are read only when they are hashed or packed.

    Of a file that has grown since it was selected, the bytes that it had then count: another program may be writing a log.

    Attributes:
        root: a folder.
        entries: the files.
        secrets: paths that are left out because their names say that they are secret; no part of the identity.
    """

    root: Path
    entries: tuple[FileEntry, ...]
    secrets: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def collect(
        cls,
        root: Path,
        patterns: Sequence[str] = (),
        *,
        ignore_files: Sequence[str] = IGNORE_FILES,
        nested: bool = True,
        leave_out: Sequence[str] = (*SECRETS, *CACHES),
        links: Literal["keep", "follow"] = "keep",
        within: tuple[Path, ...] = (),
        own: Collection[FileId] = (),
    ) -> Self:
        """Select the files under *root*.

        ``.git`` never belongs.

        Args:
            root: a folder.
            patterns: gitignore style; a file must match them. Empty: every file.
            ignore_files: in each folder the first that exists decides what does not belong.
            nested: read ignore files in every folder, up to the top of the git repository that *root* is in, and leave
                an ignored folder alone, as git does; otherwise only in *root*, and a later ``!pattern`` takes files of an
                ignored folder back, as azure-ai-ml does.
            leave_out: more that does not belong, gitignore style. A followed link is also left out if what it leads to matches.
            links: keep symbolic links as links, or take what they point to.
            within: folders that followed links must lead into; empty: anywhere but to the kernel's files.
            own: the run's own files, which do not belong: what it writes, and the secrets that the configuration names.

        Raises:
            InvalidError: if *root* is no folder; if a kept link leaves it or points to nothing; if a followed link leads
                out of *within*, into git's data or to the kernel's; if followed links run in a circle; if there are
                devices, sockets or pipes; if a name or an ignore file is not UTF-8; if something cannot be read.
        """
        if not root.is_dir():
            raise InvalidError(f"{root} is not a folder")
        walker = Walker(
            root=root,
            patterns=tuple(patterns),
            ignore_files=tuple(ignore_files),
            nested=nested,
            left_out=tuple(leave_out),
            links=links,
            within=within,
            own=frozenset(own),
        )
        entries = sorted(walker.walk(), key=lambda entry: entry.path.encode())
        return cls(root=root, entries=tuple(entries), secrets=tuple(sorted(walker.secrets)))

    @classmethod
    def collect_code(
        cls,
        root: Path,
        *,
        include: Sequence[str] = (),
        leave_out: Sequence[str] = (),
        project: Path | None = None,
        own: Collection[FileId] = (),
    ) -> Self:
        """Select a job's code snapshot by azure-ai-ml's rules, without secrets and caches.

        Links are followed as far as the repository.

        Args:
            root: the code folder.
            include: what belongs to it although it is a secret, a cache or in *leave_out*, in gitignore style.
            leave_out: more that does not belong to it.
            project: the project folder, whose repository links may lead to as well.
            own: the run's own files.
        """
        rules = (*SECRETS, *CACHES, *leave_out, *(f"!{pattern}" for pattern in include))
        return cls.collect(
            root, nested=False, leave_out=rules, links="follow", within=boundaries(root, project), own=own
        )

    @classmethod
    def collect_upload(cls, root: Path, *, project: Path | None = None) -> Self:
        """Select what azure-ai-ml uploads of an input's folder.

        Its identity must cover all that is sent: no nested ignore files count, nothing is left out as a secret, and
        links are followed. Links of the repository of *project* must stay in it; a folder outside of it is its owner's.
        """
        folders = boundaries(project) if project is not None else ()
        within = folders if is_inside(root.resolve(), folders) else ()
        return cls.collect(root, nested=False, leave_out=(), links="follow", within=within)

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(entry.size for entry in self.entries)

    @functools.cached_property
    def contents(self) -> Mapping[str, str]:
        """The SHA-256 (hexadecimal) of each file's contents, without links.

        Read once: the files that are sent later must be the same.

        Raises:
            InvalidError: a file cannot be read, or is shorter than it was.
        """
        return {entry.path: self._hash(entry) for entry in self.entries if entry.link is None}

    def _hash(self, entry: FileEntry) -> str:
        with _Reader(self, entry, expected=None) as file:
            while file.read(_CHUNK):
                pass
            return file.hexdigest()

    def copy_to(self, folder: Path) -> None:
        """Copy the files, with their modes and links, into *folder*, which is made.

        Raises:
            InvalidError: a file cannot be read, or has changed since its contents were hashed.
            OSError: *folder* cannot be written to.
        """
        folder.mkdir(parents=True)
        for entry in self.entries:
            target = folder / entry.path
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.link is not None:
                target.symlink_to(entry.link)
                continue
            with target.open("wb") as copy, self.open(entry) as file:
                while data := file.read(_CHUNK):
                    copy.write(data)
            target.chmod(0o755 if entry.executable else 0o644)

    def open(self, entry: FileEntry) -> _Reader:
        """Open a file of the selection; reading it to its end checks its hash."""
        return _Reader(self, entry, expected=self.contents[entry.path])

    def digest(self) -> str:
        """Return a SHA-256 (hexadecimal) over paths, modes, links and contents."""
        whole = hashlib.sha256(b"aml-train files 1\n")
        for entry in self.entries:
            line = [entry.path, "x" if entry.executable else "-", entry.link, self.contents.get(entry.path)]
            whole.update(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        return whole.hexdigest()

    def tar(self, target: IO[bytes], *, prefix: str = "", folder_mode: int = 0o755) -> None:
        """Write a tar archive whose bytes depend on the selection alone.

        Args:
            target: where to.
            prefix: a folder in the archive, without slashes at its ends; it is there even if nothing is in it.
            folder_mode: mode of the folders.

        Raises:
            InvalidError: a file cannot be read, or has changed since its contents were hashed.
        """
        lead = f"{prefix}/" if prefix else ""
        folders: set[str] = set()
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
            if prefix and not self.entries:
                archive.addfile(_tar_info(prefix, folder_mode, kind=tarfile.DIRTYPE))
            for entry in self.entries:
                for folder in reversed(Path(lead + entry.path).parents[:-1]):
                    if folder.as_posix() not in folders:
                        folders.add(folder.as_posix())
                        archive.addfile(_tar_info(folder.as_posix(), folder_mode, kind=tarfile.DIRTYPE))
                if entry.link is not None:
                    info = _tar_info(lead + entry.path, 0o777, kind=tarfile.SYMTYPE)
                    info.linkname = entry.link
                    archive.addfile(info)
                    continue
                info = _tar_info(lead + entry.path, 0o755 if entry.executable else 0o644)
                info.size = entry.size
                with self.open(entry) as file:
                    archive.addfile(info, cast("IO[bytes]", file))  # of a file it reads only
                    file.read(_CHUNK)


class _Reader:
    """A file of a selection, bounded by its size when it was selected.

    Hashes while it reads.

    Args:
        files: the selection.
        entry: the file.
        expected: SHA-256 of its contents, hexadecimal, which its end is checked by; None where it is not known yet.
    """

    def __init__(self, files: FileSet, entry: FileEntry, *, expected: str | None) -> None:
        self._path = files.root / entry.path
        self._left = entry.size
        self._expected = expected
        self._hash = hashlib.sha256()
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:
            raise changed(self._path) from None
        except OSError as error:
            raise unreadable(self._path, error) from error

    def read(self, size: int = -1) -> bytes:
        """Return at most *size* bytes; none at the end, where the whole is checked.

        Raises:
            InvalidError: it cannot be read, or is not what it was.
        """
        wanted = self._left if size < 0 else min(size, self._left)
        try:
            data = self._file.read(wanted) if wanted else b""
        except OSError as error:
            raise unreadable(self._path, error) from error
        if len(data) < wanted:
            raise changed(self._path)
        self._hash.update(data)
        self._left -= len(data)
        if not self._left and self._expected not in (None, self.hexdigest()):
            raise changed(self._path)
        return data

    def hexdigest(self) -> str:
        """Return the SHA-256 of what was read, hexadecimal."""
        return self._hash.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()


def changed(path: Path) -> InvalidError:
    """Return the complaint about a file that is not what it was when the run began."""
    lines = f".amlignore, and for the tests into .gitignore: /{path.name}"
    hint = f"Run again. A file that other programs write to belongs into {lines}"
    return InvalidError(f"{path} changed while it was read", hint=hint)


def _tar_info(name: str, mode: int, *, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    """Return an entry whose metadata says nothing of this machine."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime, info.uid, info.gid = kind, mode, 0, 0, 0
    return info
