"""`command: comment`: reads a command in a comment of a pull request.

It checks nothing out and starts nothing. The workflow's later jobs do what its outputs say; see .github/workflows/command.yml.
"""

from __future__ import annotations

from aml_train.core.errors import ServiceError
from aml_train_action.github import Api, open_api, read_payload
from aml_train_action.inputs import Inputs
from aml_train_action.pulls import (
    Command,
    Comment,
    Refusal,
    decide,
    parse,
    read_comment,
    read_scene,
    why_unprotected,
)
from aml_train_action.session import Session


def read(session: Session, inputs: Inputs) -> None:
    """Read the comment of the event; answer it, and set the outputs if it is obeyed."""
    payload = read_payload(session.environ)
    comment = read_comment(payload, session.step.event.name)
    command = parse(comment.body)
    if command is None:
        _end(session, "ignored", "The comment is no command.")
        return
    api = open_api(session.environ, inputs.pulls.github_token)
    _react(session, api, comment, "eyes")
    scene = read_scene(api, payload, comment)
    answer = command if isinstance(command, Refusal) else decide(command, scene)
    if isinstance(command, Command) and command.name == "promote" and isinstance(answer, str):
        why = why_unprotected(api, inputs.pulls.approval)
        answer = Refusal(why=why) if why else answer
    if isinstance(answer, Refusal) or isinstance(command, Refusal):
        refusal = answer if isinstance(answer, Refusal) else command
        _refuse(session, api, comment, refusal.why if isinstance(refusal, Refusal) else "", silent=scene.bot)
        return
    _react(session, api, comment, "rocket")
    session.record.facts = {
        "request": command.name,
        "commit": answer,
        "pull_request": comment.issue,
        "request_version": command.version,
    }
    _end(session, "accepted", f"/{command.name} is accepted, for the commit {answer}.")


def _refuse(session: Session, api: Api, comment: Comment, why: str, *, silent: bool) -> None:
    """Refuse a command; a bot gets no reply, which it could answer."""
    _react(session, api, comment, "-1")
    if not silent:
        api.send("POST", f"issues/{comment.issue}/comments", {"body": f"Nothing was started. {why}"})
    _end(session, "refused", f"The command is refused. {why}")


def _react(session: Session, api: Api, comment: Comment, content: str) -> None:
    """React to the comment; the answer does not depend on it."""
    try:
        api.send("POST", f"issues/comments/{comment.id}/reactions", {"content": content})
    except ServiceError as error:
        session.channel.text(f"No reaction to the comment: {error.message}", sign="·")


def _end(session: Session, status: str, message: str) -> None:
    session.record.end(status, 0, message)
    session.channel.text(message.replace("<code>", "`").replace("</code>", "`"), sign="·")
