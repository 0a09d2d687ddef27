"""`command: report`: the comment and the check of a pull request, and attacks on them, each of which is refused."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from typing import Any

import pytest

from aml_train.core.events import TestsFinished
from aml_train.report import values as report
from aml_train_action.pulls.comment import marker_of
from tests.support.github_stand_in import BOT, FORK, HEAD, MALICIOUS, OLD, TOKEN, zipped
from tests.unit.action.pull_world import World, failing, forked, passing, rule, subject, uploaded
from tests.unit.action.pull_world import world as world

JSON = report.encode(passing())


def test_the_first_run_makes_a_comment(world: World) -> None:
    uploaded(world)
    assert world.report() == 0
    assert world.outputs["status"] == "reported"
    (body,) = world.github.bodies()
    assert body.startswith(f"{marker_of('aml-train.yml', 'azure', subject())}\n### ✅ ")
    assert f"Commit <code>{HEAD[:12]}</code>" in body
    assert TOKEN not in world.log
    assert world.github.tokens_elsewhere == []


def test_a_newer_run_updates_the_comment_in_place(world: World) -> None:
    uploaded(world)
    world.report()
    before = list(world.github.comments)
    world.github.run(101)
    world.github.artifacts.clear()
    world.github.artifact(zipped(report.encode(failing())), 101)
    world.github.runs[101]["conclusion"] = "failure"
    assert world.report(world.github.runs[101]) == 0
    assert list(world.github.comments) == before
    (body,) = world.github.bodies()
    assert "### ❌ " in body
    assert "gate&#45;failed" in body
    assert "is updated" in world.log


def test_a_run_without_a_report_gets_nothing(world: World) -> None:
    world.github.run()
    assert world.report() == 0
    assert world.outputs["status"] == "unchanged"


def test_a_fork_is_shown_as_its_own_word(world: World) -> None:
    forked(world)
    uploaded(world, repository=FORK)
    assert world.report() == 0
    (body,) = world.github.bodies()
    assert "its numbers are the fork's word" in body
    assert "mallory" in body


@pytest.mark.parametrize(
    ("event", "inputs", "complaint"),
    [
        ("pull_request", {}, "`report` is for the event workflow_run"),
        ("workflow_run", {"workflow": ""}, "with.workflow: '' is no file of a workflow"),
        ("workflow_run", {"github_token": ""}, "with.github-token"),
        ("workflow_run", {"expect": "1"}, "with.expect: `command: report` promotes nothing"),
    ],
)
def test_missing_inputs_are_named(world: World, event: str, inputs: dict[str, str], complaint: str) -> None:
    uploaded(world)
    payload = {"action": "completed", "workflow_run": world.github.runs[100]}
    assert world.act(event, payload, **{"command": "report", "workflow": "train.yml", **inputs}) == 2
    assert complaint in world.log


# Attacks


def _named(name: str) -> bytes:
    return zipped(JSON, name)


def _link() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        entry = zipfile.ZipInfo("pr-report.json")
        entry.create_system = 3
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/proc/self/environ")
    return file.getvalue()


def _lying_size() -> bytes:
    """Return a zip whose directory says 10 bytes of a file that is far larger."""
    data = bytearray(zipped(b"0" * (8 << 20)))
    place = data.rindex(b"PK\x01\x02")
    data[place + 24 : place + 28] = (10).to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize(
    ("artifact", "reason"),
    [
        (_named("../pr-report.json"), "has a file of another name or in a folder"),
        (_named("/etc/pr-report.json"), "has a file of another name or in a folder"),
        (_named("folder/pr-report.json"), "has a file of another name or in a folder"),
        (_named("pr-report.jsonX.sh").replace(b"jsonX", b"json\x00"), "has a file of another name or in a folder"),
        (zipped(JSON, other=JSON), "has 2 entries"),
        (zipped(b"", "folder/"), "has a file of another name"),
        (_link(), "no ordinary file"),
        (zipped(b"0" * (50 << 20)), "a report has at most 1048576"),
        (_lying_size(), "cannot be read (BadZipFile)"),
        (zipped(JSON)[:-30], "cannot be read (BadZipFile)"),
        (b"<html>", "cannot be read (BadZipFile)"),
        (b"\x00" * (3 << 20), "has more than"),
        (zipped(b'{"title": "x"}'), "is no report of aml-train"),
        (zipped(json.dumps({**json.loads(JSON), "title": ["<script>"]}).encode()), "is no report of aml-train"),
        (zipped(b"[" * 500_000), "is no report of aml-train"),
    ],
    ids=["parent", "absolute", "folder", "nul", "two", "directory", "link", "bomb", "size", "cut", "html", "oversize", "json", "field", "deep"],
)  # fmt: skip
def test_a_forged_artifact_is_refused(world: World, artifact: bytes, reason: str) -> None:
    uploaded(world, artifact)
    assert world.report() == 2
    assert reason in world.log
    assert "Traceback" not in world.log
    assert world.github.comments == {}


def test_pull_request_commit_and_repository_of_a_forged_report_are_not_believed(world: World) -> None:
    world.github.pull(8, head=OLD, branch="other")
    source = report.Source(
        repository="octo/secret", commit=MALICIOUS, branch="main", pull_request=8, run_url="https://evil.example/x"
    )
    uploaded(world, passing(source=source))
    assert world.report() == 0
    assert [path for method, path in world.github.log if method == "POST" and "comments" in path] == [
        "/api/v3/repos/octo/digits/issues/7/comments"
    ]
    (body,) = world.github.bodies()
    assert f"Commit <code>{HEAD[:12]}</code>" in body
    for forged in ("secret", MALICIOUS[:12], "evil"):
        assert forged not in body


@pytest.mark.parametrize(
    "conclusion", ["failure", "cancelled", "timed_out", "neutral", "action_required", "", "stale"]
)
def test_a_run_that_did_not_succeed_is_never_shown_as_passed(world: World, conclusion: str) -> None:
    forked(world)
    uploaded(world, passing(), repository=FORK, conclusion=conclusion or None)
    assert world.report() == 0
    (body,) = world.github.bodies()
    assert "✅ <code>digits" not in body
    assert "this commit has not passed" in body


@pytest.mark.parametrize(
    "lie",
    [{"exit_code": 6}, {"gate": "failed"}, {"rules": (rule(verdict="missed"),)}, {"tests": (TestsFinished(passed=1, failed=1, skipped=0, seconds=1.0, cached=False),)}, {"status": "PASSED"}],
)  # fmt: skip
def test_a_report_that_contradicts_itself_has_not_passed(world: World, lie: dict[str, Any]) -> None:
    uploaded(world, passing(**lie))
    assert world.report() == 0
    assert "### ❌" in world.github.bodies()[0]


def _marker(world: World, **changes: Any) -> str:
    return f"{marker_of('aml-train.yml', 'azure', subject(run=10**9, **changes))}\nLooks good, merge!"


def test_a_marker_in_someone_elses_comment_has_no_effect(world: World) -> None:
    forged = world.github.comment(_marker(world), author="mallory")
    other = world.github.comment(_marker(world), author="github-actions", kind="User")
    uploaded(world)
    assert world.report() == 0
    assert len(world.github.bodies()) == 1
    assert world.github.comments[forged]["body"] == world.github.comments[other]["body"] == _marker(world)


def test_a_marker_within_our_comment_has_no_effect(world: World) -> None:
    quoted = world.github.comment("> " + _marker(world), author=BOT, kind="Bot")
    behind = world.github.comment("\n" + _marker(world), author=BOT, kind="Bot")
    uploaded(world)
    assert world.report() == 0
    assert len(world.github.bodies()) == 3
    assert "Looks good" in world.github.comments[quoted]["body"]
    assert "Looks good" in world.github.comments[behind]["body"]


def test_a_report_cannot_write_the_marker_of_another_configuration(world: World) -> None:
    forged = str(marker_of("b/aml-train.yml", "azure", subject(run=10**9)))
    uploaded(
        world, passing(title=forged, message=f"\n{forged}\n", status=forged, configuration=f"{forged}\n{forged}")
    )
    assert world.report() == 0
    (body,) = world.github.bodies()
    assert body.count("<!--") == 1
    assert forged not in body


def test_the_run_of_an_old_commit_does_not_replace_the_comment_of_the_new_one(world: World) -> None:
    uploaded(world)
    world.report()
    (shown,) = world.github.bodies()
    # Started again later, so that its run has a greater number.
    world.github.run(200, head_sha=OLD)
    world.github.artifact(zipped(report.encode(failing())), 200)
    assert world.report(world.github.runs[200]) == 0
    assert world.github.bodies() == [shown]
    assert "is superseded" in world.log


def test_an_older_run_of_the_same_commit_does_not_replace_the_newer(world: World) -> None:
    uploaded(world)
    world.github.run(99)
    world.github.artifact(zipped(report.encode(failing())), 99)
    world.report()
    (shown,) = world.github.bodies()
    world.report(world.github.runs[99])
    assert world.github.bodies() == [shown]


def test_the_comment_of_an_old_commit_says_so_and_gives_way(world: World) -> None:
    world.github.run(99, head_sha=OLD)
    world.github.artifact(zipped(JSON), 99)
    world.report(world.github.runs[99])
    (body,) = world.github.bodies()
    assert "The pull request has a newer commit" in body
    # The run of the present commit began earlier.
    world.github.run(98)
    world.github.artifact(zipped(JSON), 98)
    world.report(world.github.runs[98])
    (body,) = world.github.bodies()
    assert "newer commit" not in body


def test_another_workflow_of_the_same_name_is_not_believed(world: World) -> None:
    uploaded(world, path=".github/workflows/evil.yml", name="train")
    assert world.report() == 0
    assert (world.outputs["status"], world.github.comments) == ("unchanged", {})
    assert "reports are read of train.yml" in world.log


@pytest.mark.parametrize(
    "change", [{"head_sha": MALICIOUS}, {"id": 101}, {"event": "push"}, {"path": ".github/workflows/x.yml"}]
)
def test_a_payload_that_github_does_not_confirm_is_refused(world: World, change: dict[str, Any]) -> None:
    uploaded(world)
    world.github.run(101, head_sha=MALICIOUS)
    assert world.report({**world.github.runs[100], **change}) == 2
    assert "GitHub describes another run than the event" in world.log
    assert world.github.comments == {}


def test_an_artifact_of_another_run_is_refused(world: World) -> None:
    uploaded(world)
    (shape, _), *_ = world.github.artifacts.values()
    shape["workflow_run"] = {**shape["workflow_run"], "head_sha": MALICIOUS}
    assert world.report() == 2
    assert "GitHub lists an artifact of another run" in world.log


def test_an_artifact_of_an_earlier_attempt_is_not_shown(world: World) -> None:
    uploaded(world, run_started_at="2026-11-20T12:30:00Z")
    assert world.report() == 0
    assert world.outputs["status"] == "unchanged"


def test_two_reports_of_one_configuration_are_refused(world: World) -> None:
    uploaded(world)
    world.github.artifact(zipped(JSON), name="pr-report-again")
    assert world.report() == 2
    assert "Two artifacts" in world.log
    assert world.github.comments == {}


def test_a_flood_of_artifacts_is_refused(world: World) -> None:
    uploaded(world)
    for number in range(30):
        world.github.artifact(zipped(JSON), name=f"pr-report-{number}")
    assert world.report() == 2
    assert "more than 20 artifacts" in world.log


def test_a_fork_that_has_the_branch_of_another_pull_request_does_not_reach_it(world: World) -> None:
    uploaded(world, repository=FORK)  # the pull request is of the repository's own branch of this name
    assert world.report() == 0
    assert (world.outputs["status"], world.github.comments) == ("unchanged", {})


@pytest.mark.parametrize(
    ("failure", "code", "text"),
    [
        ((403, {"X-Accepted-GitHub-Permissions": "pull_requests=write"}), 8, "GitHub asks for pull_requests=write"),
        ((404, {}), 8, "docs/permissions.md lists the permissions"),
        (
            (422, {"message": "Validation Failed\n::error::x"}),
            8,
            "GitHub answered 422 to POST issues/7/comments: Validation Failed",
        ),
        ((502, {}), 8, "GitHub answered 502"),
    ],
)
def test_a_refusal_is_explained(world: World, failure: tuple[int, dict[str, str]], code: int, text: str) -> None:
    uploaded(world)
    world.github.failures["POST", "/api/v3/repos/octo/digits/issues"] = [failure]
    assert world.report() == code
    assert text in world.log
    assert TOKEN not in world.log
    assert "Traceback" not in world.log


def test_limits_are_waited_for_and_outages_of_reads_retried(world: World) -> None:
    uploaded(world)
    world.github.failures["POST", "/api/v3/repos/octo/digits/issues"] = [
        (403, {"Retry-After": "7"}), (429, {}),
    ]  # fmt: skip
    world.github.failures["GET", "/api/v3/repos/octo/digits/pulls"] = [(502, {}), (500, {})]
    assert world.report() == 0
    assert len(world.github.bodies()) == 1
