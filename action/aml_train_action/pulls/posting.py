"""Posts a report: one comment for each configuration."""

from __future__ import annotations

import contextlib
from typing import Literal

from aml_train.report.values import Report
from aml_train_action.github.api import Api, NotFoundError
from aml_train_action.pulls.comment import key_of, read_marker, render_comment
from aml_train_action.pulls.find import Subject

Outcome = Literal["created", "updated", "superseded"]


def post_comment(api: Api, report: Report, subject: Subject) -> Outcome:
    """Show *report* in the pull request's comment of its configuration.

    A comment about a newer run stays as it is. Only comments of the token's own user count: anyone can write a marker.
    """
    key = key_of(report.configuration, report.target)
    mine = api.login().casefold()
    known = []
    for comment in api.pages(f"issues/{subject.pull_request}/comments"):
        marker = read_marker(comment.optional_text("body") or "")
        author = comment.optional_text("user.login") or ""
        if marker is not None and marker.key == key and author.casefold() == mine:
            known.append((marker.rank(subject.head), comment.whole("id") or 0))
    if known and max(rank for rank, _ in known) > subject.rank:
        return "superseded"
    body = {"body": render_comment(report, subject)}
    # The first one keeps its place; two runs at once can have made a second one.
    first, *others = sorted(number for _, number in known) or [0]
    for number in others:
        with contextlib.suppress(NotFoundError):
            api.delete(f"issues/comments/{number}")
    if first:
        try:
            api.send("PATCH", f"issues/comments/{first}", body)
        except NotFoundError:
            # Someone deleted it meanwhile.
            pass
        else:
            return "updated"
    api.send("POST", f"issues/{subject.pull_request}/comments", body)
    return "created"
