"""Decides whether a command in a comment is obeyed, and for which commit. Pure.

The code of the commit will run with what the workflow has, so the commit must be the one that the author of the comment has seen. Comments
name no commit, and dates in commits can be forged: without a commit in the command, GitHub's own record of pushes to the branch
must show that the branch was at its present commit before the comment was written. For a fork there is no such record that the token can
rely on.

Source: https://securitylab.github.com/resources/github-actions-preventing-pwn-requests,
https://docs.github.com/rest/repos/repos#list-repository-activities (GitHub's time of each push).
"""

from __future__ import annotations

import datetime
from typing import Final

from aml_train.core.values import dataclass
from aml_train_action.pulls.grammar import Command, Refusal

_WRITE: Final = frozenset({"write", "admin"})
_MAINTAIN: Final = frozenset({"maintain", "admin"})


@dataclass(frozen=True, kw_only=True)
class Push:
    """The last change of a branch, by GitHub's record."""

    commit: str
    at: datetime.datetime


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A comment and its pull request, as GitHub's interface describes them now.

    Attributes:
        action: of the event, which is ``created`` for a new comment.
        same: the comment has still the text and the author of the event.
        created: when the comment was written.
        updated: when it was changed last.
        bot: its author is no person.
        is_pull: it is on a pull request, not on an issue.
        open: whether the pull request is open.
        forked: the commit is from another repository, or that is deleted.
        head: the present commit of the pull request.
        permission: of the author: ``admin``, ``write``, ``read`` or ``none``.
        role: of the author, such as ``maintain``; custom roles have other names.
        last_push: the last change of the branch; None if that is not known.
    """

    action: str
    same: bool
    created: datetime.datetime
    updated: datetime.datetime
    bot: bool
    is_pull: bool
    open: bool
    forked: bool
    head: str
    permission: str
    role: str
    last_push: Push | None = None

    @property
    def maintainer(self) -> bool:
        """Whether the author may maintain the repository."""
        return self.role in _MAINTAIN or self.permission == "admin"


def decide(command: Command, scene: Scene) -> str | Refusal:
    """Return the commit that the command is for, or why it is refused."""
    name = f"<code>/{command.name}</code>"
    reasons: list[tuple[bool, str]] = [
        (scene.action != "created", "Only new comments are commands."),
        (scene.bot, "Commands of bots are not obeyed."),
        (
            not scene.same or scene.updated != scene.created,
            "The comment was edited. Write the command in a new comment.",
        ),
        (not scene.is_pull, f"{name} belongs into a pull request, and this is an issue."),
        (not scene.open, "The pull request is closed."),
        (
            scene.permission not in _WRITE,
            f"{name} needs the permission to write to this repository, which its author does not have.",
        ),
        (
            command.name == "promote" and not scene.maintainer,
            f"{name} needs the role <code>maintain</code> or <code>admin</code>.",
        ),
    ]
    why = next((reason for applies, reason in reasons if applies), None)
    if why is not None:
        return Refusal(why=why)
    # A promotion runs the code of the default branch, not that of the pull request.
    return scene.head if command.name == "promote" else _pin(command, scene)


def _pin(command: Command, scene: Scene) -> str | Refusal:
    """Return the commit that the author of the command has seen."""
    name = f"<code>/{command.name}</code>"
    if scene.forked and not scene.maintainer:
        return Refusal(
            why=f"{name} on a commit of a fork needs the role <code>maintain</code> or <code>admin</code>."
        )
    named = f"Look at the commit, and write <code>/{command.name} COMMIT</code> with its whole id."
    if command.commit:
        if command.commit != scene.head:
            return Refusal(why=f"The named commit is not the present one of the pull request. {named}")
        return command.commit
    if scene.forked:
        return Refusal(why=f"{name} on a commit of a fork must name the commit. {named}")
    push = scene.last_push
    if push is None or push.commit != scene.head or push.at >= scene.created:
        return Refusal(
            why=f"GitHub does not show that the present commit was there before the comment was written. {named}"
        )
    return scene.head
