"""The attempts of a job: names, numbers, and resubmission after a preemption.

The next attempt has a name that follows from the one before, so that two runs that watch the same job submit the same one. It is submitted
only when the one before has failed for good by a preemption: a cancelled job, or one that may still run, is never resubmitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from aml_train.core.errors import AmlTrainError, PreemptedError, ServiceError
from aml_train.core.numbers import whole
from aml_train.core.tags import TAG_FINGERPRINT, TAG_RESUBMITTED, TAG_RETRIES
from aml_train.core.values import dataclass
from aml_train.jobs.live import LiveJob
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.states import JobStatus, ending_of
from aml_train.jobs.workspace import JobView, Workspace

_COMPUTED: Final = re.compile(r"(.*-[0-9a-f]{12})-([1-9]\d{0,5})")
_RETRIED: Final = re.compile(r"(.*)-retry([1-9]\d{0,5})", re.DOTALL)
#: AzureML's bound of a name is 255 characters (azure-ai-ml, ``_schema/core/fields.py``).
_LONGEST: Final = 240
_MOST_EARLIER: Final = 100


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One ended attempt: its number, status, and ending (docs/states.md)."""

    job: str
    number: int
    status: str
    ending: str


def number_of(name: str) -> int:
    """Return which attempt a job of that name is, from 1 on."""
    if match := _COMPUTED.fullmatch(name):
        return int(match[2])
    match = _RETRIED.fullmatch(name)
    return int(match[2]) + 1 if match else 1


def next_name(name: str) -> str:
    """Return the name of the attempt after the job *name*."""
    if match := _COMPUTED.fullmatch(name):
        return f"{match[1]}-{int(match[2]) + 1}"
    match = _RETRIED.fullmatch(name)
    return f"{match[1]}-retry{int(match[2]) + 1}" if match else f"{name[:_LONGEST]}-retry1"


def attempt_of(view: JobView) -> Attempt:
    """Return the attempt that *view*, a job that has ended, shows."""
    ending = ending_of(view.status, reason=view.error, codes=view.codes)
    return Attempt(job=view.name, number=number_of(view.name), status=view.status.value, ending=ending.value)


def retries_of(tags: Mapping[str, str]) -> int:
    """Return how often the job was submitted again before the one with these tags."""
    text = tags.get(TAG_RETRIES, "")
    return whole(text) or 0


def earlier_attempts(service: Workspace, view: JobView) -> Iterator[JobView]:
    """Yield the attempts before *view*, the latest first; at most 100.

    Raises:
        ServiceError: the service does not answer.
    """
    tags = view.tags
    for _ in range(_MOST_EARLIER):
        if not (retries_of(tags) and tags.get(TAG_RESUBMITTED)):
            return
        before = service.details(tags[TAG_RESUBMITTED])
        yield before
        tags = before.tags


def may_follow(
    view: JobView, failure: AmlTrainError | None, *, cancelled: bool, tags: Mapping[str, str], most: int
) -> bool:
    """Return whether an ended job is followed by another attempt.

    Args:
        cancelled: whether a request to cancel it was seen.
        most: how many preemptions are allowed.
    """
    preempted = isinstance(failure, PreemptedError) and view.status is JobStatus.FAILED
    return preempted and not cancelled and retries_of(tags) < most


def resubmit(
    service: Workspace, before: JobView, spec: JobSpec | None, *, answer_for: Callable[[str], LiveJob]
) -> tuple[JobView, JobSpec | None, bool]:
    """Submit the attempt after *before*, or find it submitted by another run.

    Args:
        service: the workspace.
        before: the job that was preempted, with its tags.
        spec: what it was submitted from; None where only the service knows.
        answer_for: makes the live job of a name, before anything is sent.

    Returns:
        the new attempt's job, what it was submitted from, and whether another run had submitted it.

    Raises:
        ServiceError: the service refuses, or a job of that name is another one.
    """
    name = next_name(before.name)
    tags = {TAG_RESUBMITTED: before.name, TAG_RETRIES: str(retries_of(before.tags) + 1)}
    if spec is not None:
        spec = replace(
            spec, name=name, document={**spec.document, "name": name, "tags": {**spec.document["tags"], **tags}}
        )
    live = answer_for(name)
    found = service.find(name)
    if found is not None:
        if found.tags.get(TAG_FINGERPRINT) != before.tags.get(TAG_FINGERPRINT):
            raise ServiceError(f"A job named {name} exists, but is not another attempt of {before.name}.")
        return found, spec, True
    if spec is not None:
        return live.submit(spec), spec, False
    view = live.send(lambda submission: service.resubmit(before.name, name, tags=tags, submission=submission))
    return view, None, False
