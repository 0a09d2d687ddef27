"""Which files of a folder are selected: patterns, ignore files, secrets, links.

The walk reads ignore files and directories, and no contents.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import pathspec

from aml_train.core.boundary import is_inside, of_the_kernel
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
    "**/.docker/config.json",
    ".dockercfg",
    "**/.config/gcloud/",
    "gha-creds-*.json",
    "git-credentials*.config",
    "_github_home/",
    ".databrickscfg",
    ".boto",
    ".s3cfg",
    "**/.streamlit/secrets.toml",
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
"""Files that are left out unless the caller says otherwise, in gitignore style.

Actions leave credentials in a checkout: ``gha-creds-*.json`` is google-github-actions/auth's file,
``git-credentials-*.config`` actions/checkout's, ``_github_home`` the home that a runner gives to container actions."""

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
    "aml-train-report/",
)
"""Files that tools leave behind and make again; left out unless the caller says otherwise."""

FileId = tuple[int, int]
"""A file whatever its name is: its device and its inode."""


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
class _Rules:
    """An ignore file's rules.

    They are about paths from its own folder: without *strip*, and with *above* before them.
    """

    spec: pathspec.PathSpec[Any]
    strip: str = ""
    above: str = ""


@dataclass(kw_only=True)
class Walker:
    """One walk over a tree, with the ignore files that hold where it is.

    Attributes:
        secrets: what it has left out because of its name.
    """

    root: Path
    patterns: tuple[str, ...]
    ignore_files: tuple[str, ...]
    nested: bool
    left_out: tuple[str, ...]
    links: Literal["keep", "follow"]
    within: tuple[Path, ...]
    own: frozenset[FileId]
    secrets: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.real_root = self.root.resolve()
        self.wanted = _spec(self.patterns, git=True) if self.patterns else None
        self.leave_out = _spec(self.left_out, git=True)

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
            own = self._ignore_file(folder)
            if own is not None and own.spec.check_file(above).include:
                return ()  # the root itself is ignored, and was selected all the same
            if own is not None:
                rules = (*rules, replace(own, above=above))
        return rules

    def _folder(
        self, folder: Path, lead: str, rules: tuple[_Rules, ...], above: tuple[Path, ...]
    ) -> Iterator[FileEntry]:
        if (self.nested or not lead) and (own := self._ignore_file(folder)) is not None:
            rules = (*rules, replace(own, strip=lead))
        for item in _listed(folder):
            path = lead + item.name
            if item.name == ".git":
                continue
            follow = self.links == "follow"
            if item.is_symlink() and follow and not self._follows(path, rules):
                continue
            if item.is_dir(follow_symlinks=follow):
                if self._leaves_out(path + "/", rules):
                    continue
                if self.nested and self._ignored(path + "/", rules):
                    continue
                here = Path(item.path).resolve() if item.is_symlink() else above[-1] / item.name
                if here in above:
                    raise self._fault(path, "its link leads back to a folder above it")
                yield from self._folder(Path(item.path), path + "/", rules, (*above, here))
                continue
            if self._leaves_out(path, rules) or self._ignored(path, rules):
                continue
            if self.wanted is not None and not self.wanted.check_file(path).include:
                continue
            if (entry := self._entry(item, path)) is not None:
                yield entry

    def _leaves_out(self, path: str, rules: tuple[_Rules, ...]) -> bool:
        """Return whether *path* is left out; note a secret that would be selected."""
        found = self.leave_out.check_file(path)
        if not found.include:
            return False
        wanted = self.wanted is None or self.wanted.match_file(path)
        if self.left_out[found.index or 0] in SECRETS and wanted and not self._ignored(path, rules):
            self.secrets.append(path)
        return True

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
        if place is None or not any(self.leave_out.match_file(f"{place.as_posix()}{end}") for end in ("", "/")):
            return True
        self.secrets.append(path)
        return False

    def _ignore_file(self, folder: Path) -> _Rules | None:
        """Return the rules of *folder*'s own ignore file, or None."""
        for name in self.ignore_files:
            file = folder / name
            if file.is_file():
                try:
                    lines = file.read_text(encoding="utf-8-sig").splitlines()
                except UnicodeDecodeError as error:
                    raise self._fault(str(file.absolute()), "it is not UTF-8") from error
                except OSError as error:
                    raise unreadable(file.absolute(), error) from error
                return _Rules(spec=_usable(tuple(lines), git=self.nested))
        return None

    @staticmethod
    def _ignored(path: str, rules: tuple[_Rules, ...]) -> bool:
        """Return whether *path* is ignored; the innermost file that names it decides."""
        for rule in reversed(rules):
            found = rule.spec.check_file(rule.above + path.removeprefix(rule.strip)).include
            if found is not None:
                return found
        return False

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
            raise unreadable(self.root / path, error) from error
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
            link.stat()  # the kernel follows 40 links (path_resolution(7)), Python any number
            return text, link.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise self._fault(path, f"it is a link to {Path(text)}, which leads nowhere") from error

    def _fault(self, path: str, what: str, remedy: str = "remove it") -> InvalidError:
        remedy = f"{remedy}, or list it in {self.ignore_files[0]}" if self.ignore_files else remedy
        return InvalidError([Fault(where=str(self.root / path), what=what, remedy=remedy)])


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda item: item.name)
    except OSError as error:
        raise unreadable(folder, error) from error


def _usable(lines: tuple[str, ...], *, git: bool) -> pathspec.PathSpec[Any]:
    """Return the lines of an ignore file that are patterns as rules: git skips others, such as ``[z-a]`` and ``!``."""
    with contextlib.suppress(ValueError, re.error):
        return _spec(lines, git=git)
    return _spec(tuple(line for line in lines if _is_pattern(line)), git=git)


def _is_pattern(line: str) -> bool:
    try:
        _spec((line,), git=True)
    except (ValueError, re.error):
        return False
    return True


@functools.lru_cache(maxsize=64)
def _spec(lines: tuple[str, ...], *, git: bool) -> pathspec.PathSpec[Any]:
    """Return *lines* as rules.

    Git's own, or azure-ai-ml's, where the last match decides.
    """
    if git:
        return pathspec.GitIgnoreSpec.from_lines(lines)
    # Its name until pathspec 1.0, with which azureml-core does not get along.
    known = "gitignore" if hasattr(pathspec.patterns, "gitignore") else "gitwildmatch"
    return pathspec.PathSpec.from_lines(known, lines)


def secret_rules(named: Iterable[str]) -> pathspec.PathSpec[Any]:
    """Return :data:`SECRETS` as rules; patterns of *named* that name one are exempt."""
    rules = _spec(SECRETS, git=True)
    return _spec((*SECRETS, *(f"!{pattern}" for pattern in named if rules.match_file(pattern))), git=True)


def unreadable(path: Path, error: OSError) -> InvalidError:
    """Return the error for a file or folder that cannot be read."""
    remedy = "make it readable, or list it in .amlignore, and for the tests in .gitignore"
    return InvalidError([Fault(where=str(path), what=f"it cannot be read: {error.strerror}", remedy=remedy)])
