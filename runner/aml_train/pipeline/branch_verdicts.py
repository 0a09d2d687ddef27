"""Record gate decisions in jobs' tags; find a branch's last job that passed.

Several branches may share a job, since the same work has the same name: a branch's run attaches to the job of a pull request.
Therefore each branch has a separate tag, whose value is complete by itself. Everybody who may write to the workspace can write
such a tag, the training code included: a verdict counts once it is proved (:mod:`aml_train.pipeline.proof`).
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import msgspec

from aml_train.core.git import Origin
from aml_train.core.tags import KEY_LENGTH, Tag
from aml_train.gate.decide import Decision
from aml_train.gate.decide import GateWord as GateWord
from aml_train.gate.recompute import DATA_RULE, record, recorded_rules
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, Workspace

_AT: Final = re.compile(r'"at":"[^"]*",')
#: Jobs that are examined once one was found: a later verdict may be on a job that was submitted earlier.
_ENOUGH: Final = 200
#: Verdicts that are proved at most: each costs an export of its commit.
_MOST_PROVED: Final = 10


@dataclass(frozen=True, kw_only=True)
class BranchVerdict:
    """How a run of a branch ended that had read a completed job's metrics.

    Attributes:
        gate: ``none`` where it has no rules, ``skipped`` where all were skipped: both let the run pass as well.
        at: the time, ISO 8601 in UTC.
        commit, repository, configuration: as in :class:`aml_train.core.git.Origin`.
        rules: the rules of the gate as RuleVerdict, in the order of the configuration, as far as a tag has room.
        against: the job of the baseline that limits came from; empty for none.
    """

    gate: GateWord
    at: str
    commit: str
    repository: str
    configuration: str
    rules: tuple[Any, ...] = ()
    against: str = ""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What became of proving a verdict.

    Attributes:
        fault: why it is not proved; empty if it is.
        altered: the job is the branch's own work, and something of it was changed after its verdict.
    """

    fault: str = ""
    altered: bool = False


