"""Selections of files under a folder: tests, code snapshots. Hashed and packed.

The order is that of the paths' UTF-8 bytes; times and owners never count.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import stat
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final, Literal, Self, cast

import pathspec

from aml_train.core.boundary import boundaries, is_inside, of_the_kernel
from aml_train.core.errors import Fault, InvalidError

GIT_IGNORE_FILES: Final = (".gitignore",)
IGNORE_FILES: Final = (".amlignore", ".gitignore")
"""In each folder the first of these that exists counts. That ``.amlignore`` goes first is azure-ai-ml's rule
(``azure.ai.ml._utils._asset_utils.get_ignore_file``, 1.34.1), which looks in the topmost folder only."""

SECRETS: Final = (
    ".env",
    ".env.*",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    ".envrc",
    "*.pem",
    "*.key",
    "*.pfx",
    "*.p12",
    "*.ppk",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    ".azure/",
    ".aws/",
    ".ssh/",
    ".gnupg/",
    ".kube/",
    ".kaggle/",
    ".docker/config.json",
    ".dockercfg",
    ".config/gcloud/",
    ".databrickscfg",
    ".boto",
    ".s3cfg",
    ".streamlit/secrets.toml",
    ".vault-token",
    "kaggle.json",
    "azureauth.json",
    "terraform.tfstate",
    "terraform.tfstate.*",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
)
"""Files that are left out unless the caller says otherwise, in gitignore style."""

CACHES: Final = (
    "__pycache__/",
    "*.py[co]",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".hypothesis/",
    ".nox/",
    ".tox/",
    ".venv/",
    ".ipynb_checkpoints/",
    ".hg/",
    ".svn/",
    ".DS_Store",
)
"""Files that tools leave behind and make again; left out unless the caller says otherwise."""

FileId = tuple[int, int]
"""A file whatever its name is: its device and its inode."""

_CHUNK: Final = 1 << 20
_TEST_FILE: Final = re.compile(r"(test_.*|.*_test|conftest)\.py")
"""File names that pytest collects (https://docs.pytest.org/en/stable/reference/reference.html#confval-python_files)."""

_TEST_FOLDERS: Final = ("test", "tests")


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One file of a selection.

    Attributes:
        path: relative to the root, with ``/``.
        executable: whether its owner may execute it.
        size: bytes; zero for a link.
        link: the target of a symbolic link, as it is written; None for a file.
    """

    path: str
    executable: bool
    size: int
    link: str | None = None


@dataclass(frozen=True, kw_only=True, order=True)
class KeptOut:
    """A test file or a folder of tests that an ignore file keeps out of a selection.

    Attributes:
        path: relative to the root; a folder ends with ``/``.
        ignore_file: the file that says so, relative to the root.
        line: where in it, from one.
    """

    path: str
    ignore_file: str
    line: int

    def __str__(self) -> str:
        return f"{self.path} ({self.ignore_file}:{self.line})"


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """Files under *root*, in order.

    Contents are read only when they are hashed or packed.

    Of a file that has grown since it was selected, the bytes that it had then count: another program may be writing a log.

    Attributes:
        root: a folder.
        entries: the files.
        kept_out: tests that ignore files keep out, in order; no part of the identity.
    """

    root: Path
    entries: tuple[FileEntry, ...]
    kept_out: tuple[KeptOut, ...] = field(default=(), compare=False)

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
            own: files that this process writes to, which do not belong.

        Raises:
            InvalidError: if *root* is no folder; if a kept link leaves it or points to nothing; if a followed link leads
                out of *within*, into git's data or to the kernel's; if followed links run in a circle; if there are
                devices, sockets or pipes; if a name or an ignore file is not UTF-8; if something cannot be read.
        """
        if not root.is_dir():
            raise InvalidError(f"{root} is not a folder")
        walker = _Walker(
            root, tuple(patterns), tuple(ignore_files), nested, tuple(leave_out), links, within, frozenset(own)
        )
        entries = sorted(walker.walk(), key=lambda entry: entry.path.encode())
        return cls(root=root, entries=tuple(entries), kept_out=tuple(sorted(walker.kept_out)))

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
            own: files that this process writes to.
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
            raise _unreadable(self._path, error) from error

    def read(self, size: int = -1) -> bytes:
        """Return at most *size* bytes; none at the end, where the whole is checked.

        Raises:
            InvalidError: it cannot be read, or is not what it was.
        """
        wanted = self._left if size < 0 else min(size, self._left)
        try:
            data = self._file.read(wanted) if wanted else b""
        except OSError as error:
            raise _unreadable(self._path, error) from error
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


def _unreadable(path: Path, error: OSError) -> InvalidError:
    remedy = "make it readable, or list it in .amlignore, and for the tests in .gitignore"
    return InvalidError([Fault(where=str(path), what=f"it cannot be read: {error.strerror}", remedy=remedy)])


def _tar_info(name: str, mode: int, *, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    """Return an entry whose metadata says nothing of this machine."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime, info.uid, info.gid = kind, mode, 0, 0, 0
    return info


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """An ignore file's rules.

    They are about paths from its own folder: without *strip*, and with *above* before them.

    *file* is the ignore file, relative to the root of the selection, and *lines* the line of each rule in it.
    """

    spec: pathspec.PathSpec[Any]
    file: str
    lines: tuple[int, ...]
    strip: str
    above: str = ""


class _Walker:
    """One walk over a tree, with the ignore files that hold where it is."""

    def __init__(
        self,
        root: Path,
        patterns: tuple[str, ...],
        ignore_files: tuple[str, ...],
        nested: bool,
        leave_out: tuple[str, ...],
        links: Literal["keep", "follow"],
        within: tuple[Path, ...],
        own: frozenset[FileId],
    ) -> None:
        self.root = root
        self.real_root = root.resolve()
        self.wanted = _spec(patterns, git=True) if patterns else None
        self.named = tuple(pattern.strip("/").removesuffix("/**") for pattern in patterns)
        self.kept_out: list[KeptOut] = []
        self.leave_out = _spec(leave_out, git=True)
        self.ignore_files = ignore_files
        self.nested = nested
        self.links = links
        self.within = within
        self.own = own

    def walk(self) -> Iterator[FileEntry]:
        """Yield the entries in no order."""
        yield from self._folder(self.root, "", self._rules_above() if self.nested else (), (self.real_root,))

    def _rules_above(self) -> tuple[_Rules, ...]:
        """Return the ignore files between the repository's top and the root.

        None outside one.
        """
        folders = self.real_root.parents
        top = next((number for number, folder in enumerate(folders) if (folder / ".git").exists()), None)
        if top is None or (self.real_root / ".git").exists():
            return ()
        rules: tuple[_Rules, ...] = ()
        for folder in reversed(folders[: top + 1]):
            above = f"{self.real_root.relative_to(folder).as_posix()}/"
            own = self._ignore_file(folder, lead="../" * above.count("/"))
            if own is not None and own.spec.check_file(above).include:
                return ()  # the root itself is ignored, and was selected all the same
            if own is not None:
                rules = (*rules, replace(own, above=above))
        return rules

    def _folder(
        self, folder: Path, lead: str, rules: tuple[_Rules, ...], above: tuple[Path, ...]
    ) -> Iterator[FileEntry]:
        if (self.nested or not lead) and (own := self._ignore_file(folder, lead=lead)) is not None:
            rules = (*rules, replace(own, strip=lead))
        for item in _listed(folder):
            path = lead + item.name
            if item.name == ".git":
                continue
            follow = self.links == "follow"
            if item.is_symlink() and follow and not self._follows(path, rules):
                continue
            if item.is_dir(follow_symlinks=follow):
                if self.leave_out.check_file(path + "/").include:
                    continue
                if self.nested and (rule := self._ignored(path + "/", rules)) is not None:
                    self._note_folder(path, rule)
                    continue
                here = Path(item.path).resolve() if item.is_symlink() else above[-1] / item.name
                if here in above:
                    raise self._fault(path, "its link leads back to a folder above it")
                yield from self._folder(Path(item.path), path + "/", rules, (*above, here))
                continue
            if self.leave_out.check_file(path).include:
                continue
            if self.wanted is not None and not self.wanted.check_file(path).include:
                continue
            if (rule := self._ignored(path, rules)) is not None:
                self._note_file(path, rule)
                continue
            if (entry := self._entry(item, path)) is not None:
                yield entry

    def _follows(self, path: str, rules: tuple[_Rules, ...]) -> bool:
        """Return whether the link at *path* belongs to the selection.

        Raises:
            InvalidError: it does, and leads to what must not be sent.
        """
        names = (path, path + "/")  # whether it leads to a folder is not looked at
        decided = [self.leave_out.check_file(name).include for name in names]
        if any(decided) or (self.wanted is not None and not any(self.wanted.match_file(name) for name in names)):
            return False
        ignored = any(self._ignored(name, rules) for name in names)
        try:
            real = self._target(path)
        except InvalidError:
            if ignored:
                return False
            raise
        if any(one is False for one in decided):
            return True  # it is included by its own name, whatever that of its target
        place = self._place(real)
        return place is None or not any(self.leave_out.match_file(f"{place.as_posix()}{end}") for end in ("", "/"))

    def _note_file(self, path: str, rule: tuple[str, int]) -> None:
        if _TEST_FILE.fullmatch(path.rpartition("/")[2]) or path in self.named:
            self.kept_out.append(KeptOut(path=path, ignore_file=rule[0], line=rule[1]))

    def _note_folder(self, path: str, rule: tuple[str, int]) -> None:
        """Note an ignored folder that is not entered.

        One of tests by name, or of a pattern.
        """
        wanted = any(name == path or name.startswith(f"{path}/") for name in self.named)
        if wanted or path.rpartition("/")[2] in _TEST_FOLDERS:
            self.kept_out.append(KeptOut(path=f"{path}/", ignore_file=rule[0], line=rule[1]))

    def _ignore_file(self, folder: Path, *, lead: str) -> _Rules | None:
        """Return the rules of *folder*'s own ignore file, or None.

        *lead* is the path to it from the root."""
        for name in self.ignore_files:
            file = folder / name
            if file.is_file():
                try:
                    lines = file.read_text(encoding="utf-8-sig").splitlines()
                except UnicodeDecodeError as error:
                    raise self._fault(str(file.absolute()), "it is not UTF-8") from error
                except OSError as error:
                    raise _unreadable(file.absolute(), error) from error
                # pathspec passes over empty lines.
                numbered = [(number, line) for number, line in enumerate(lines, 1) if line and _is_pattern(line)]
                spec = _spec([line for _, line in numbered], git=self.nested)
                return _Rules(spec=spec, file=lead + name, lines=tuple(number for number, _ in numbered), strip="")
        return None

    @staticmethod
    def _ignored(path: str, rules: tuple[_Rules, ...]) -> tuple[str, int] | None:
        """Return file and line of the rule that ignores *path*.

        The innermost file decides.
        """
        for rule in reversed(rules):
            found = rule.spec.check_file(rule.above + path.removeprefix(rule.strip))
            if found.include is not None:
                return (rule.file, rule.lines[found.index or 0]) if found.include else None
        return None

    def _entry(self, item: os.DirEntry[str], path: str) -> FileEntry | None:
        """Return the entry of a file or a kept link.

        None for this process's output or a removed file.
        """
        try:
            path.encode()
        except UnicodeEncodeError as error:
            raise self._fault(path.encode(errors="replace").decode(), "its name is not UTF-8") from error
        if item.is_symlink() and self.links == "keep":
            return FileEntry(path=path, executable=False, size=0, link=self._kept(path))
        try:
            status = item.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(self.root / path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise self._fault(path, "it is a device, a socket or a pipe, not a file")
        if (status.st_dev, status.st_ino) in self.own:
            return None
        return FileEntry(path=path, executable=bool(status.st_mode & stat.S_IXUSR), size=status.st_size)

    def _kept(self, path: str) -> str:
        """Return the text of the link at *path*, which must lead to a path under the root."""
        text, real = self._resolved(path)
        if Path(text).is_absolute() or not real.is_relative_to(self.real_root):
            raise self._fault(path, f"it is a link to {text}, outside of {self.root}")
        return text

    def _target(self, path: str) -> Path:
        """Return what the link at *path* leads to, which must be what may be sent."""
        text, real = self._resolved(path)
        copied = "copy what it leads to in its place"
        if of_the_kernel(real):
            raise self._fault(path, f"it is a link to {text}, which is the kernel's", copied)
        if self.within and not is_inside(real, self.within):
            raise self._fault(path, f"it is a link to {text}, outside of {self.within[-1]}", copied)
        if ".git" in (self._place(real) or real).parts:
            raise self._fault(path, f"it is a link to {text}, into git's own data", copied)
        return real

    def _place(self, real: Path) -> Path | None:
        """Return *real* relative to the folders that links may lead to.

        None without such a bound.
        """
        return next((real.relative_to(folder) for folder in self.within if real.is_relative_to(folder)), None)

    def _resolved(self, path: str) -> tuple[str, Path]:
        """Return the text of the link at *path*, and what it leads to."""
        link = self.root / path
        text = os.readlink(link)  # noqa: PTH115 - the text as it is written, not as a path
        try:
            return text, link.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise self._fault(path, f"it is a link to {Path(text)}, which is not there") from error

    def _fault(self, path: str, what: str, remedy: str = "remove it") -> InvalidError:
        remedy = f"{remedy}, or list it in {self.ignore_files[0]}" if self.ignore_files else remedy
        return InvalidError([Fault(where=str(self.root / path), what=what, remedy=remedy)])


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda item: item.name)
    except OSError as error:
        raise _unreadable(folder, error) from error


def _is_pattern(line: str) -> bool:
    """Return whether a line of an ignore file can be used.

    Git skips ``[z-a]`` and ``!``.
    """
    try:
        pathspec.GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


def _spec(lines: Sequence[str], *, git: bool) -> pathspec.PathSpec[Any]:
    """Return *lines* as rules.

    Git's own, or azure-ai-ml's, where the last match decides.
    """
    if git:
        return pathspec.GitIgnoreSpec.from_lines(lines)
    # Its name until pathspec 1.0, with which azureml-core does not get along.
    known = "gitignore" if hasattr(pathspec.patterns, "gitignore") else "gitwildmatch"
    return pathspec.PathSpec.from_lines(known, lines)
