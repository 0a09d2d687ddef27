"""Find the attempt of a job to attach to, or submit the next one; cancel the runs that it supersedes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from aml_train.errors import InvalidError, ServiceError
from aml_train.events import Listener, Notice
from aml_train.image.spec import JobImage
from aml_train.jobs.cancel import tell_to_cancel
from aml_train.jobs.clock import Clock
from aml_train.jobs.job import TAG_FINGERPRINT, TAG_GROUP, TAG_SEQUENCE, JobSpec, JobTemplate, make_job
from aml_train.jobs.service import JobService, JobView
from aml_train.jobs.states import JobStatus
from aml_train.outcome import Group

_MOST_ATTEMPTS: Final = 1000


def attempts(template: JobTemplate, service: JobService, image: JobImage) -> Iterator[tuple[JobSpec, JobView | None]]:
    """Yield each attempt with its job, and at last the next one, which has none.

    Raises:
        ServiceError: if a job of that name exists which is not ours.
    """
    for attempt in range(1, _MOST_ATTEMPTS):
        job = make_job(template, image, attempt)
        found = service.find(job.name)
        if found is not None and found.tags.get(TAG_FINGERPRINT) != job.fingerprint:
            raise ServiceError(
                f"A job named {job.name} exists, but was not submitted from this configuration.",
                hint="Give the job another name or experiment_name.",
            )
        yield job, found
        if found is None:
            return
    raise ServiceError(
        f"There are {_MOST_ATTEMPTS - 1} attempts of this job already.", hint="Change its experiment_name."
    )


def choose_attempt(
    template: JobTemplate,
    service: JobService,
    image: JobImage,
    *,
    fresh: bool,
    lost: Callable[[JobView], None] = lambda _view: None,
) -> tuple[JobSpec, JobView | None]:
    """Find the attempt to attach to, or the number of the next one. The latest attempt decides.

    One that is running or has completed is attached to, unless *fresh*; one that failed or was cancelled is followed by
    the next. *lost* is told of a latest attempt that does not answer and may come back.

    Raises:
        ServiceError: if a job of that name exists which is not ours.
    """
    *known, (job, _) = attempts(template, service, image)
    if known and not fresh:
        latest, view = known[-1]
        if view is not None and _attachable(view.status):
            return latest, view
        if view is not None and view.status is JobStatus.NOT_RESPONDING:
            lost(view)
    return job, None


def named_job(template: JobTemplate, service: JobService, image: JobImage, name: str) -> JobSpec:
    """Return the job under a name of its own.

    Raises:
        InvalidError: there is a job of that name.
    """
    if service.find(name) is not None:
        raise InvalidError(f"There is a job named {name} already.", hint="Choose another name with --name.")
    job = make_job(template, image, 1)
    return replace(job, name=name, document={**job.document, "name": name})


def latest_attempt(template: JobTemplate, service: JobService, image: JobImage) -> JobView | None:
    """Return the latest attempt's job, however it ended; None where there is none."""
    *known, _ = attempts(template, service, image)
    return known[-1][1] if known else None


def _attachable(status: JobStatus) -> bool:
    return status is JobStatus.COMPLETED or not (status.terminal or status is JobStatus.CANCEL_REQUESTED)


def grouped(job: JobSpec, group: Group | None) -> JobSpec:
    """Return *job* with the tags of its group."""
    if group is None:
        return job
    return tagged(job, {TAG_GROUP: group.name, TAG_SEQUENCE: str(group.sequence)})


def tagged(job: JobSpec, tags: Mapping[str, str]) -> JobSpec:
    """Return *job* with further tags."""
    return replace(job, document={**job.document, "tags": {**job.document["tags"], **tags}}) if tags else job


def supersede(service: JobService, group: Group, stem: str, *, clock: Clock, listener: Listener) -> None:
    """Cancel the live jobs of older runs of the group, so far as they are of the same make.

    Args:
        stem: the beginning of the names of such jobs; one group may train several things side by side.

    Raises:
        ServiceError: the service refuses or does not answer.
    """
    for view in service.live_jobs(TAG_GROUP):
        sequence = view.tags.get(TAG_SEQUENCE, "")
        older = sequence.isdecimal() and int(sequence) < group.sequence
        if view.tags[TAG_GROUP] == group.name and older and view.name.startswith(f"{stem}-"):
            listener(Notice(text=f"Superseded: cancelling the job {view.name} of an older run of {group.name}."))
            tell_to_cancel(service, view.name, clock=clock)
