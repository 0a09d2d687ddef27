"""Record gate decisions in jobs' tags; find a branch's last job that passed.

Several branches may share a job, since the same work has the same name: a branch's run attaches to the job of a pull request.
Therefore each branch has a separate tag, whose value is complete by itself.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final, get_args

from aml_train.core.git import Origin
from aml_train.core.tags import KEY_LENGTH, TAG_GATE
from aml_train.core.values import dataclass
from aml_train.gate import GateWord as GateWord
from aml_train.jobs import JobStatus, JobView, Workspace

#: Followed by the branch's name.
TAG_VERDICT: Final = "aml-train.verdict."
#: Jobs that are examined once one was found: a later verdict may be on a job that was submitted earlier.
_ENOUGH: Final = 200


@dataclass(frozen=True, kw_only=True)
class BranchVerdict:
    """How a run of a branch ended that had read a completed job's metrics.

    Attributes:
        gate: ``none`` where it has no rules, ``skipped`` where all were skipped: both let the run pass as well.
        at: the time, ISO 8601 in UTC.
        commit, repository, configuration: as in :class:`aml_train.core.git.Origin`.
    """

    gate: GateWord
    at: str
    commit: str
    repository: str
    configuration: str


def verdict_tag(branch: str) -> str:
    """Return the tag of *branch*; if its name is too long for a tag, with a hash."""
    tag = TAG_VERDICT + branch
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
        found = json.loads(tags.get(verdict_tag(branch), ""))
        gate = found["gate"]
        if gate not in get_args(GateWord):
            return None
        texts = {name: str(found[name]) for name in ("at", "commit", "repository", "configuration")}
    except (ValueError, KeyError, TypeError, RecursionError):
        # Tags can be changed by hand: what is no verdict of ours is none.
        return None
    return BranchVerdict(gate=gate, **texts)


def record_verdict(
    service: Workspace, job: JobView, origin: Origin | None, gate: GateWord, *, now: datetime.datetime
) -> None:
    """Record the gate's decision in the job's tags, for people and for the branch.

    Tags that have the same decision already are not written, so that repeating a run does not make it the latest.

    Raises:
        ServiceError: the service refuses or does not answer.
    """
    tags: dict[str, str] = {TAG_GATE: gate}
    branch = branch_of(origin)
    if origin is not None and branch is not None:
        verdict = BranchVerdict(
            gate=gate,
            at=now.astimezone(datetime.UTC).isoformat(timespec="milliseconds"),
            commit=origin.commit,
            repository=origin.repository,
            configuration=origin.configuration,
        )
        before = read_verdict(job.tags, branch)
        if before is None or {**asdict(before), "at": ""} != {**asdict(verdict), "at": ""}:
            tags[verdict_tag(branch)] = json.dumps(asdict(verdict))
    if any(job.tags.get(name) != value for name, value in tags.items()):
        service.tag(job.name, tags)


def latest_passed(
    service: Workspace, origin: Origin | None, branch: str, *, besides: str | None = None
) -> tuple[JobView | None, str]:
    """Return the job of the last run of *branch* that passed.

    Only runs of the same repository and configuration count.

    Args:
        origin: where this run comes from.
        branch: the branch's name.
        besides: a job that does not count: nothing is its own baseline.

    Returns:
        the job; or None, and why there is none.

    Raises:
        ServiceError: the service does not answer.
    """
    if origin is None:
        return None, "this is not a git repository, so that its runs have no branch"
    best: tuple[str, JobView] | None = None
    others = 0
    for looked, view in enumerate(service.tagged_jobs(verdict_tag(branch)), 1):
        verdict = read_verdict(view.tags, branch)
        ours = verdict is not None and (verdict.repository, verdict.configuration) == (
            origin.repository,
            origin.configuration,
        )
        if verdict is None or not ours or view.name == besides:
            others += 1
        elif verdict.gate != "failed" and view.status is JobStatus.COMPLETED:
            best = max(best or ("", view), (verdict.at, view), key=lambda one: one[0])
        if best is not None and looked >= _ENOUGH:
            break
    if best is not None:
        return best[1], ""
    place = f"{origin.configuration} in {origin.repository or 'this repository'}"
    return None, f"no run of {place} on the branch {branch} has passed" + (
        f"; {others} of its jobs are of other configurations, or the candidate itself" if others else ""
    )


def latest_verdict(service: Workspace, origin: Origin | None, branch: str) -> tuple[JobView, BranchVerdict] | None:
    """Return the last verdict on *branch*, also one that failed, with its job.

    Only runs of the same repository and configuration count.

    Raises:
        ServiceError: the service does not answer.
    """
    best: tuple[JobView, BranchVerdict] | None = None
    for looked, view in enumerate(service.tagged_jobs(verdict_tag(branch)), 1):
        found = read_verdict(view.tags, branch)
        if (
            found is not None
            and origin is not None
            and (found.repository, found.configuration) == (origin.repository, origin.configuration)
            and (best is None or found.at > best[1].at)
        ):
            best = view, found
        if best is not None and looked >= _ENOUGH:
            break
    return best
