"""Which runs register by default: a table over all events, and over what is checked out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aml_train.core.trust import PROTECTED
from aml_train_action.github.proposals import Checkout, Event, branch_of, read_event, trust_of, why_proposed
from aml_train_action.github.step import read_step

SHA, OTHER = "a" * 40, "b" * 40
#: https://docs.github.com/actions/reference/workflows-and-actions/events-that-trigger-workflows, in its order.
_LIST = """
branch_protection_rule check_run check_suite create delete deployment deployment_status discussion discussion_comment
fork gollum image_version issue_comment issues label merge_group milestone page_build project project_card project_column
public pull_request pull_request_review pull_request_review_comment pull_request_target push registry_package release
repository_dispatch schedule status watch workflow_call workflow_dispatch workflow_run
"""
DOCUMENTED = _LIST.split()
MAIN = Checkout(commit=SHA, repository="github.com/octo/digits")


def event(name: str = "push", ref: str = "refs/heads/main", sha: str = SHA, default: str | None = "main") -> Event:
    return Event(name=name, ref=ref, sha=sha, repository="Octo/digits", default_branch=default)


def checkout(answers: dict[str, bool | None], repository: str = "github.com/octo/digits") -> Checkout:
    """Return a checkout of another commit than the event's, and what its history tells of revisions."""
    return Checkout(commit=OTHER, repository=repository, contains=lambda revision: answers.get(revision))


@pytest.mark.parametrize("name", DOCUMENTED)
def test_of_all_events_three_register_from_the_default_branch(name: str) -> None:
    reason = why_proposed(event(name), MAIN)
    assert (reason is None) is (name in ("push", "schedule", "workflow_dispatch"))
    assert reason is None or f"`{name}`" in reason


@pytest.mark.parametrize("name", DOCUMENTED)
def test_no_event_registers_another_commit(name: str) -> None:
    """A comment on a pull request, and a checkout of the pull request: what is trained is not main's."""
    assert why_proposed(event(name), checkout({SHA: False, "refs/remotes/origin/main": False})) is not None
    assert branch_of(event(name), checkout({SHA: False, "refs/remotes/origin/main": False})) is None


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_run_that_registers_by_default_is_one_of_the_protected_branch(name: str) -> None:
    assert trust_of(event(name), MAIN, register=None).protected is (why_proposed(event(name), MAIN) is None)
    assert not trust_of(event(name), MAIN, register=False).protected
    waits = name.startswith("pull_request") or name == "merge_group"
    assert trust_of(event(name), MAIN, register=True).protected is not waits


@pytest.mark.parametrize(
    ("given", "here", "register", "group"),
    [
        (event(), MAIN, None, None),
        (event(ref="refs/heads/release/1", sha=SHA), MAIN, True, None),
        (event("pull_request", ref="refs/pull/7/merge"), MAIN, None, "pull-7"),
        (event("pull_request", ref="refs/pull/7/merge"), MAIN, True, "pull-7"),
        # A branch may have any name, and is no pull request of that number.
        (event(ref="refs/heads/pull/7"), MAIN, None, "branch-pull/7"),
        (event(ref="refs/heads/main"), checkout({SHA: False}), None, f"commit-{OTHER}"),
        (event("issue_comment"), checkout({}), None, f"commit-{OTHER}"),
        (event("workflow_run"), Checkout(commit=None), None, "local"),
    ],
)
def test_proposals_believe_the_records_of_their_group(
    given: Event, here: Checkout, register: bool | None, group: str | None
) -> None:
    assert trust_of(given, here, register=register).group == group
    assert (group is None) is (trust_of(given, here, register=register) == PROTECTED)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_no_event_registers_from_another_ref(name: str) -> None:
    for ref in ("refs/heads/feature", "refs/pull/7/merge", "refs/tags/v1", "refs/tags/main", "refs/heads/", ""):
        assert why_proposed(event(name, ref=ref), MAIN) is not None, ref


