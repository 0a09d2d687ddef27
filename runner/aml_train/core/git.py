"""Read-only queries to git about the checkout around a folder. Nothing is changed, fetched, or run on behalf of the repository.

``safe.directory`` is given because in a container action the workspace belongs to another user; without optional locks git
does not rewrite that user's index as us. A bare repository inside a commit, a file system monitor and a promisor remote could
make git run commands or open connections: all three are off (https://git-scm.com/docs/git-config, ``safe.bareRepository``,
``core.fsmonitor``, ``protocol.allow``).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

_OPTIONS: Final = (
    "--no-optional-locks", "--no-replace-objects", "-c", "safe.directory=*", "-c", "safe.bareRepository=explicit",
    "-c", "core.fsmonitor=false", "-c", "protocol.allow=never",
)  # fmt: skip
#: Seconds; a status of a large checkout on a slow disk takes minutes.
_TIMEOUT: Final = 300
#: Without them a checkout is the one that is around the folder, whatever a hook or a wrapper has set.
_FOREIGN: Final = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"})


def query(directory: Path, *args: str) -> subprocess.CompletedProcess[str] | None:
    """Run git in *directory* and return how it ended; None without git, or when it does not end in time."""
    environ = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    try:
        return subprocess.run(
            ["git", *_OPTIONS, "-C", str(directory), *args],
            env={**environ, "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"},
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
    """Return the address of the repository's remote, as ``insteadOf`` rewrites it; empty without one.

    It is ``origin``, else the only remote, else the one that the current branch follows.
    """
    names = (answer(directory, "remote") or "").split()
    if "origin" in names:
        name = "origin"
    elif len(names) == 1:
        name = names[0]
    else:
        branch = answer(directory, "symbolic-ref", "--quiet", "--short", "HEAD") or ""
        name = (branch and answer(directory, "config", "--get", f"branch.{branch}.remote")) or ""
    return (answer(directory, "remote", "get-url", name) or "") if name in names else ""


def head(directory: Path) -> str | None:
    """Return the hash of the commit that is checked out; None without one."""
    return answer(directory, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")


def contains(directory: Path, branch: str, commit: str) -> bool | None:
    """Tell whether *branch*, a revision, has *commit* in its history; None when the history is not there to tell.

    A path in a shallow history is a true one; that there is none proves nothing.
    """
    done = query(directory, "merge-base", "--is-ancestor", commit, branch)
    if done is None or done.returncode not in (0, 1):
        return None
    if done.returncode == 0:
        return True
    return None if answer(directory, "rev-parse", "--is-shallow-repository") != "false" else False
