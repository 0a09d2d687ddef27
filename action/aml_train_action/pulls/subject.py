"""The run that a report is about, by GitHub's own word. Pure.

A report comes from a workflow that runs the code of the pull request: of a fork's, it is the fork's own word. Everything here
is from GitHub's interface, and wins over the report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from aml_train.pipeline.report.values import Report

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