@pytest.mark.parametrize(
    ("given", "here", "reason"),
    [
        (event(""), MAIN, "it runs for no event of GitHub"),
        (event("dynamic"), MAIN, "the event `dynamic` can be about a commit that is only proposed"),
        (event(default=None), MAIN, "does not name the repository's default branch"),
        (event(ref="refs/heads/feature"), MAIN, "it runs for refs/heads/feature, and not for the default branch main"),
        (event(ref=""), MAIN, "it runs for no ref"),
        (event(), Checkout(commit=None), "no commit is checked out"),
        (event(), checkout({SHA: True}), None),
        (event(), checkout({SHA: False, "refs/remotes/origin/main": True}), None),
        (event(), checkout({SHA: False, "refs/remotes/origin/main": False}), "bbbbbbbbbbbb is checked out, which is not on main"),
        (event(), checkout({SHA: None}), "bbbbbbbbbbbb is checked out and not aaaaaaaaaaaa, and the history that was fetched does not show whether it is on main: give actions/checkout `fetch-depth: 0`"),
        (event(), checkout({"refs/remotes/origin/main": True}, "github.com/fork/digits"), "github.com/fork/digits is checked out, and not Octo/digits"),
        (event(), checkout({"refs/remotes/origin/main": True}, ""), "fetch-depth: 0"),
        (event(sha=""), Checkout(commit=SHA, contains=lambda _revision: None), "and not the commit of the event"),
        (event(), Checkout(commit=SHA), None),
    ],
)  # fmt: skip
def test_what_is_checked_out_decides(given: Event, here: Checkout, reason: str | None) -> None:
    found = why_proposed(given, here)
    assert found is None if reason is None else reason in str(found)


@pytest.mark.parametrize(
    ("given", "here", "branch"),
    [
        (event(), MAIN, "main"),
        (event(ref="refs/heads/feature/x"), MAIN, "feature/x"),
        (event(), checkout({SHA: True}), "main"),
        (event(), checkout({SHA: None}), None),
        (event("pull_request", ref="refs/pull/12/merge"), MAIN, "pull/12"),
        (event("pull_request", ref="refs/pull/12/merge"), checkout({SHA: False}), "pull/12"),
        (event("issue_comment"), MAIN, None),
        (event("pull_request_target"), MAIN, None),
        (event(ref="refs/tags/v1"), MAIN, None),
        (event(ref=""), MAIN, None),
        (event("dynamic"), MAIN, None),
    ],
)
def test_a_branch_is_named_only_where_the_commit_is_its_own(given: Event, here: Checkout, branch: str | None) -> None:
    assert branch_of(given, here) == branch


@pytest.mark.parametrize(
    ("name", "payload", "default"),
    [
        ("push", {"repository": {"default_branch": "trunk"}}, "trunk"),
        ("schedule", {"schedule": "0 0 * * *"}, "main"),
        ("push", {"repository": {}}, None),
        ("push", {"repository": None}, None),
        ("push", {"repository": {"default_branch": 5}}, None),
        ("push", [], None),
        ("push", None, None),
        ("schedule", None, "main"),
    ],
)
def test_the_default_branch_comes_from_the_payload(
    name: str, payload: object, default: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "event.json"
    if payload is not None:
        file.write_text(json.dumps(payload))
    environ = {"GITHUB_EVENT_NAME": name, "GITHUB_REF": "refs/heads/main", "GITHUB_EVENT_PATH": str(file)}
    assert read_event(environ).default_branch == default


def test_a_broken_payload_names_nothing(tmp_path: Path) -> None:
    for content in ("{", "[" * 100_000, "\udcff"):
        (tmp_path / "e").write_text(content, errors="surrogateescape")
        assert (
            read_event({"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": str(tmp_path / "e")}).default_branch is None
        )
    assert read_event({"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": str(tmp_path)}).default_branch is None


def test_a_comment_supersedes_no_run_of_the_branch() -> None:
    def group(name: str) -> str:
        environ = {"GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "1", "GITHUB_REF": "refs/heads/main"}
        found = read_step({**environ, "GITHUB_EVENT_NAME": name}).group
        assert found is not None
        return found.name

    assert group("push") == group("schedule") == "o/r@main"
    assert group("issue_comment") == "o/r@main / issue_comment"
