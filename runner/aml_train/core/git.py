"""Read-only git queries about the checkout around a folder; the origin of a job.

Nothing is changed, fetched, or run on behalf of the repository. ``safe.directory`` is given because in a container action the
workspace belongs to another user; without optional locks git does not rewrite that user's index as us. A bare repository
inside a commit, a file system monitor and a promisor remote could make git run commands or open connections: all three are
off (https://git-scm.com/docs/git-config, ``safe.bareRepository``, ``core.fsmonitor``, ``protocol.allow``).
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aml_train.core.tags import Tag

_OPTIONS: Final = (
    "--no-optional-locks", "--no-replace-objects", "-c", "safe.directory=*", "-c", "safe.bareRepository=explicit",
    "-c", "core.fsmonitor=false", "-c", "protocol.allow=never",
)  # fmt: skip
#: Seconds; a status of a large checkout on a slow disk takes minutes.
_TIMEOUT: Final = 300
#: Without them a checkout is the one that is around the folder, whatever a hook or a wrapper has set.
_FOREIGN: Final = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"})


def query(
    directory: Path, *args: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str] | None:
    """Run git in *directory*, with *environ* added to the environment.

    None without git, or if it exceeds the time-out.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    try:
        return subprocess.run(
            ["git", *_OPTIONS, "-C", str(directory), *args],
            env={**inherited, **(environ or {}), "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def answer(directory: Path, *args: str) -> str | None:
    """Return what git prints, without surrounding white space; None when it fails."""
    done = query(directory, *args)
    return done.stdout.strip() if done is not None and done.returncode == 0 else None


def remote_url(directory: Path) -> str:
    """Return the URL of the repository's remote, as ``insteadOf`` rewrites it, or "".

    It is ``origin``, else the only remote.
    """
    if url := answer(directory, "remote", "get-url", "origin"):
        return url
    names = (answer(directory, "remote") or "").split()
    return (answer(directory, "remote", "get-url", names[0]) or "") if len(names) == 1 else ""


class Checkout:
    """The checkout around a folder; each fact is queried once, when it is needed.

    Args:
        directory: the folder.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @functools.cached_property
    def status(self) -> str | None:
        """The output of ``git status --porcelain=v2 --branch``; None without one."""
        return answer(self._directory, "status", "--porcelain=v2", "--branch", "--untracked-files=normal", "--", ".")

    @functools.cached_property
    def remote(self) -> str:
        """See :func:`remote_url`."""
        return remote_url(self._directory) if self.folder is not None else ""

    @functools.cached_property
    def root(self) -> str:
        """The hash of the oldest commit without a parent that HEAD descends from; "" if git does not say it."""
        return (answer(self._directory, "rev-list", "--max-parents=0", "HEAD") or "").rpartition("\n")[2]

    @functools.cached_property
    def folder(self) -> str | None:
        """The folder's path in the repository, with a slash at its end; None outside."""
        return answer(self._directory, "rev-parse", "--show-prefix")


def head(directory: Path) -> str | None:
    """Return the hash of the commit that is checked out; None without one."""
    return answer(directory, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")


def default_branch(directory: Path) -> str | None:
    """Return the name of the repository's default branch; None if nothing says so.

    It is what the remote's HEAD was when it was cloned, else ``main`` or ``master`` if only one of them exists.
    """
    head = answer(directory, "symbolic-ref", "--quiet", "refs/remotes/origin/HEAD")
    if head is not None:
        return head.removeprefix("refs/remotes/origin/")
    known = [name for name in ("main", "master") if _refs(directory, name)]
    return known[0] if len(known) == 1 else None


def _refs(directory: Path, branch: str) -> list[str]:
    """Return the references of *branch* that exist: the remote's, and the local one."""
    refs = (f"refs/remotes/origin/{branch}", f"refs/heads/{branch}")
    return [ref for ref in refs if answer(directory, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")]


def contains(directory: Path, branch: str, commit: str) -> bool | None:
    """Return whether *branch*, a revision, contains *commit*.

    None if the history is missing.

    A path in a shallow history is a true one; that there is none proves nothing.
    """
    done = query(directory, "merge-base", "--is-ancestor", commit, branch)
    if done is None or done.returncode not in (0, 1):
        return None
    if done.returncode == 0:
        return True
    return None if answer(directory, "rev-parse", "--is-shallow-repository") != "false" else False


def fault_of_branch_commit(directory: Path, branch: str, commit: str, *, checked_out: bool) -> str | None:
    """Return why *commit* is not proved to be one of *branch*; None if it is.

    It must be on the branch's own line (its first parents): a merge brings the intermediate commits of a proposal into the
    history, which nobody had reviewed as they were.

    Args:
        directory: a folder of the checkout.
        branch: the branch's name.
        commit: the full hash.
        checked_out: whether the commit that is checked out is the branch's newest.
    """
    refs = [*_refs(directory, branch), *(["HEAD"] if checked_out else [])]
    if not refs:
        return f"this checkout has no branch {branch}: check it out with `fetch-depth: 0`"
    line = answer(directory, "rev-list", "--first-parent", *refs)
    if line is None:
        return "git cannot read the history of this checkout"
    if commit in line.split():
        return None
    if answer(directory, "rev-parse", "--is-shallow-repository") != "false":
        return (
            f"this checkout is shallow and does not reach back to {commit[:12]}: check it out with `fetch-depth: 0`"
        )
    return f"its commit {commit[:12]} is not one of the branch {branch}"


def export_commit(directory: Path, commit: str, destination: Path) -> str | None:
    """Write the files of *commit*, of the whole repository, below *destination*.

    They are what a checkout of it would have, by the same filters. An empty ``.git`` marks the top of the repository.

    Returns:
        why they are incomplete or missing; None if they are not.
    """
    index = destination.parent / f"{destination.name}.index"
    environ = {"GIT_INDEX_FILE": str(index)}
    top = answer(directory, "rev-parse", "--show-toplevel")
    if top is None:
        return "git does not answer"
    (destination / ".git").mkdir(parents=True)
    for args in (("read-tree", commit), ("checkout-index", "--all", f"--prefix={destination}/")):
        done = query(Path(top), *args, environ=environ)
        if done is None or done.returncode != 0:
            why = "" if done is None else (done.stderr.strip().splitlines() or [""])[-1]
            return f"git cannot give the files of {commit[:12]}{f': {why}' if why else ''}"
    listed = answer(Path(top), "ls-tree", "-r", "--format=%(objecttype) %(path)", commit) or ""
    if module := next((line for line in listed.splitlines() if line.startswith("commit ")), None):
        return f"the files of the submodule {module.partition(' ')[2]} are not part of {commit[:12]}"
    return None


#: Follows the hash of a commit that files differ from.
DIRTY: Final = "-dirty"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The origin of a run.

    Attributes:
        repository: host and path, such as ``github.com/owner/name``; ``root commit`` and its hash where the repository has no
            remote; ``folder`` and a hash of its path without git. Empty is unknown: it is no other's.
        configuration: the configuration file's path in the repository.
        branch: None if the checkout is detached and no variable names it.
        commit: the commit's hash, with ``-dirty`` behind it where files differ from it; empty without git.
        dirty: whether they do.
    """

    repository: str
    configuration: str
    branch: str | None
    commit: str
    dirty: bool = False

    def is_of(self, repository: str, configuration: str) -> bool:
        """Return whether this is a run of that configuration of that repository."""
        return bool(repository) and (self.repository, self.configuration) == (repository, configuration)

    def tags(self) -> dict[str, str]:
        """Return the tags of a job that is submitted from here, without unknown values."""
        tags = {
            Tag.COMMIT: self.commit,
            Tag.BRANCH: (self.branch or "") if self.commit else "",  # without a commit, nothing could prove it
            Tag.REPOSITORY: self.repository,
            Tag.CONFIGURATION: self.configuration,
        }
        return {name: value for name, value in tags.items() if value}


def origin_of_tags(tags: Mapping[str, str]) -> Origin | None:
    """Return the origin that a job's *tags* name; None if they name neither commit nor repository."""
    commit = tags.get(Tag.COMMIT, "")
    if not commit and Tag.REPOSITORY not in tags:
        return None
    return Origin(
        repository=tags.get(Tag.REPOSITORY, ""),
        configuration=tags.get(Tag.CONFIGURATION, ""),
        branch=tags.get(Tag.BRANCH),
        commit=commit,
        dirty=commit.endswith(DIRTY),
    )
