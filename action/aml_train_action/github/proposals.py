"""Decides whether a run only proposes a commit, and then registers nothing.

GitHub's event, with its payload, and the checkout decide.

A run may register when two things hold. Its event can run nothing but the default branch's own code, and the commit in the
workspace is that branch's. Everything else proposes; so does an event that GitHub adds later.

Source: https://docs.github.com/actions/reference/workflows-and-actions/events-that-trigger-workflows (events, ``GITHUB_SHA``
and ``GITHUB_REF`` of each; November 2026).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aml_train.core import git
from aml_train.core.answers import Answer, UndecodableError, decode
from aml_train.core.errors import InvalidError
from aml_train.core.trust import PROTECTED, Trust, proposal
from aml_train.pipeline.project_name import repository_of

#: A payload is at most 25 MB: https://docs.github.com/webhooks/webhook-events-and-payloads#payload-cap
_LARGEST: Final = 25 * 1024 * 1024


def read_payload(environ: Mapping[str, str]) -> Answer:
    """Return the payload.

    Raises:
        InvalidError: there is none, or it is no JSON.
    """

    def fail(problem: str) -> InvalidError:
        return InvalidError(f"The payload of GitHub's event {problem}.")

    path = environ.get("GITHUB_EVENT_PATH", "")
    if not path:
        raise InvalidError("This command runs for an event of GitHub: GITHUB_EVENT_PATH is not set.")
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST + 1)
        return Answer(decode(content), fail)
    except OSError as error:
        raise InvalidError(f"The payload of GitHub's event cannot be read: {error.strerror}.") from error
    except UndecodableError as error:
        raise fail(str(error)) from error


OWN_CODE: Final = ("push", "schedule", "workflow_dispatch")
"""The events whose runs can only have the code of the ref that they name."""

_WAITING: Final = ("pull_request", "merge_group")
"""How the names of events begin whose commits are on no branch yet."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """GitHub's event that the run is for.

    Attributes:
        name: such as ``push``; empty outside GitHub.
        ref: such as ``refs/heads/main``.
        sha: the commit of *ref*.
        repository: ``OWNER/NAME``.
        default_branch: None if GitHub does not name it.
    """

    name: str
    ref: str
    sha: str
    repository: str
    default_branch: str | None

    @property
    def branch(self) -> str | None:
        """The branch that *ref* names."""
        return self.ref.removeprefix("refs/heads/") if self.ref.startswith("refs/heads/") else None


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """The commit in the workspace.

    Attributes:
        commit: None without a commit.
        repository: host and path of its remote; empty without one.
        contains: returns whether a revision has *commit* in its history; None if too little history was fetched.
    """

    commit: str | None
    repository: str = ""
    contains: Callable[[str], bool | None] = lambda _revision: None


def read_event(environ: Mapping[str, str]) -> Event:
    """Return GitHub's event."""
    # A schedule always runs on the default branch, which its payload need not name.
    name, ref = environ.get("GITHUB_EVENT_NAME", ""), environ.get("GITHUB_REF", "")
    default = _default_branch(environ)
    if default is None and name == "schedule" and ref.startswith("refs/heads/"):
        default = ref.removeprefix("refs/heads/")
    return Event(
        name=name,
        ref=ref,
        sha=environ.get("GITHUB_SHA", ""),
        repository=environ.get("GITHUB_REPOSITORY", ""),
        default_branch=default,
    )


def _default_branch(environ: Mapping[str, str]) -> str | None:
    """Return the repository's default branch from the event's payload, or None."""
    try:
        return read_payload(environ).optional_text("repository.default_branch") or None
    except InvalidError:
        # Without a payload no branch counts as the default one, and the run only proposes.
        return None


def read_checkout(directory: Path) -> Checkout:
    """Return the commit that is checked out around *directory*."""
    commit = git.head(directory)
    if commit is None:
        return Checkout(commit=None)
    return Checkout(
        commit=commit,
        repository=repository_of(git.remote_url(directory)),
        contains=lambda revision: git.contains(directory, revision, commit),
    )


def why_proposed(event: Event, checkout: Checkout) -> str | None:
    """Return why the run only proposes; None for a commit of the default branch."""
    if not event.name:
        return "it runs for no event of GitHub"
    if event.name.startswith(_WAITING):
        return f"the event `{event.name}` is about commits that are not on a branch of this repository yet"
    if event.name not in OWN_CODE:
        return f"the event `{event.name}` can be about a commit that is only proposed, whatever branch it runs for"
    if event.default_branch is None:
        return "the event does not name the repository's default branch"
    if event.branch != event.default_branch:
        return f"it runs for {event.ref or 'no ref'}, and not for the default branch {event.default_branch}"
    if checkout.commit is None:
        return "no commit is checked out in the project folder"
    return _why_elsewhere(event, checkout, event.default_branch)


def _why_elsewhere(event: Event, checkout: Checkout, branch: str) -> str | None:
    """Return why the commit does not count as one of *branch*; None when it does."""
    commit, known = str(checkout.commit)[:12], _on_branch(event, checkout)
    if known:
        return None
    if checkout.repository and not _ours(event, checkout):
        return f"{checkout.repository} is checked out, and not {event.repository}"
    if known is None:
        return (
            f"{commit} is checked out and not {event.sha[:12] or 'the commit of the event'}, and the history that was "
            f"fetched does not show whether it is on {branch}: give actions/checkout `fetch-depth: 0`"
        )
    return f"{commit} is checked out, which is not on {branch}"


def trust_of(event: Event, checkout: Checkout, *, register: bool | None) -> Trust:
    """Return the trust of the run, by its event and the input ``register``.

    The run of a pull request, or of the merge queue, is never one of the protected branch.
    """
    pull = re.fullmatch(r"refs/pull/(\d+)/\w+", event.ref)
    waits = pull is not None or event.name.startswith(_WAITING)
    if not waits and (register or (register is None and why_proposed(event, checkout) is None)):
        return PROTECTED
    return proposal(pull=pull and pull[1], branch=branch_of(event, checkout), commit=checkout.commit)


def branch_of(event: Event, checkout: Checkout) -> str | None:
    """Return the branch of the commit, for tags; None if nothing proves it.

    A pull request is ``pull/NUMBER``: a fork may call its branch ``main``, too. An event that runs in the default branch's name
    names nothing, and neither does a ref whose commit is not the one that is checked out.
    """
    pull = re.fullmatch(r"refs/(pull/\d+)/\w+", event.ref)
    if pull:
        return pull[1]
    if event.name not in OWN_CODE or event.branch is None:
        return None
    return event.branch if _on_branch(event, checkout) else None


def _on_branch(event: Event, checkout: Checkout) -> bool | None:
    """Return whether the commit is on the branch of the event; None if unknown.

    The event's commit is; so is what comes before it, or before the branch's present end in this repository.
    """
    if checkout.commit is None:
        return False
    if checkout.commit == event.sha:
        return True
    ends = [event.sha] * bool(re.fullmatch(r"[0-9a-f]{40,64}", event.sha))
    if event.branch and _ours(event, checkout):
        ends.append(f"refs/remotes/origin/{event.branch}")
    found = [checkout.contains(end) for end in ends]
    if True in found:
        return True
    return None if None in found or not found else False


def _ours(event: Event, checkout: Checkout) -> bool:
    """Return whether the checkout is of the event's repository, ignoring case."""
    return checkout.repository.partition("/")[2].casefold() == event.repository.casefold()
