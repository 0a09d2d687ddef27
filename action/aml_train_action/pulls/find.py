"""Which pull request and commit a report is about, from GitHub and never from it.

Source: https://docs.github.com/actions/reference/workflows-and-actions/events-that-trigger-workflows#workflow_run (the payload names the
run; ``pull_requests`` is empty for forks), https://docs.github.com/rest/pulls/pulls (``head=OWNER:BRANCH``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError
from aml_train.report.values import Report
from aml_train_action.github.api import Api

Word = Literal["passed", "failed", "cancelled", "unconfirmed"]
_PASSING: Final = frozenset({"passed", "submitted", "valid", "planned", "checked"})
_CANCELLED: Final = frozenset({"cancelled", "timed-out"})


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A run of a workflow on a commit of a pull request.

    Attributes:
        repository: ``OWNER/NAME`` of the pull request.
        head_repository: of the commit; another one for a fork.
        pull_request: its number.
        head: the commit that the pull request has now.
        commit: the commit that the run is about.
        run: the id of the run; ids grow.
        attempt: of the run; from 1.
        run_url: the address of the run.
        conclusion: GitHub's word for how the run ended; empty if it has not.
    """

    repository: str
    head_repository: str
    pull_request: int
    head: str
    commit: str
    run: int
    attempt: int
    run_url: str
    conclusion: str

    @property
    def forked(self) -> bool:
        """Whether the commit is from another repository."""
        return self.repository.casefold() != self.head_repository.casefold()

    @property
    def present(self) -> bool:
        """Whether the commit is the pull request's present one."""
        return self.commit == self.head

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The order of comments: a greater one is newer."""
        return self.present, self.run, self.attempt


def passes(report: Report) -> bool:
    """Return whether the report claims a success, and does not contradict itself."""
    missed = any(rule.verdict == "missed" for rule in report.rules)
    failed = any(tests.failed for tests in report.tests)
    return (
        report.exit_code == 0 and report.status in _PASSING and report.gate != "failed" and not missed and not failed
    )


def verdict(report: Report, subject: Subject) -> Word:
    """Return the verdict: passed only if GitHub's conclusion agrees."""
    if passes(report):
        return "passed" if subject.conclusion == "success" else "unconfirmed"
    if report.status in _CANCELLED:
        return "cancelled"
    return "failed"


#: Events whose runs are about one commit of a branch.
_EVENTS: Final = ("pull_request", "push", "workflow_dispatch")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST_PULLS: Final = 5


@dataclass(frozen=True, kw_only=True)
class Found:
    """A run, and the pull requests whose commit it is about.

    *why_not* says why there is none.
    """

    run: Answer
    subjects: tuple[Subject, ...] = ()
    why_not: str = ""


def is_commit(text: str) -> bool:
    """Return whether *text* is the whole id of a commit."""
    return bool(_COMMIT.fullmatch(text))


def find_triggering(api: Api, payload: Answer, workflow: str) -> Found:
    """Return what the run of a ``workflow_run`` event is about.

    Args:
        api: GitHub.
        payload: the event's.
        workflow: the file of the workflow whose reports are shown, such as ``train.yml``.

    Raises:
        InvalidError: GitHub describes another run than the event.
    """
    if payload.optional_text("action") != "completed":
        raise InvalidError(
            "Reports are read of runs that have ended: write `types: [completed]` under `workflow_run`."
        )
    number, attempt = payload.whole("workflow_run.id"), payload.whole("workflow_run.run_attempt")
    run = api.get(f"actions/runs/{number}/attempts/{attempt}")
    same = ("id", "run_attempt", "head_sha", "event", "path")
    differing = [name for name in same if run.literal(name) != payload.literal(f"workflow_run.{name}")]
    if differing or run.text("repository.full_name") != api.repository:
        raise InvalidError(
            f"GitHub describes another run than the event: {', '.join(differing) or 'its repository'}."
        )
    # `path` may have the ref behind it, as for workflows of other repositories.
    path = run.text("path").partition("@")[0]
    if path != f".github/workflows/{workflow}":
        return Found(run=run, why_not=f"the run is one of {path}, and reports are read of {workflow}")
    if run.text("event") not in _EVENTS:
        return Found(run=run, why_not=f"the run is for the event {run.text('event')}")
    if not run.has("head_repository"):
        return Found(run=run, why_not="the repository of the commit was deleted")
    subjects = _subjects(api, run)
    why_not = "" if subjects else "no open pull request has this branch"
    return Found(run=run, subjects=subjects, why_not=why_not)


def _subjects(api: Api, run: Answer) -> tuple[Subject, ...]:
    commit, head_repository = run.text("head_sha"), run.text("head_repository.full_name")
    branch = run.optional_text("head_branch")
    if branch is None or not is_commit(commit):
        return ()
    owner = run.text("head_repository.owner.login")
    pulls = [
        pull
        for pull in api.pages("pulls", state="open", head=f"{owner}:{branch}")
        if pull.has("head.repo")
        and pull.text("head.repo.full_name") == head_repository
        and pull.text("head.ref") == branch
        and pull.text("base.repo.full_name") == api.repository
    ]
    conclusion = run.optional_text("conclusion") or ""
    return tuple(_subject(api, run, pull, commit=commit, conclusion=conclusion) for pull in pulls[:_MOST_PULLS])


def _subject(api: Api, run: Answer, pull: Answer, *, commit: str, conclusion: str) -> Subject:
    return Subject(
        repository=api.repository,
        head_repository=pull.text("head.repo.full_name"),
        pull_request=_whole(pull, "number"),
        head=pull.text("head.sha"),
        commit=commit,
        run=_whole(run, "id"),
        attempt=_whole(run, "run_attempt"),
        run_url=run.text("html_url"),
        conclusion=conclusion,
    )


def _whole(answer: Answer, name: str) -> int:
    number = answer.whole(name)
    if number is None or number <= 0:
        raise InvalidError(f"GitHub's answer has no {name}.")
    return number
