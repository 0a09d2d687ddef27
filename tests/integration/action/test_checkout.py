"""What is checked out, as git itself reports it: the history of a branch, shallow clones, remotes."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from aml_train.core import git as queries
from aml_train_action.github.proposals import Event, branch_of, read_checkout, why_proposed


def git(directory: Path, *args: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *identity, "-C", str(directory), *args], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A repository with two commits on main, and one more on a branch of a pull request."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for number in ("one", "two"):
        git(folder, "commit", "-q", "--allow-empty", "-m", number)
    git(folder, "checkout", "-q", "-b", "proposed")
    git(folder, "commit", "-q", "--allow-empty", "-m", "three")
    return folder


def clone(upstream: Path, *options: str, branch: str = "main") -> Path:
    folder = upstream.with_name("clone")
    git(upstream.parent, "clone", "-q", *options, "--branch", branch, upstream.as_uri(), str(folder))
    git(folder, "remote", "set-url", "origin", "https://user:hidden@github.com/octo/digits.git")
    return folder


def event(upstream: Path, name: str = "push") -> Event:
    sha = git(upstream, "rev-parse", "main")
    return Event(name=name, ref="refs/heads/main", sha=sha, repository="octo/digits", default_branch="main")


@pytest.mark.parametrize("options", [(), ("--depth=1",)])
def test_the_commit_of_the_push_registers_also_from_a_shallow_clone(upstream: Path, options: tuple[str, ...]) -> None:
    checkout = read_checkout(clone(upstream, *options))
    assert why_proposed(event(upstream), checkout) is None
    assert branch_of(event(upstream), checkout) == "main"


@pytest.mark.parametrize(
    ("options", "reason"), [(("--no-single-branch",), "which is not on main"), (("--depth=1",), "fetch-depth: 0")]
)
def test_a_proposed_commit_registers_nothing_though_the_event_is_mains(
    upstream: Path, options: tuple[str, ...], reason: str
) -> None:
    """`workflow_dispatch` on main, and a checkout of what somebody proposes."""
    dispatched = event(upstream, "workflow_dispatch")
    checkout = read_checkout(clone(upstream, *options, branch="proposed"))
    assert reason in str(why_proposed(dispatched, checkout))
    assert branch_of(dispatched, checkout) is None


def test_an_older_commit_of_the_branch_is_the_branchs(upstream: Path) -> None:
    folder = clone(upstream)
    git(folder, "checkout", "-q", "HEAD~1")
    assert why_proposed(event(upstream), read_checkout(folder)) is None


def test_the_end_of_the_branch_may_be_newer_than_the_event(upstream: Path) -> None:
    older = replace(event(upstream), sha=git(upstream, "rev-parse", "main~1"))
    assert why_proposed(older, read_checkout(clone(upstream))) is None


def test_a_branch_of_a_fork_that_is_called_main_is_not_main(upstream: Path) -> None:
    theirs = upstream.with_name("theirs")
    git(upstream.parent, "clone", "-q", upstream.as_uri(), str(theirs), "--branch", "main")
    git(theirs, "commit", "-q", "--allow-empty", "-m", "mine")
    folder = clone(theirs)
    git(folder, "remote", "set-url", "origin", "https://github.com/stranger/digits")
    # The fork's clone has main's own commit in its history; what is checked out is the stranger's.
    checkout = read_checkout(folder)
    assert "github.com/stranger/digits is checked out" in str(why_proposed(event(upstream), checkout))
    assert branch_of(event(upstream), checkout) is None


def test_replaced_objects_do_not_lengthen_the_branch(upstream: Path) -> None:
    folder = clone(upstream, "--no-single-branch", branch="proposed")
    proposed, main = git(folder, "rev-parse", "HEAD"), git(folder, "rev-parse", "origin/main")
    made = git(folder, "commit-tree", "-p", proposed, "-m", "x", f"{main}^{{tree}}")
    git(folder, "replace", main, made)
    assert git(folder, "merge-base", "--is-ancestor", proposed, main) == ""
    assert why_proposed(event(upstream), read_checkout(folder)) is not None


def test_nothing_is_checked_out(tmp_path: Path) -> None:
    assert read_checkout(tmp_path).commit is None
    git(tmp_path, "init", "-q")
    assert read_checkout(tmp_path).commit is None


def test_a_bare_repository_among_the_files_is_not_taken_for_the_checkout(upstream: Path) -> None:
    """A commit can hold the files of a bare repository, whose configuration names commands to run."""
    inner = upstream / "project"
    git(upstream.parent, "init", "-q", "--bare", str(inner))
    marker = upstream.parent / "ran"
    git(inner, "config", "core.fsmonitor", f"touch {marker}; false")
    assert queries.head(inner) is None
    assert queries.answer(inner, "status", "--porcelain=v2") is None
    assert not marker.exists()


@pytest.mark.parametrize(
    ("remotes", "url"),
    [
        ({}, ""),
        ({"origin": "https://h/o/r", "upstream": "https://h/u/r"}, "https://h/o/r"),
        ({"upstream": "https://h/u/r"}, "https://h/u/r"),
        ({"a": "https://h/a/r", "b": "https://h/b/r"}, ""),
        ({"origin": "gh:o/r"}, "https://github.com/o/r"),
    ],
)
def test_the_remote_that_names_the_repository(remotes: dict[str, str], url: str, upstream: Path) -> None:
    for name, address in remotes.items():
        git(upstream, "remote", "add", name, address)
    git(upstream, "config", "url.https://github.com/.insteadOf", "gh:")
    assert queries.remote_url(upstream) == url
