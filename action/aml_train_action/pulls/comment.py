"""A report as one comment of a pull request. Pure.

GitHub refuses a body that is too long as a whole: older servers count 65,536 characters, github.com 262,144 bytes. A comment of at
most 65,536 bytes passes however it is counted. The least important parts are cut first, and the comment names them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aml_train.report.markdown import literal, message, own_link, render_section
from aml_train.report.sections import sections_of
from aml_train.report.values import Report, fitted
from aml_train_action.pulls.find import Subject, Word, verdict

_MARKER: Final = re.compile(
    r"<!-- aml-train:report:1 (?P<key>[0-9a-f]{32}) (?P<run>[1-9][0-9]{0,18}) (?P<attempt>[1-9][0-9]{0,8}) "
    r"(?P<commit>[0-9a-f]{40,64}) -->(?:\r?\n|$)"
)


@dataclass(frozen=True, kw_only=True)
class Marker:
    """The report that a comment shows.

    Attributes:
        key: of the configuration and its target.
        run: the id of the workflow's run.
        attempt: of the run.
        commit: the commit.
    """

    key: str
    run: int
    attempt: int
    commit: str

    def __str__(self) -> str:
        return f"<!-- aml-train:report:1 {self.key} {self.run} {self.attempt} {self.commit} -->"

    def rank(self, head: str) -> tuple[bool, int, int]:
        """Return the order of the comment, as that of a :class:`Subject`."""
        return self.commit == head, self.run, self.attempt


def key_of(configuration: str, target: str) -> str:
    """Return the key of a configuration's comment: digits, whatever the names are."""
    return hashlib.sha256(json.dumps([configuration, target]).encode()).hexdigest()[:32]


def marker_of(configuration: str, target: str, subject: Subject) -> Marker:
    """Return the marker of a comment about *subject*."""
    return Marker(key=key_of(configuration, target), run=subject.run, attempt=subject.attempt, commit=subject.commit)


def read_marker(body: str) -> Marker | None:
    """Return the marker at the start of a comment; None if there is none."""
    found = _MARKER.match(body)
    if found is None:
        return None
    return Marker(key=found["key"], run=int(found["run"]), attempt=int(found["attempt"]), commit=found["commit"])


LIMIT: Final = 65_536
#: The sections of a report that a comment has room for; its origin is GitHub's word, not the report's.
_SHOWN: Final = frozenset(
    {"gate", "failures", "baseline", "run", "curves", "nodes", "checks", "metrics", "notices", "reproduce"}
)
_SIGNS: Final[dict[Word, str]] = {"passed": "✅", "failed": "❌", "cancelled": "⚪", "unconfirmed": "❌"}
#: Ending → what to do next. A word that is not here is shown, and nothing is advised.
_NEXT: Final = {
    "passed": "The gate is met. After the merge, the run of the default branch finds this job and registers its model.",
    "submitted": "The job runs. A step with <code>command: attach</code> gates it once it has ended.",
    "valid": "The configuration is valid. Nothing was trained.",
    "planned": "This is a plan. Nothing was trained.",
    "checked": "The set-up is complete. Nothing was trained.",
    "gate-failed": "Compare the missed rules with the baseline below; change the training or, with a reason, the rule.",
    "tests-failed": "The tests failed in the very image that would train: run them with the command at the end.",
    "job-failed": "The workflow's summary has the traceback of the job, and the ends of its logs.",
    "image-failed": "The workflow's log has the output of the build.",
    "invalid": "Correct the configuration; nothing was built or submitted.",
    "cancelled": "Run the workflow again: what was built and tested is found again.",
    "timed-out": "Raise <code>timeout</code>, or train for fewer steps.",
    "preempted": "Run the workflow again, or use a compute that is not preempted.",
    "not-responding": "AzureML lost contact with the node: run the workflow again.",
    "service-error": "A service refused or did not answer: the message has its words. Run the workflow again after an outage.",
    "not-verified": "The passport of the model could not be issued: the message has the reason.",
    "error": "This is a fault of aml-train: please report it with the traceback in the workflow's log.",
}


def render_comment(report: Report, subject: Subject, *, limit: int = LIMIT) -> str:
    """Return the comment, with its marker, in at most *limit* bytes."""
    return fitted(report, lambda one: "\n".join(_render(one, subject)).encode(), most=limit).decode()


def _render(report: Report, subject: Subject) -> Iterator[str]:
    yield str(marker_of(report.configuration, report.target, subject))
    word = verdict(report, subject)
    shown = "not confirmed" if word == "unconfirmed" else literal(report.status, most=40)
    exit_code = f" (exit code {report.exit_code})" if report.exit_code else ""
    yield f"### {_SIGNS[word]} {literal(report.title, most=100) or 'aml-train'}: {shown}{exit_code}\n"
    place = (
        f"Commit {literal(subject.commit[:12])}",
        own_link("the workflow's run", subject.run_url),
        f"configuration {literal(report.configuration, most=200)}" if report.configuration else "",
        f"target {literal(report.target, most=100)}" if report.target else "",
    )
    yield " · ".join(filter(None, place)) + "\n"
    yield from _trust(report, subject, word)
    for text in filter(None, (report.message, report.hint)):
        yield message(text, most=2_000) + "\n"
    if advice := _NEXT.get(report.status):
        yield f"Next: {advice}\n"
    yield from (render_section(one) for one in sections_of(report) if one.name in _SHOWN)


def _trust(report: Report, subject: Subject, word: Word) -> Iterator[str]:
    """Say what the trusted side does not vouch for."""
    if word == "unconfirmed":
        ended = subject.conclusion or "without a conclusion"
        yield (
            f"> The report says {literal(report.status, most=40)}, and GitHub that the workflow ended with "
            f"{literal(ended, most=40)}: this commit has not passed.\n"
        )
    if subject.forked:
        yield (
            f"> The commit is from the fork {literal(subject.head_repository, most=200)}, whose own code made this report: "
            "its numbers are the fork's word. The conclusion of the workflow is GitHub's.\n"
        )
    if not subject.present:
        yield f"> The pull request has a newer commit, {literal(subject.head[:12])}.\n"
