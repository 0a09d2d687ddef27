"""The release commit, whose action.yml names the action's image by digest.

Its files have the repository's name. A reusable workflow cannot name the commit that it is in. Therefore a release is two commits: the first has the action by
the image's digest, the second one's workflows name the first one by its SHA. The version's tag is on the second.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.release.commands import ReleaseError, run
from scripts.release.record import Record
from scripts.release.sources import SETTING, Sources, moving_tag, read_files, rename

_IMAGE: Final = re.compile(rb"^  image: Dockerfile$", re.MULTILINE)
WORKFLOWS: Final = ".github/workflows/"
_AUTHOR: Final = ("aml-train release", "noreply@github.com")


@dataclass(frozen=True, kw_only=True)
class Committed:
    """The commits and tags of a release."""

    action: str
    release: str
    version_tag: str
    moving_tag: str


def release_files(files: Mapping[str, bytes], record: Record, registry: str) -> dict[str, bytes]:
    """Return the changed files of the first commit.

    Args:
        files: path → contents of every file of the commit that was built.
        record: the build.
        registry: the registry that has the images.

    Raises:
        ReleaseError: action.yml names its image in another way than this step knows.
    """
    changed = rename(files, record.repository)
    image = record.image("action")
    reference = f"docker://{registry}/{image.repository}@{image.digest}"
    action, count = _IMAGE.subn(f"  image: {reference}".encode(), changed.get("action.yml", files["action.yml"]))
    if count != 1:
        raise ReleaseError(f"action.yml has {count} lines `  image: Dockerfile`; the release commit replaces one.")
    return {**changed, "action.yml": action}


def pin_workflows(files: Mapping[str, bytes], repository: str, commit: str, version: str) -> dict[str, bytes]:
    """Return the changed files of the second commit, whose workflows name *commit*.

    Args:
        files: path → contents of the first commit.

    Raises:
        ReleaseError: no workflow uses the action.
    """
    step = re.compile(rf"(uses: ){re.escape(repository)}@{moving_tag(version)}$".encode(), re.MULTILINE)
    changed = {}
    for path, content in files.items():
        if path.startswith(WORKFLOWS):
            new = step.sub(rf"\g<1>{repository}@{commit} # v{version}".encode(), content)
            if new != content:
                changed[path] = new
    if not changed:
        raise ReleaseError(f"No workflow in {WORKFLOWS} uses {repository}@{moving_tag(version)}.")
    return changed


def check_commit(root: Path, sources: Sources) -> None:
    """Raise ReleaseError if the commit of *sources* cannot become a release commit."""
    if run(["git", "tag", "--list", f"v{sources.version}"], cwd=root).strip():
        raise ReleaseError(
            f"The tag v{sources.version} is there: a version is released once. Set another one in {SETTING}, and tag it."
        )
    files = read_files(root, sources.commit)
    if len(_IMAGE.findall(files["action.yml"])) != 1:
        raise ReleaseError("action.yml has not one line `  image: Dockerfile`, which the release commit replaces.")
    files |= rename(files, sources.repository)
    pin_workflows(files, sources.repository, sources.commit, sources.version)


def commit_release(root: Path, record: Record, registry: str, *, workflows: bool = True) -> Committed:
    """Make the commits and tags of a release in the repository *root*.

    Its working tree stays as it is. The same build gives the same commits: their time is that of the commit that was built.

    Args:
        root: the repository.
        record: the build.
        registry: the registry that has the images.
        workflows: whether the reusable workflows name the action by its commit. The token of a run may not push that.

    Raises:
        ReleaseError: the version's tag names another commit already.
    """
    git = _Git(root=root, epoch=record.epoch)
    files = read_files(root, record.commit)
    first = release_files(files, record, registry)
    message = f"Release {record.version}"
    action = git.commit(record.commit, first, f"{message}: the action's image by its digest")
    release = action
    if workflows:
        second = pin_workflows({**files, **first}, record.repository, action, record.version)
        release = git.commit(action, second, f"{message}: the workflows by the commit of their action")
    tags = (f"v{record.version}", moving_tag(record.version))
    present = git.resolve(f"refs/tags/{tags[0]}^{{commit}}")
    if present not in (None, release):
        raise ReleaseError(f"The tag {tags[0]} names {present} already; a version is released once. Release another.")
    git.run("update-ref", f"refs/tags/{tags[0]}", release)
    git.run("update-ref", f"refs/tags/{tags[1]}", release)
    return Committed(action=action, release=release, version_tag=tags[0], moving_tag=tags[1])


def push_release(root: Path, remote: str, committed: Committed) -> None:
    """Push both tags to *remote*, or none.

    The version's tag is never moved, the other one is.

    Raises:
        ReleaseError: the remote has the version's tag on another commit, or refuses.
    """
    tags = [f"refs/tags/{committed.version_tag}", f"+refs/tags/{committed.moving_tag}"]
    run(["git", "push", "--atomic", remote, *tags], cwd=root)


@dataclass(frozen=True, kw_only=True)
class _Git:
    """Makes commits without a working tree."""

    root: Path
    epoch: int

    def run(self, *args: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None) -> str:
        return run(["git", *args], cwd=self.root, stdin=stdin, environ=environ).decode().strip()

    def resolve(self, name: str) -> str | None:
        """Return the commit of *name*, or None."""
        found = self.run("for-each-ref", "--format=%(objectname)", name.removesuffix("^{commit}"))
        return self.run("rev-parse", "--verify", name) if found else None

    def commit(self, parent: str, changed: Mapping[str, bytes], message: str) -> str:
        """Return a new commit: *parent* with the *changed* files."""
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": os.fspath(Path(folder, "index"))}
            self.run("read-tree", parent, environ=index)
            for path, content in changed.items():
                blob = self.run("hash-object", "-w", "--stdin", stdin=content)
                mode = self.run("ls-files", "--stage", "--", path, environ=index).split()[0]
                self.run("update-index", "--cacheinfo", f"{mode},{blob},{path}", environ=index)
            tree = self.run("write-tree", environ=index)
        name, mail = _AUTHOR
        identity = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", name), ("EMAIL", mail), ("DATE", f"{self.epoch} +0000"))
        }
        return self.run("commit-tree", tree, "-p", parent, "-m", message, environ=identity)
