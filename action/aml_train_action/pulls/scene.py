"""Reads a comment, its author and its pull request, for the decision on a command.

Source: https://docs.github.com/rest/collaborators/collaborators#get-repository-permissions-for-a-user,
https://docs.github.com/rest/repos/repos#list-repository-activities, https://docs.github.com/rest/deployments/environments.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError
from aml_train.core.values import dataclass
from aml_train_action.github import Api, NotFoundError
from aml_train_action.pulls.decision import Push, Scene

_NO_COMMIT: Final = "0" * 40


@dataclass(frozen=True, kw_only=True)
class Comment:
    """A new comment, by the event's payload.

    Attributes:
        id: of the comment.
        issue: the number of its issue or pull request.
        body: its text.
        author: the login of its author.
        action: of the event.
    """

    id: int
    issue: int
    body: str
    author: str
    action: str


def read_comment(payload: Answer, event: str) -> Comment:
    """Return the comment of the event.

    Raises:
        InvalidError: the event is none of a comment.
    """
    number, issue = payload.whole("comment.id"), payload.whole("issue.number")
    if event != "issue_comment" or number is None or issue is None:
        raise InvalidError(
            f"`command: comment` reads a comment, and this run is for the event {event!r}.",
            hint="Write `on: {issue_comment: {types: [created]}}`.",
        )
    return Comment(
        id=number,
        issue=issue,
        body=payload.optional_text("comment.body") or "",
        author=payload.text("comment.user.login"),
        action=payload.text("action"),
    )


def read_scene(api: Api, payload: Answer, comment: Comment) -> Scene:
    """Return what the decision depends on, as GitHub describes it now."""
    try:
        current = api.get(f"issues/comments/{comment.id}")
    except NotFoundError:
        raise InvalidError("The comment was deleted before it was read.") from None
    login, created = current.text("user.login"), current.time("created_at")
    if created is None:
        raise InvalidError("GitHub does not say when the comment was written.")
    is_pull = payload.has("issue.pull_request")
    pull = api.get(f"pulls/{comment.issue}") if is_pull else None
    permission = api.get(f"collaborators/{quote(login, safe='')}/permission")
    forked, last_push = True, None
    if pull is not None and pull.optional_text("head.repo.full_name") == api.repository:
        forked, last_push = False, _last_push(api, pull.text("head.ref"))
    return Scene(
        action=comment.action,
        same=(current.optional_text("body") or "") == comment.body
        and login == comment.author == payload.optional_text("sender.login"),
        created=created,
        updated=current.time("updated_at") or created,
        bot=current.optional_text("user.type") != "User"
        or login.endswith("[bot]")
        or current.has("performed_via_github_app"),
        is_pull=is_pull,
        open=pull is not None and pull.optional_text("state") == "open",
        forked=forked,
        head=pull.text("head.sha") if pull is not None else _NO_COMMIT,
        permission=permission.optional_text("permission") or "none",
        role=permission.optional_text("role_name") or "",
        last_push=last_push,
    )


def _last_push(api: Api, branch: str) -> Push | None:
    """Return the last change of a branch of the repository."""
    found = api.get("activity", ref=f"refs/heads/{branch}", per_page=1, direction="desc").value
    if not isinstance(found, list) or not found:
        return None
    last = Answer(found[0], lambda problem: InvalidError(f"GitHub's record of pushes {problem}."), "0")
    at, commit = last.time("timestamp"), last.optional_text("after")
    if at is None or commit is None or last.optional_text("ref") != f"refs/heads/{branch}":
        return None
    return Push(commit=commit, at=at)


def why_unprotected(api: Api, environment: str) -> str:
    """Return why jobs of *environment* need no approval; empty if they need one."""
    if not environment:
        return "The workflow names no environment whose reviewers approve a promotion."
    try:
        found = api.get(f"environments/{quote(environment, safe='')}")
    except NotFoundError:
        return "The environment whose reviewers approve a promotion does not exist."
    rules = found.at("protection_rules").value
    kinds = [rule.get("type") for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
    return "" if "required_reviewers" in kinds else "The environment of promotions requires no reviewers."
