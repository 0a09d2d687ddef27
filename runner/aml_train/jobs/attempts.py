"""The attempts of a job: names, numbers, and resubmission after a preemption.

The next attempt has a name that follows from the one before, so that two runs that watch the same job submit the same one. It is submitted
only when the one before has failed for good by a preemption: a cancelled job, or one that may still run, is never resubmitted.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aml_train.config.sections.watch import RESUME_INPUT
from aml_train.core.errors import AmlTrainError, PreemptedError, ServiceError
from aml_train.core.events import AttemptEnded
from aml_train.core.tags import Tag
from aml_train.core.text import whole
from aml_train.core.threads import CancelToken
from aml_train.jobs.identity import digests_of, identity_difference, in_one_line, job_identity, may_resume
from aml_train.jobs.live import LiveJob
from aml_train.jobs.spec import COMPUTED_NAME, RETRIED_NAME, JobSpec, artifacts_at, job_of_artifacts
from aml_train.jobs.states import JobStatus, ending_of
from aml_train.jobs.workspace import JobView, Workspace

#: AzureML's bound of a name is 255 characters (azure-ai-ml, ``_schema/core/fields.py``).
_LONGEST: Final = 240
_MOST_EARLIER: Final = 100


def number_of(name: str) -> int:
    """Return which attempt a job of that name is, from 1 on."""
    if match := COMPUTED_NAME.fullmatch(name):
        return int(match[2])
    match = RETRIED_NAME.fullmatch(name)
    return int(match[2]) + 1 if match else 1


def next_name(name: str) -> str:
    """Return the name of the attempt after the job *name*."""
    if match := COMPUTED_NAME.fullmatch(name):
        return f"{match[1]}-{int(match[2]) + 1}"
    match = RETRIED_NAME.fullmatch(name)
    return f"{match[1]}-retry{int(match[2]) + 1}" if match else f"{name[:_LONGEST]}-retry1"


def replicates_of(service: Workspace, view: JobView, *, judged: str = "", completed: bool = True) -> list[JobView]:
    """Return the replicates of *view*, itself among them, in the order of their values; none if it has none.

    A replicate is the latest attempt, by default of those that have *completed*, of each fingerprint that the job's properties name, which nobody
    can change. A model's properties have the very attempts that its gate has *judged*.

    Raises:
        ServiceError: the service does not answer.
    """
    _, *marks = (judged or view.properties.get(Tag.REPLICATES, "")).split(" ")
    match = COMPUTED_NAME.fullmatch(view.name)
    if match is None or match[1][-12:] not in (mark[:12] for mark in marks):
        return []
    found = []
    for mark, _, attempt in (one.partition("-") for one in marks):
        latest, name = None, f"{match[1][:-12]}{mark}-{attempt or 1}"
        while (one := service.find(name)) is not None:
            known = one.properties.get(Tag.FINGERPRINT, "").startswith(mark)
            if known and (one.status is JobStatus.COMPLETED or not completed):
                latest = one
            if attempt:
                break
            name = next_name(name)
        if mark == match[1][-12:]:
            latest = view
        found += [latest] if latest is not None else []
    return found


def judged_text(jobs: Sequence[str], name: str) -> str:
    """Return what a model's properties say of the replicates that its gate has judged: the input *name*, and each one's fingerprint and attempt."""
    return " ".join([name, *("-".join(job.rsplit("-", 2)[1:]) for job in jobs)])


def attempt_of(view: JobView, *, again: str | None = None) -> AttemptEnded:
    """Return the attempt that *view*, a job that has ended, shows; *again* is the name of the next one."""
    ending = ending_of(view.status, reason=view.error, codes=view.codes)
    return AttemptEnded(
        job=view.name,
        attempt=number_of(view.name),
        status=view.status.value,
        ending=ending.value,
        again=again,
        resumed_from=resumed_from(view),
    )


def retries_of(tags: Mapping[str, str]) -> int:
    """Return how often the job was submitted again before the one with these tags."""
    text = tags.get(Tag.RETRIES, "")
    return whole(text) or 0


def earlier_attempts(service: Workspace, view: JobView) -> Iterator[JobView]:
    """Yield the attempts before *view*, the latest first; at most 100.

    Raises:
        ServiceError: the service does not answer.
    """
    tags = view.tags
    for _ in range(_MOST_EARLIER):
        if not (retries_of(tags) and tags.get(Tag.RESUBMITTED)):
            return
        before = service.details(tags[Tag.RESUBMITTED])
        yield before
        tags = before.tags


def resumed_from(view: JobView) -> str | None:
    """Return the job whose checkpoints a job reads; None for a job that started afresh."""
    return job_of_artifacts(view.inputs.get(RESUME_INPUT, ""))


def checkpoints_for_next(service: Workspace, before: JobView) -> str:
    """Return the address of the checkpoints that the attempt after *before* continues from.

    They are those that *before* left, or else those that it continued from itself; empty if there are none, or if the job does not
    declare ``resume``.

    Raises:
        ServiceError: the service does not answer.
    """
    path = before.properties.get(Tag.RESUME)
    if path is None:
        return ""
    if service.has_artifact(before.name, path):
        return artifacts_at(before.name, path)
    return before.inputs.get(RESUME_INPUT, "")


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


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How a job that has an attempt's name is compared with what would be submitted.

    Attributes:
        foreign: receives a job that is another one, and in words what of it is another's.
        files: whether the files of its code are compared as the storage lists them, too.
        in_builds: returns the job in those of the images with these digests that are tested builds of its images' addresses.
    """

    foreign: Callable[[JobView, str], None]
    files: bool
    in_builds: Callable[[JobSpec, frozenset[str]], JobSpec] = lambda job, _digests: job

    def match(self, service: Workspace, job: JobSpec, found: JobView) -> JobSpec | None:
        """Return *job* in the images of *found*, whose name it has; None if *found* is another job.

        The tags of *found* do not count: anybody can write them.

        Raises:
            ServiceError: the service does not answer.
        """
        why = "its fingerprint"
        if found.properties.get(Tag.FINGERPRINT, job.fingerprint) == job.fingerprint:
            identity = service.identity(found.name, sdk="v2" if job.runconfig is None else "v1", files=self.files)
            job = self.in_builds(job, digests_of(identity))
            why = in_one_line(identity_difference(job_identity(job, files=self.files), identity))
        if not why and (source := resumed_from(found)) is not None and Tag.RESUME in job.document["properties"]:
            # What trained it includes the attempt whose checkpoints it read.
            before = service.find(source)
            if before is None or self.match(service, renamed(job, source), before) is None:
                why = f"the attempt {source} that it resumed from"
        if not why:
            return job
        self.foreign(found, why)
        return None