class Prover(Protocol):
    """Proves the verdicts of branches; see :class:`aml_train.pipeline.proof.GitProver`."""

    @property
    def origin(self) -> Origin | None:
        """Where this run comes from."""

    def prove(self, service: Workspace, job: JobView, branch: str, verdict: BranchVerdict) -> Proof:
        """Return whether the verdict on *job* is one of a run of *branch*, and still holds."""

    def fault_of_work(self, service: Workspace, job: JobView, branch: str, commit: str) -> str:
        """Return why *job* is not proved to be what *commit* of *branch* trains; empty if it is."""


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Takes verdicts and jobs for what their tags say: for comparisons and reports, and for ``proof: recorded``."""

    origin: Origin | None

    def prove(self, service: Workspace, job: JobView, branch: str, verdict: BranchVerdict) -> Proof:
        """See :class:`Prover`."""
        del service, job, branch, verdict
        return Proof()

    def fault_of_work(self, service: Workspace, job: JobView, branch: str, commit: str) -> str:
        """See :class:`Prover`."""
        del service, job, branch, commit
        return ""


@dataclass(frozen=True, kw_only=True)
class LastPassed:
    """The last job of a branch that passed.

    Attributes:
        view: the job; None where there is none.
        why: why there is none.
        doubted: there are verdicts that could not be proved: that there is none does not mean that there never was one.
    """

    view: JobView | None = None
    why: str = ""
    doubted: bool = False


def verdict_tag(branch: str) -> str:
    """Return the tag of *branch*, empty for none; if its name is too long for a tag, with a hash."""
    tag = Tag.VERDICT + branch
    if len(tag) <= KEY_LENGTH:
        return tag
    mark = hashlib.sha256(branch.encode(errors="surrogatepass")).hexdigest()[:12]
    return f"{tag[: KEY_LENGTH - len(mark) - 1]}-{mark}"


def branch_of(origin: Origin | None) -> str | None:
    """Return the branch that a run counts for.

    None without a branch, and if files differ from the commit.
    """
    return None if origin is None or origin.dirty else origin.branch


def read_verdict(tags: Mapping[str, str], branch: str) -> BranchVerdict | None:
    """Return *branch*'s verdict from a job's *tags*; None if there is no valid one."""
    try:
        found = msgspec.json.decode(tags.get(verdict_tag(branch), ""), type=BranchVerdict)
        return replace(found, rules=tuple(recorded_rules(list(found.rules))))
    except (ValueError, RecursionError):
        # Tags can be changed by hand: what is no verdict of ours is none.
        return None


def record_verdict(
    service: Workspace,
    job: JobView,
    origin: Origin | None,
    decision: Decision | None,
    *,
    now: datetime.datetime,
    against: str = "",
    later: bool = False,
) -> None:
    """Record the gate's decision in the job's tags, for people and for the branch; None is a run that failed before it.

    Tags that have the same decision already are not written, so that repeating a run does not make it the latest. A *later* look at a
    job leaves the verdict of its run, and adds its own: that of its branch, or of no branch.

    Args:
        against: the job of the baseline that it was compared with; empty for none.
        later: whether another run has submitted the job.

    Raises:
        ServiceError: the service refuses or does not answer.
    """
    word: GateWord = "failed" if decision is None else decision.word
    rules = () if decision is None else decision.rules
    tags = {Tag.GATE: word} | ({Tag.RULES: record(rules)} if rules or Tag.RULES in job.tags else {})
    branch, changed = branch_of(origin), any(job.tags.get(name) != value for name, value in tags.items())
    if later and Tag.GATE in job.tags:
        tags = {}
    if branch is not None or (changed and not tags):
        members = {
            "gate": word,
            "at": now.astimezone(datetime.UTC).isoformat(timespec="milliseconds"),
            **{name: getattr(origin, name, "") for name in ("commit", "repository", "configuration")},
            "against": against,
        }
        name = verdict_tag(branch or "")
        text = record([rule for rule in rules if rule.rule != DATA_RULE], members)
        if _AT.sub("", job.tags.get(name, "")) != _AT.sub("", text):
            tags[name] = text
    if any(job.tags.get(name) != value for name, value in tags.items()):
        service.tag(job.name, tags)


def latest_passed(
    service: Workspace, prover: Prover | None, branch: str, *, besides: str | None = None
) -> LastPassed:
    """Return the job of the last run of *branch* that passed, as far as that is proved.

    Only runs of the same repository and configuration count. A verdict that is not proved is passed over, with a reason. One
    whose job was altered is not: what would be compared with instead is an older, weaker job.

    Args:
        prover: proves verdicts.
        branch: the branch's name.
        besides: a job that does not count: nothing is its own baseline.

    Raises:
        ServiceError: the service does not answer.
    """
    origin = prover.origin if prover is not None else None
    if prover is None or origin is None:
        return LastPassed(why="nothing says which runs are this project's")
    passed: list[tuple[BranchVerdict, JobView]] = []
    others = 0
    for scanned, view in enumerate(service.tagged_jobs(verdict_tag(branch)), 1):
        verdict = read_verdict(view.tags, branch)
        if verdict is None or not origin.is_of(verdict.repository, verdict.configuration) or view.name == besides:
            others += 1
        elif verdict.gate != "failed" and view.status is JobStatus.COMPLETED:
            passed.append((verdict, view))
        if passed and scanned >= _ENOUGH:
            break
    return _first_proved(service, prover, branch, passed) or LastPassed(
        why=f"no run of {origin.configuration} in {origin.repository or 'this repository'} on the branch {branch} has passed"
        + (f"; {others} of its jobs are of other configurations, or the candidate itself" if others else "")
        + ("" if origin.commit else "; without git, AML_TRAIN_BRANCH names the branch of a run")
    )


def _first_proved(
    service: Workspace, prover: Prover, branch: str, passed: Sequence[tuple[BranchVerdict, JobView]]
) -> LastPassed | None:
    """Return the newest proved one of *passed*; None if there is nothing to prove."""
    newest = sorted(passed, key=lambda one: one[0].at, reverse=True)
    first = ""
    for verdict, view in itertools.islice(newest, _MOST_PROVED):
        proof = prover.prove(service, view, branch, verdict)
        if not proof.fault:
            return LastPassed(view=view)
        why = f"the verdict of the job {view.name} on the branch {branch} does not count: {proof.fault}"
        if proof.altered:
            return LastPassed(why=why, doubted=True)
        first = first or why
    if not first:
        return None
    more = f"; {len(newest) - 1} more do not count either" if len(newest) > 1 else ""
    return LastPassed(why=first + more, doubted=True)
