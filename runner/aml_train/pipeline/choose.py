"""Choose the attempt of a job to attach to, or the next one to submit."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.tags import TAG_FINGERPRINT
from aml_train.image.spec import Tested
from aml_train.jobs.attempts import Comparison
from aml_train.jobs.data import change_text, changed_data, recorded_data
from aml_train.jobs.identity import identity_difference, in_one_line, job_identity
from aml_train.jobs.spec import JobSpec, JobTemplate, make_job
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, Workspace

_MOST_ATTEMPTS: Final = 1000
#: So many jobs of the workspace are looked at for one that this run could be compared with.
_MOST_LOOKED_AT: Final = 200


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The attempt of a job that is to be followed.

    Attributes:
        job: what it is, or is to be, submitted as.
        found: the job that is attached to; None where it is to be submitted.
        before: the latest attempt where it is not attached to.
    """

    job: JobSpec
    found: JobView | None = None
    before: JobView | None = None


def _attempts(
    template: JobTemplate, service: Workspace, images: Mapping[str, Tested]
) -> Iterator[tuple[JobSpec, JobView | None]]:
    """Yield each attempt with the job of its name; the next one, at last, has none.

    Raises:
        ServiceError: the service does not answer, or there are too many.
    """
    for attempt in range(1, _MOST_ATTEMPTS):
        job = make_job(template, images, attempt)
        found = service.find(job.name)
        yield job, found
        if found is None:
            return
    raise ServiceError(
        f"There are {_MOST_ATTEMPTS - 1} attempts of this job already.", hint="Change its experiment_name."
    )


def _latest(
    template: JobTemplate, service: Workspace, images: Mapping[str, Tested], comparison: Comparison
) -> tuple[JobSpec, JobSpec, JobView | None]:
    """Return the next attempt, and the latest one with its job, or None."""
    *known, (following, _) = _attempts(template, service, images)
    for job, view in reversed(known):
        if view is not None and (same := comparison.match(service, job, view)) is not None:
            return following, same, view
    return following, following, None


def choose_attempt(
    template: JobTemplate,
    service: Workspace,
    images: Mapping[str, Tested],
    *,
    fresh: bool,
    retrain: bool = False,
    comparison: Comparison,
    lost: Callable[[JobView], None] = lambda _view: None,
) -> Choice:
    """Return the attempt to attach to, or the next one. The latest attempt decides.

    One that is running or has completed is attached to, unless *fresh*; one that failed or was cancelled is followed by
    the next, and with *retrain* one that completed.

    Args:
        comparison: compares jobs that have the name of an attempt.
        lost: receives a latest attempt that does not respond and may come back.

    Raises:
        ServiceError: the service does not answer, or there are too many attempts.
    """
    following, latest, view = _latest(template, service, images, comparison)
    if view is not None and not fresh:
        if _attachable(view.status) and not (retrain and view.status is JobStatus.COMPLETED):
            return Choice(job=latest, found=view)
        if view.status is JobStatus.NOT_RESPONDING:
            lost(view)
    return Choice(job=following, before=view)


def why_submitted(
    template: JobTemplate, service: Workspace, images: Mapping[str, Tested], before: JobView | None, *, fresh: bool
) -> str:
    """Return in one line why there is no job to attach to.

    Args:
        template: what is to be submitted.
        service: the workspace; that it does not answer is no failure.
        images: what it runs in.
        before: the latest attempt of the same job; None where there is none.
        fresh: whether another attempt is wanted.
    """
    if before is not None:
        ended = f"{before.name}, which is {before.status.value}"
        if fresh:
            return f"Trains again, as --fresh says: nothing differs from {ended}."
        unknown = before.status is JobStatus.COMPLETED
        return f"Trains again after {ended}" + (": its data may be others." if unknown else ".")
    try:
        last = _last_named(template.stem, service)
        found = "" if last is None else _difference(template, service, images, last)
    except ServiceError as error:
        return (
            f"Trains: there is no job of this content. The difference from the last one is not known: {error.message}"
        )
    if last is None:
        return (
            f"Trains for the first time: there is no earlier job {template.stem}-… among the last of this workspace."
        )
    if not found:
        return f"Trains: there is no job of this content. What differs from the last one, {last.name}, is not known."
    return f"Trains, as these differ from the last job, {last.name}: {found}."


def _difference(template: JobTemplate, service: Workspace, images: Mapping[str, Tested], last: JobView) -> str:
    """Return in one line what differs from the job *last*, its data included."""
    job = make_job(template, images, 1)
    then = service.identity(last.name, sdk="v2" if job.runconfig is None else "v1")
    data = change_text(changed_data(recorded_data(last.properties), template.data))
    return in_one_line([*identity_difference(job_identity(job), then), *([data] if data else [])])


def _last_named(stem: str, service: Workspace) -> JobView | None:
    """Return the newest job of *stem* with a computed name; None for none."""
    name = re.compile(rf"{re.escape(stem)}-[0-9a-f]{{12}}-\d+")
    newest = itertools.islice(service.tagged_jobs(TAG_FINGERPRINT), _MOST_LOOKED_AT)
    return next((view for view in newest if name.fullmatch(view.name)), None)


def named_job(template: JobTemplate, service: Workspace, images: Mapping[str, Tested], name: str) -> JobSpec:
    """Return the job under the given *name*.

    Raises:
        InvalidError: there is a job of that name.
    """
    if service.find(name) is not None:
        raise InvalidError(f"There is a job named {name} already.", hint="Choose another name with --name.")
    job = make_job(template, images, 1)
    return replace(job, name=name, document={**job.document, "name": name})


def latest_attempt(
    template: JobTemplate, service: Workspace, images: Mapping[str, Tested], comparison: Comparison
) -> JobView | None:
    """Return the latest attempt's job, however it ended; None where there is none."""
    return _latest(template, service, images, comparison)[2]


def _attachable(status: JobStatus) -> bool:
    return status is JobStatus.COMPLETED or not (status.terminal or status is JobStatus.CANCEL_REQUESTED)
