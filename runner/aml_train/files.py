"""A selection of the files under a folder: the tests' files, a code snapshot. Deterministic, hashed, packed.

The order is that of the paths' UTF-8 bytes; times and owners never count.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal, Self

import pathspec

from aml_train.errors import Fault, InvalidError

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
"""What is left out unless the caller says otherwise, in gitignore style."""

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
"""What tools leave behind and make anew; left out unless the caller says otherwise."""

_CHUNK: Final = 1 << 20


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


@dataclass(frozen=True, kw_only=True)
class FileSet:
    """Files under *root*, in order. Contents are read when they are hashed or packed, not before."""

    root: Path
    entries: tuple[FileEntry, ...]

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
            leave_out: more that does not belong, gitignore style.
            links: keep symbolic links as links, or take what they point to.

        Raises:
            InvalidError: if *root* is no folder; if a kept link leaves it or points to nothing; if followed links
                run in a circle; if there are devices, sockets or pipes; if a name or an ignore file is not UTF-8.
        """
        if not root.is_dir():
            raise InvalidError(f"{root} is not a folder")
        walker = _Walker(root, tuple(patterns), tuple(ignore_files), nested, tuple(leave_out), links)
        entries = sorted(walker.walk(), key=lambda entry: entry.path.encode())
        return cls(root=root, entries=tuple(entries))

    @classmethod
    def collect_code(cls, root: Path, *, include: Sequence[str] = ()) -> Self:
        """Select the files of a job's code snapshot: by azure-ai-ml's rules, without ``.git``, secrets and caches.

        *include* names secrets and caches that belong to it all the same, in gitignore style.
        """
        leave_out = (*SECRETS, *CACHES, *(f"!{pattern}" for pattern in include))
        return cls.collect(root, nested=False, leave_out=leave_out, links="follow")

    @classmethod
    def collect_upload(cls, root: Path) -> Self:
        """Select what azure-ai-ml uploads of an input's folder.

        Its identity must cover all that is sent: no nested ignore files count, nothing is left out as a secret, and
        links are followed.
        """
        return cls.collect(root, nested=False, leave_out=(), links="follow")

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(entry.size for entry in self.entries)

    def copy_to(self, folder: Path) -> None:
        """Copy the files, with their modes and links, into *folder*, which is made."""
        folder.mkdir(parents=True)
        for entry in self.entries:
            target = folder / entry.path
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.link is not None:
                target.symlink_to(entry.link)
            else:
                shutil.copyfile(self.root / entry.path, target)
                target.chmod(0o755 if entry.executable else 0o644)

    def digest(self) -> str:
        """Return a SHA-256 (hexadecimal) over paths, modes, links and contents."""
        whole = hashlib.sha256(b"aml-train files 1\n")
        for entry in self.entries:
            content = None
            if entry.link is None:
                part = hashlib.sha256()
                with (self.root / entry.path).open("rb") as file:
                    while chunk := file.read(_CHUNK):
                        part.update(chunk)
                content = part.hexdigest()
            line = [entry.path, "x" if entry.executable else "-", entry.link, content]
            whole.update(json.dumps(line, separators=(",", ":")).encode() + b"\n")
        return whole.hexdigest()

    def tar(self, target: IO[bytes], *, prefix: str = "", folder_mode: int = 0o755) -> None:
        """Write a tar archive: the same bytes for the same selection, whoever owns the files and whenever they changed.

        Args:
            target: where to.
            prefix: a folder in the archive, without slashes at its ends; it is there even if nothing is in it.
            folder_mode: mode of the folders.

        Raises:
            InvalidError: if a file changed its size since it was selected.
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
                with (self.root / entry.path).open("rb") as file:
                    if os.fstat(file.fileno()).st_size != entry.size:
                        raise InvalidError(f"{self.root / entry.path} changed while it was read", hint="Run again.")
                    archive.addfile(info, file)

    def tar_bytes(self, *, prefix: str = "") -> bytes:
        """Return :meth:`tar` as bytes; for small selections."""
        buffer = io.BytesIO()
        self.tar(buffer, prefix=prefix)
        return buffer.getvalue()


def _tar_info(name: str, mode: int, *, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    """Return an entry whose metadata says nothing of this machine."""
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime, info.uid, info.gid = kind, mode, 0, 0, 0
    return info


@dataclass(frozen=True, kw_only=True)
class _Rules:
    """An ignore file's rules; they are about paths from its own folder: without *strip*, and with *above* before them."""

    spec: pathspec.PathSpec[Any]
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
    ) -> None:
        self.root = root
        self.real_root = root.resolve()
        self.wanted = _spec(patterns, git=True) if patterns else None
        self.leave_out = _spec(leave_out, git=True)
        self.ignore_files = ignore_files
        self.nested = nested
        self.links = links

    def walk(self) -> Iterator[FileEntry]:
        """Yield the entries in no order."""
        yield from self._folder(self.root, "", self._rules_above() if self.nested else (), (self.real_root,))

    def _rules_above(self) -> tuple[_Rules, ...]:
        """Return the ignore files between the top of the git repository and the root; none outside a repository."""
        folders = self.real_root.parents
        top = next((number for number, folder in enumerate(folders) if (folder / ".git").exists()), None)
        if top is None or (self.real_root / ".git").exists():
            return ()
        rules: tuple[_Rules, ...] = ()
        for folder in reversed(folders[: top + 1]):
            above = f"{self.real_root.relative_to(folder).as_posix()}/"
            own = self._ignore_file(folder)
            if own is not None and own.check_file(above).include:
                return ()  # the root itself is ignored, and was asked for all the same
            if own is not None:
                rules = (*rules, _Rules(spec=own, strip="", above=above))
        return rules

    def _folder(
        self, folder: Path, lead: str, rules: tuple[_Rules, ...], above: tuple[Path, ...]
    ) -> Iterator[FileEntry]:
        if (self.nested or not lead) and (own := self._ignore_file(folder)) is not None:
            rules = (*rules, _Rules(spec=own, strip=lead))
        with os.scandir(folder) as found:
            items = list(found)
        for item in items:
            path = lead + item.name
            try:
                path.encode()
            except UnicodeEncodeError as error:
                raise self._fault(path.encode(errors="replace").decode(), "its name is not UTF-8") from error
            if item.name == ".git":
                continue
            follow = self.links == "follow"
            if item.is_symlink() and follow:
                self._check_target(path, inside=False)
            if item.is_dir(follow_symlinks=follow):
                if self.leave_out.check_file(path + "/").include or (
                    self.nested and self._ignored(path + "/", rules)
                ):
                    continue
                here = Path(item.path).resolve() if item.is_symlink() else above[-1] / item.name
                if here in above:
                    raise self._fault(path, "its link leads back to a folder above it")
                yield from self._folder(Path(item.path), path + "/", rules, (*above, here))
                continue
            if self.leave_out.check_file(path).include or self._ignored(path, rules):
                continue
            if self.wanted is not None and not self.wanted.check_file(path).include:
                continue
            yield self._entry(item, path)

    def _ignore_file(self, folder: Path) -> pathspec.PathSpec[Any] | None:
        """Return the rules of *folder*'s own ignore file, or None where it has none."""
        for name in self.ignore_files:
            file = folder / name
            if file.is_file():
                try:
                    lines = file.read_text(encoding="utf-8-sig").splitlines()
                except UnicodeDecodeError as error:
                    raise self._fault(str(file.absolute()), "it is not UTF-8") from error
                try:
                    return _spec(lines, git=self.nested)
                except ValueError as error:
                    raise self._fault(str(file.absolute()), str(error)) from error
        return None

    @staticmethod
    def _ignored(path: str, rules: tuple[_Rules, ...]) -> bool:
        """Tell whether the innermost ignore file that says anything about *path* ignores it."""
        for rule in reversed(rules):
            include: bool | None = rule.spec.check_file(rule.above + path.removeprefix(rule.strip)).include
            if include is not None:
                return include
        return False

    def _entry(self, item: os.DirEntry[str], path: str) -> FileEntry:
        if item.is_symlink() and self.links == "keep":
            target = os.readlink(item.path)  # noqa: PTH115 - the text as it is written, not as a path
            self._check_target(path, inside=True)
            return FileEntry(path=path, executable=False, size=0, link=target)
        status = item.stat()
        if not stat.S_ISREG(status.st_mode):
            raise self._fault(path, "it is a device, a socket or a pipe, not a file")
        return FileEntry(path=path, executable=bool(status.st_mode & stat.S_IXUSR), size=status.st_size)

    def _check_target(self, path: str, *, inside: bool) -> None:
        """Raise unless the link at *path* points to something; and, where *inside*, to something under the root."""
        link = self.root / path
        target = Path(os.readlink(link))  # noqa: PTH115 - resolve() would hide that it is absolute
        try:
            real = link.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise self._fault(path, f"it is a link to {target}, which is not there") from error
        if inside and (target.is_absolute() or not real.is_relative_to(self.real_root)):
            raise self._fault(path, f"it is a link to {target}, outside of {self.root}")

    def _fault(self, path: str, what: str) -> InvalidError:
        remedy = f"remove it, or list it in {self.ignore_files[0]}" if self.ignore_files else "remove it"
        return InvalidError([Fault(where=str(self.root / path), what=what, remedy=remedy)])


def _spec(lines: Sequence[str], *, git: bool) -> pathspec.PathSpec[Any]:
    """Return *lines* as rules: git's own, or (azure-ai-ml's) the last that matches, whatever happened above it."""
    if git:
        return pathspec.GitIgnoreSpec.from_lines(lines)
    # Its name until pathspec 1.0, with which azureml-core does not get along.
    known = "gitignore" if hasattr(pathspec.patterns, "gitignore") else "gitwildmatch"
    return pathspec.PathSpec.from_lines(known, lines)
