"""`command: comment`: commands in comments, and those that are refused."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train_action.pulls.decision import Push, Scene, decide
from aml_train_action.pulls.grammar import Command, Refusal, parse
from tests.support.github_stand_in import FORK, HEAD, MALICIOUS, OLD, TOKEN
from tests.unit.action.pull_world import World
from tests.unit.action.pull_world import world as world

LATER = "2026-11-20T13:00:01Z"


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("/train", Command(name="train")),
        ("/train\n", Command(name="train")),
        ("/train\r\n", Command(name="train")),
        (f"/train {HEAD}", Command(name="train", commit=HEAD)),
        (f"/compare {HEAD}", Command(name="compare", commit=HEAD)),
        ("/compare", Command(name="compare")),
        ("/promote", Command(name="promote")),
        ("/promote 12", Command(name="promote", version="12")),
    ],
)
def test_commands(body: str, command: Command) -> None:
    assert parse(body) == command


@pytest.mark.parametrize(
    "body",
    [
        "/train now",
        "/train main",
        f"/train {HEAD[:12]}",
        f"/train {HEAD.upper()}",
        f"/train {HEAD} --register",
        "/train  ",
        " /train",
        "/train ",
        "/Train",
        "/TRAIN",
        "/trian",
        "/trains",
        "/train; rm -rf /",
        "/train $(id)",
        "/train\nregister: true",
        "/train\n\n",
        "\n/train",
        "/train\r/promote",
        "/train\u2028/promote",
        "/train\x00",
        "/train\u200b",
        "/tr\u0430in",
        "/\uff54rain",
        "\uff0ftrain",
        "\u2044train",
        "/promote\u00a012",
        "/promote 1 2",
        "/promote ../1",
        "/promote digits:1",
        f"/promote {'1' * 31}",
        "/compare main",
        "/tr\u200bain",
        "/trai\u0301n",
    ],
)
def test_whatever_resembles_a_command_is_refused(body: str) -> None:
    refused = parse(body)
    assert isinstance(refused, Refusal)
    assert refused.why.isascii()


@pytest.mark.parametrize(
    "body", ["", " ", "train", "/lgtm", "/rebase", "> /train", "please /train", "`/train`", "/t", "/", "//"]
)
def test_other_comments_are_ignored(body: str) -> None:
    assert parse(body) is None


@given(st.text(st.characters(codec=None, categories=None), max_size=60))
def test_only_the_grammar_is_obeyed(text: str) -> None:
    for body in (text, f"/train{text}", f"/promote {text}"):
        found = parse(body)
        if isinstance(found, Command):
            word = found.commit or found.version
            assert body.rstrip("\r\n") == f"/{found.name}" + (f" {word}" if word else "")


NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)


def scene(**changes: Any) -> Scene:
    given: dict[str, Any] = {
        "action": "created", "same": True, "created": NOON, "updated": NOON, "bot": False, "is_pull": True, "open": True,
        "forked": False, "head": HEAD, "permission": "write", "role": "write", "last_push": Push(commit=HEAD, at=NOON - MINUTE),
    }  # fmt: skip
    return Scene(**{**given, **changes})


FORKED = {"forked": True, "last_push": None}
MAINTAINER = {"role": "maintain"}


@pytest.mark.parametrize(
    ("changes", "body", "decision"),
    [
        ({}, "/train", HEAD),
        ({}, f"/train {HEAD}", HEAD),
        ({"last_push": None}, f"/train {HEAD}", HEAD),
        ({}, "/compare", HEAD),
        (MAINTAINER, "/promote", HEAD),
        ({"permission": "admin", "role": "admin"}, "/promote 3", HEAD),
        ({**FORKED, **MAINTAINER}, f"/train {HEAD}", HEAD),
        ({"action": "edited"}, "/train", "Only new comments"),
        ({"bot": True}, "/train", "Commands of bots"),
        ({"same": False}, "/train", "was edited"),
        ({"updated": NOON + MINUTE}, "/train", "was edited"),
        ({"is_pull": False}, "/train", "this is an issue"),
        ({"open": False}, "/train", "is closed"),
        ({"permission": "read", "role": "triage"}, "/train", "permission to write"),
        ({"permission": "none"}, f"/train {HEAD}", "permission to write"),
        ({"permission": "WRITE"}, "/train", "permission to write"),
        ({}, "/promote", "needs the role"),
        ({"role": "deployer"}, "/promote", "needs the role"),
        (FORKED, f"/train {HEAD}", "of a fork needs the role"),
        ({**FORKED, **MAINTAINER}, "/train", "must name the commit"),
        ({**FORKED, **MAINTAINER}, f"/train {OLD}", "not the present one"),
        ({}, f"/train {OLD}", "not the present one"),
        ({"head": MALICIOUS}, "/train", "does not show"),
        ({"last_push": None}, "/train", "does not show"),
        ({"last_push": Push(commit=HEAD, at=NOON)}, "/train", "does not show"),
        ({"last_push": Push(commit=HEAD, at=NOON + MINUTE)}, "/train", "does not show"),
    ],
)
def test_decisions(changes: dict[str, Any], body: str, decision: str) -> None:
    command = parse(body)
    assert isinstance(command, Command)
    found = decide(command, scene(**changes))
    assert (found == decision) if decision == HEAD else (isinstance(found, Refusal) and decision in found.why)


def accepted(world: World) -> bool:
    """Return whether the workflow would start something."""
    return bool(world.outputs["request"])


def test_a_command_is_accepted_with_its_commit(world: World) -> None:
    number = world.github.comment("/train")
    assert world.comment(number) == 0
    assert {name: world.outputs[name] for name in ("status", "request", "commit", "pull-request", "request-version")} == {
        "status": "accepted", "request": "train", "commit": HEAD, "pull-request": "7", "request-version": "",
    }  # fmt: skip
    assert world.github.reactions == [(number, "eyes"), (number, "rocket")]
    assert len(world.github.comments) == 1
    assert TOKEN not in world.log


def test_a_promotion_needs_a_maintainer_and_a_protected_environment(world: World) -> None:
    assert world.comment(world.github.comment("/promote 4", author="mary")) == 0
    assert (world.outputs["request"], world.outputs["request-version"]) == ("promote", "4")


@pytest.mark.parametrize(
    ("environments", "why"), [({}, "does not exist"), ({"production": ["wait_timer"]}, "requires no reviewers")]
)
def test_a_promotion_without_reviewers_is_refused(world: World, environments: dict[str, list[str]], why: str) -> None:
    world.github.environments = environments
    assert world.comment(world.github.comment("/promote", author="mary")) == 0
    assert not accepted(world)
    assert why in world.github.bodies()[0]


def test_a_maintainer_trains_the_named_commit_of_a_fork(world: World) -> None:
    world.github.pull(repository=FORK)
    assert world.comment(world.github.comment(f"/train {HEAD}", author="mary")) == 0
    assert world.outputs["commit"] == HEAD


def test_a_comment_that_is_no_command_is_left_alone(world: World) -> None:
    assert world.comment(world.github.comment("/lgtm")) == 0
    assert world.outputs["status"] == "ignored"
    assert (world.github.reactions, world.github.log) == ([], [])


def refused(world: World, number: int, why: str, **event: Any) -> None:
    """Check that the comment is refused with a reason."""
    assert world.comment(number, **event) == 0, world.log
    assert world.outputs["status"] == "refused"
    assert not accepted(world)
    assert world.outputs["commit"] == ""
    assert world.github.reactions[-1] == (number, "-1")
    (reply,) = world.github.bodies()
    assert reply.startswith("Nothing was started.")
    assert why in reply


def test_a_head_that_moved_after_the_comment(world: World) -> None:
    number = world.github.comment("/train")
    world.github.pull(head=MALICIOUS)
    world.github.push(MALICIOUS, at=LATER)
    refused(world, number, "does not show that the present commit was there")


def test_a_head_that_moved_and_whose_push_is_not_recorded_yet(world: World) -> None:
    number = world.github.comment("/train")
    world.github.pull(head=MALICIOUS)
    refused(world, number, "does not show that the present commit was there")


def test_a_head_that_was_there_moved_away_and_came_back(world: World) -> None:
    world.github.push(MALICIOUS, at="2026-11-20T11:00:00Z")
    world.github.push(HEAD, at="2026-11-20T12:00:00Z")
    number = world.github.comment("/train")
    world.github.pull(head=MALICIOUS)
    world.github.push(MALICIOUS, at=LATER)
    refused(world, number, "does not show")


def test_a_head_that_moved_after_the_named_commit(world: World) -> None:
    number = world.github.comment(f"/train {HEAD}")
    world.github.pull(head=MALICIOUS)
    refused(world, number, "not the present one")


def test_a_comment_that_was_edited_before_it_was_read(world: World) -> None:
    number = world.github.comment("/train", updated_at=LATER)
    refused(world, number, "was edited")


def test_a_comment_with_another_text_than_the_event(world: World) -> None:
    number = world.github.comment("harmless")
    refused(world, number, "was edited", body="/train")


def test_an_event_of_an_edit(world: World) -> None:
    refused(world, world.github.comment("/train"), "Only new comments", action="edited")


@pytest.mark.parametrize("author", ["eve", "stranger"])
def test_an_outsider(world: World, author: str) -> None:
    refused(world, world.github.comment("/train", author=author), "permission to write")


@pytest.mark.parametrize("bot", [{"author": "renovate[bot]", "kind": "Bot"}, {"performed_via_github_app": {"id": 1}}])
def test_a_bot_gets_no_reply(world: World, bot: dict[str, Any]) -> None:
    world.github.permissions["renovate[bot]"] = ("admin", "admin")
    number = world.github.comment("/train", **bot)
    assert world.comment(number) == 0
    assert world.outputs["status"] == "refused"
    assert not accepted(world)
    assert len(world.github.comments) == 1


def test_a_fork_without_a_maintainer(world: World) -> None:
    world.github.pull(repository=FORK)
    refused(world, world.github.comment(f"/train {HEAD}"), "of a fork needs the role")


def test_a_fork_without_a_commit(world: World) -> None:
    world.github.pull(repository=FORK)
    refused(world, world.github.comment("/train", author="mary"), "must name the commit")


def test_a_fork_that_was_deleted(world: World) -> None:
    world.github.pulls[7]["head"]["repo"] = None
    refused(world, world.github.comment("/train"), "of a fork needs the role")


def test_a_closed_pull_request(world: World) -> None:
    world.github.pull(state="closed")
    refused(world, world.github.comment("/train"), "is closed")


def test_an_issue(world: World) -> None:
    refused(world, world.github.comment("/train"), "this is an issue", pull=False)


def test_the_reply_repeats_no_foreign_text(world: World) -> None:
    refused(world, world.github.comment("/train @everyone <img src=x> #1"), "is no command")
    (reply,) = world.github.bodies()
    assert "everyone" not in reply
    assert "img" not in reply


def test_an_author_that_differs_from_the_sender(world: World) -> None:
    number = world.github.comment("/train", author="mallory")
    refused(world, number, "was edited", user={"login": "alice", "type": "User"})


def test_a_comment_that_was_deleted_is_an_error(world: World) -> None:
    number = world.github.comment("/train")
    gone = world.github.comments.pop(number)
    world.github.comments[99] = {**gone, "id": 99}
    assert world.comment(99, id=number) == 2
    assert not accepted(world)
    assert "was deleted" in world.log


def test_an_event_that_is_no_comment_is_an_error(world: World) -> None:
    assert world.act("push", {"ref": "refs/heads/main"}, command="comment") == 2
    assert "reads a comment, and this run is for the event 'push'" in world.log


def test_a_reaction_that_fails_is_noted_and_changes_nothing(world: World) -> None:
    number = world.github.comment("/train")
    world.github.failures["POST", "/api/v3/repos/octo/digits/issues/comments"] = [(403, {}), (403, {})]
    assert world.comment(number) == 0
    assert accepted(world)
    assert "No reaction to the comment: GitHub answered 403" in world.log


def test_an_outage_starts_nothing(world: World) -> None:
    world.github.failures["GET", "/api/v3/repos/octo/digits/collaborators"] = [(502, {})] * 5
    assert world.comment(world.github.comment("/train")) == 8
    assert not accepted(world)
