"""The sources of a release: a commit's files, with the repository's name.

Releases are built from these files, never from a working tree: files that are not committed cannot get into them.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.bootstrap.sources import project_version
from scripts.release.commands import ReleaseError, run

#: Stands for the repository in workflows, docs and examples. In two parts, so that a release's own sources keep it.
PLACEHOLDER: Final = "/".join(("org", "aml-train"))
SETTING: Final = "runner/aml_train/core/version.py"
_REPOSITORY: Final = re.compile(r'^REPOSITORY: Final\[str\] = "(.*)"$', re.MULTILINE)
MAJOR_LINE: Final = re.compile(r'^MAJOR: Final = "(.*)"$', re.MULTILINE)
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?/[A-Za-z0-9._-]+")
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The files that a release is built from.

    Attributes:
        folder: where they are.
        commit: the full SHA of the commit.
        epoch: the commit's time in seconds since 1970, the newest time in all artefacts.
        repository: ``OWNER/NAME`` on GitHub.
        version: such as ``1.2.3``.
    """

    folder: Path
    commit: str
    epoch: int
    repository: str
    version: str


def export(root: Path, ref: str, repository: str, folder: Path, *, version: str | None = None) -> Sources:
    """Write the files of a commit into *folder*, with the repository's name.

    Args:
        root: the git repository.
        ref: names the commit.
        repository: ``OWNER/NAME`` on GitHub.
        version: the version that must be released; None for any.

    Raises:
        ReleaseError: no such commit, a name or version that cannot be released, or another version than *version*.
    """
    check_repository(repository)
    commit = run(["git", "rev-parse", "--verify", f"{ref}^{{commit}}"], cwd=root).decode().strip()
    epoch = int(run(["git", "show", "--no-patch", "--format=%ct", commit], cwd=root))
    with _archive(root, commit) as files:
        files.extractall(folder, filter="tar")
    found = project_version(folder)
    check_version(found, (folder / SETTING).read_text(encoding="utf-8"), wanted=version)
    contents = read_files(root, commit)
    for path, content in rename(contents, repository).items():
        (folder / path).write_bytes(content)
    return Sources(folder=folder, commit=commit, epoch=epoch, repository=repository, version=found)


def read_files(root: Path, commit: str) -> dict[str, bytes]:
    """Return path → contents of a commit's files, links excepted."""
    with _archive(root, commit) as files:
        streams = {member.name: files.extractfile(member) for member in files.getmembers() if member.isreg()}
        return {path: stream.read() for path, stream in streams.items() if stream is not None}


def _archive(root: Path, commit: str) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(run(["git", "archive", "--format=tar", commit], cwd=root)))


def check_repository(repository: str) -> None:
    """Raise ReleaseError unless *repository* is ``OWNER/NAME``."""
    if not _NAME.fullmatch(repository) or repository == PLACEHOLDER:
        raise ReleaseError(f"--repository {repository!r} is not OWNER/NAME of a repository on GitHub.")


def check_version(version: str, setting: str, *, wanted: str | None) -> None:
    """Raise ReleaseError unless *version* can be released.

    Args:
        version: of the commit.
        setting: the text of core/version.py.
        wanted: the version that the tag names, if any.
    """
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"__version__ is {version!r}, and a release has three numbers, such as 1.2.3.")
    if wanted is not None and version != wanted:
        raise ReleaseError(
            f"The tag asks for {wanted}, and __version__ of the commit is {version}. "
            "Set it in runner/aml_train/core/version.py, or correct the tag."
        )
    major = MAJOR_LINE.search(setting)
    if major is None or major[1] != moving_tag(version):
        raise ReleaseError(
            f"{SETTING} says MAJOR = {major[1] if major else None!r}, and the version {version} moves {moving_tag(version)}. "
            "Change the version, or MAJOR and every workflow that names it."
        )


def moving_tag(version: str) -> str:
    """Return the tag that follows releases with *version*'s interface: ``v1``."""
    return f"v{version.partition('.')[0]}"


def image_repository(repository: str, suffix: str) -> str:
    """Return the path of an image in a registry, which is lower-case."""
    return f"{repository.lower()}{suffix}"


def rename(contents: Mapping[str, bytes], repository: str) -> dict[str, bytes]:
    """Return the files that differ once *repository* replaces the name that they have.

    Args:
        contents: path → contents of every file of the commit.

    Raises:
        ReleaseError: the one setting is missing.
    """
    setting = contents[SETTING].decode()
    before = own_name(setting)
    # Not inside a longer name; -emulator may follow.
    own = re.compile(rf"(ghcr\.io/)?(?<![\w.-]){re.escape(before)}(?!\w)".encode(), re.IGNORECASE)

    def renamed(match: re.Match[bytes]) -> bytes:
        return b"ghcr.io/" + repository.lower().encode() if match[1] else repository.encode()

    changed = {path: own.sub(renamed, content) for path, content in contents.items()}
    changed[SETTING] = _REPOSITORY.sub(f'REPOSITORY: Final[str] = "{repository}"', setting).encode()
    return {path: new for path, new in changed.items() if new != contents[path]}


def own_name(setting: str) -> str:
    """Return the name that workflows, docs and examples have: the placeholder, until the repository is adopted.

    Args:
        setting: the text of core/version.py.

    Raises:
        ReleaseError: the one setting is missing.
    """
    found = _REPOSITORY.findall(setting)
    if len(found) != 1:
        raise ReleaseError(f"{SETTING} has {len(found)} lines that set REPOSITORY; a release needs one.")
    return found[0] or PLACEHOLDER