def submit_next(
    service: Workspace, job: JobSpec, *, answer_for: Callable[[str], LiveJob], comparison: Comparison
) -> tuple[JobSpec, JobView]:
    """Submit *job*, or the next attempt if another job took its name meanwhile.

    Args:
        service: the workspace.
        job: what to submit.
        answer_for: makes the live job of a name, before anything is sent.
        comparison: compares a job that took the name.

    Raises:
        ServiceError: the service refuses or does not answer.
    """
    while True:
        mark = {Tag.SUBMISSION: uuid.uuid4().hex}
        job = replace(job, document={**job.document, "properties": {**job.document["properties"], **mark}})
        view = answer_for(job.name).submit(job)
        # azureml-core writes properties to a run that may be another's.
        if job.runconfig is None and mark.items() <= view.properties.items():
            return job, view
        same = comparison.match(service, job, view)
        if same is not None:
            return same, view
        if job.runconfig is not None:
            raise ServiceError(f"The run {job.name} is another one.", hint="Run it again.")
        job = renamed(job, next_name(job.name))


def renamed(job: JobSpec, name: str) -> JobSpec:
    """Return *job* under another name."""
    return replace(job, name=name, document={**job.document, "name": name})


def resubmit(
    service: Workspace,
    before: JobView,
    spec: JobSpec | None,
    *,
    answer_for: Callable[[str], LiveJob],
    comparison: Comparison,
) -> tuple[JobView, JobSpec | None, bool]:
    """Submit the attempt after *before*, or find it submitted by another run.

    Args:
        service: the workspace.
        before: the job that was preempted, with its tags.
        spec: what it was submitted from; None where only the service knows.
        answer_for: makes the live job of a name, before anything is sent.
        comparison: compares a job that has the next attempt's name.

    Returns:
        the new attempt's job, what it was submitted from, and whether another run had submitted it.

    Raises:
        ServiceError: the service refuses.
    """
    name = next_name(before.name)
    tags = {Tag.RESUBMITTED: before.name, Tag.RETRIES: str(retries_of(before.tags) + 1)}
    checkpoints = checkpoints_for_next(service, before)
    while True:
        found = service.find(name)
        if spec is not None:
            document = {**spec.document, "name": name, "tags": {**spec.document["tags"], **tags}}
            if checkpoints:
                given = {"type": "uri_folder", "mode": "ro_mount", "path": checkpoints}
                document["inputs"] = {**(document.get("inputs") or {}), RESUME_INPUT: given}
            spec = replace(spec, name=name, document=document)
            if found is None:
                spec, view = submit_next(service, spec, answer_for=answer_for, comparison=comparison)
                return view, spec, False
        live = answer_for(name)

        def again(submission: CancelToken, new: str = name) -> JobView:
            return service.resubmit(before.name, new, tags=tags, checkpoints=checkpoints, submission=submission)

        view = live.send(again) if found is None else found
        if spec is not None:
            if (same := comparison.match(service, spec, view)) is not None:
                return view, same, found is not None
        elif why := in_one_line(
            identity_difference(
                may_resume(service.identity(before.name), name, before.properties), service.identity(name)
            )
        ):
            comparison.foreign(view, why)
        else:
            return view, None, found is not None
        name = next_name(name)
