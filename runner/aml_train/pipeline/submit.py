"""The job of a run, submitted by it or found; and its interruption."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from aml_train.core.errors import CancelledError, InvalidError, ServiceError
from aml_train.core.events import GraphPlanned, ImageReady, JobSubmitted
from aml_train.core.tags import Tag
from aml_train.core.text import size, whole
from aml_train.gate.baseline import FoundBaseline
from aml_train.image.spec import Tested
from aml_train.jobs.attempts import Comparison, number_of, renamed, submit_next
from aml_train.jobs.data import change_text, changed_data, recorded_data
from aml_train.jobs.identity import identity_difference, in_one_line, job_identity
from aml_train.jobs.live import request_cancel
from aml_train.jobs.spec import JobSpec, JobTemplate, in_images, make_job
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, Workspace, no_job
from aml_train.pipeline.baselines import baseline_tags
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.data import must_retrain
from aml_train.pipeline.graph import graph_nodes
from aml_train.pipeline.result import Group, SubmittedJob
from aml_train.pipeline.target import Target

#: Tags of a job that name its image and the record of its tests.
_OF_IMAGE: Final = (Tag.IMAGE, Tag.DIGEST, Tag.ADDRESS, Tag.TESTED)
_MOST_ATTEMPTS: Final = 1000
#: So many jobs of the workspace are looked at for one that this run could be compared with.
_MOST_LOOKED_AT: Final = 200


def submit_job(
    ctx: RunContext,
    target: Target,
    template: JobTemplate,
    images: Mapping[str, Tested],
    baseline: FoundBaseline | None,
    *,
    exact: bool = False,
) -> SubmittedJob:
    """Submit the job, or attach to the same job that runs or has completed.

    Args:
        ctx: the run.
        target: where to.
        template: the job without its images and attempt, its data pinned to versions.
        images: what it runs in; none for its own environment.
        baseline: what the gate compares with, as far as it was looked up; the job's tags keep it.
        exact: whether only a job in these very images is the same, and none in another build of them.

    Raises:
        InvalidError: there is a job of the name in the options.
        ServiceError: the service refuses, or a job of the computed name is another one.
    """
    code = template.code
    files = f", with {len(code.entries)} files of code ({size(code.size)})" if code else ""
    with ctx.stage("submit", f"Submit the job{files}") as summary:
        comparison = _comparison(ctx, target, template)
        if exact:
            comparison = Comparison(foreign=ctx.foreign, files=ctx.options.register)
        spec, found = _choose(ctx, target, template, images, comparison)
        group = ctx.options.group
        tags = {**spec.document["tags"], **baseline_tags(ctx.plan.config.baseline, baseline)}
        tags |= {} if group is None else {Tag.GROUP: group.name, Tag.SEQUENCE: str(group.sequence)}
        spec = replace(spec, document={**spec.document, "tags": tags})
        if found is None:
            spec, view = _submit(ctx, target, spec, comparison)
            summary.append(f"submitted {spec.name}")
        else:
            ctx.track(found.name, target.service)
            view = _record_tests(ctx, target, spec, found)
            word = "which has completed" if view.status is JobStatus.COMPLETED else f"which is {view.status.value}"
            summary.append(f"attached to {spec.name}, {word}")
        _use_builds(ctx, spec)
        job = SubmittedJob(view=view, spec=spec, attached=found is not None)
        report_job(ctx, job)
    return job


def _comparison(ctx: RunContext, target: Target, template: JobTemplate) -> Comparison:
    """Return what compares found jobs with this run's: one may run in another tested build of an image's address."""
    planned = {one.spec.name: one for one in ctx.plan.images}

    def build(name: str, known: Tested, digests: frozenset[str]) -> Tested:
        if known.digest in digests:
            return known
        one = planned[name]
        found = (target.find_build(one.spec, one.tests, known, digest) for digest in sorted(digests))
        return next(filter(None, found), known)

    def in_builds(job: JobSpec, digests: frozenset[str]) -> JobSpec:
        images = {name: build(name, known, digests) for name, known in job.images.items()}
        return in_images(job, template, images)

    return Comparison(foreign=ctx.foreign, files=ctx.options.register, in_builds=in_builds)


def _use_builds(ctx: RunContext, spec: JobSpec) -> None:
    """Report the images that the job runs in, if they are other builds than those of this run."""
    before = ctx.progress.result.images
    for name, image in spec.images.items():
        if image != before.get(name):
            ctx.notice(f"The job runs in another build of the image, which is used: {image.reference}.")
            ctx.emit(
                ImageReady(
                    reference=str(image.reference),
                    digest=image.digest,
                    address=image.address,
                    how="found",
                    compressed_bytes=image.compressed_bytes,
                    image_name=name,
                )
            )
    ctx.progress.add(images=dict(spec.images))


def _record_tests(ctx: RunContext, target: Target, spec: JobSpec, view: JobView) -> JobView:
    """Have an attached job name the image and test record of the protected branch.

    A proposal that submitted it may have named others.
    """
    named = {name: spec.document["tags"][name] for name in _OF_IMAGE if name in spec.document["tags"]}
    if not ctx.plan.trust.protected or named.items() <= view.tags.items():
        return view
    try:
        target.service.tag(view.name, named)
    except ServiceError as error:
        ctx.warn(f"The job's tags do not name the record of this run's tests: {error.message}")
        return view
    return replace(view, tags={**view.tags, **named})


def find_job(ctx: RunContext, target: Target, template: JobTemplate) -> SubmittedJob:
    """Find the job that was submitted before.

    It is the named one, or the latest attempt of *template*.

    Raises:
        InvalidError: there is none of that name.
        ServiceError: none was submitted.
    """
    wanted = ctx.options.job
    with ctx.stage("submit", f"Find the job {wanted}" if wanted else "Find the job") as summary:
        view = target.service.find(wanted) if wanted else _latest(ctx, target, template)
        if view is None:
            pinned = template.document != ctx.plan.job.document
            newer = " It may have been submitted with an earlier version of its data." if pinned else ""
            if wanted:
                raise no_job(target.service.tagged_jobs, wanted)
            raise ServiceError(
                "No job was submitted from this commit and configuration.",
                hint=f"Submit it first: aml-train run --no-wait. Or name the job: aml-train attach JOB.{newer}",
            )
        job = SubmittedJob(view=view, attached=True, ours=False)
        ctx.progress.add(job=job)
        ctx.track(view.name, target.service)
        _report_image(ctx, view)
        report_job(ctx, job)
        summary.append(f"{view.name} is {view.status.value}")
    return job


def report_job(ctx: RunContext, job: SubmittedJob) -> None:
    """Report which job this run has from now on."""
    ctx.progress.add(job=job)
    view = job.view
    ctx.emit(
        JobSubmitted(job=view.name, attached=job.attached, studio_url=view.studio_url, attempt=number_of(view.name))
    )
    if ctx.options.job is None and (planned := graph_nodes(ctx.plan.job.nodes, ctx.plan.image_of_nodes)):
        ctx.emit(GraphPlanned(job=view.name, nodes=planned))


def interrupt(ctx: RunContext) -> CancelledError:
    """Cancel or detach the active job and its replicates, if there are any; return what the run ends with."""
    progress, job = ctx.progress, ctx.progress.result.job
    if ctx.plan.config.watch.on_cancel == "cancel" and not ctx.options.attach:
        for live in filter(None, (other.live for other in progress.others)):
            try:
                live.call_off()
            except ServiceError as error:
                ctx.warn(f"The job {live.name} could not be cancelled: {error.message}")
    if progress.live is not None:
        ours = job.ours if job is not None else not ctx.options.attach
        return progress.live.interrupt(cancel=ours and ctx.plan.config.watch.on_cancel == "cancel")
    if job is None:
        return CancelledError("Interrupted before a job was submitted.")
    ended = progress.ended
    text = f"Interrupted after the end of the job {job.name}" + (f", which is {ended}" if ended else "")
    if ended == JobStatus.COMPLETED.value and progress.result.gate is None and ctx.options.decide:
        return CancelledError(f"{text}: it was not gated.", hint=f"Gate it: aml-train attach {job.name}")
    return CancelledError(f"{text}.")


def _choose(
    ctx: RunContext, target: Target, template: JobTemplate, images: Mapping[str, Tested], comparison: Comparison
) -> tuple[JobSpec, JobView | None]:
    """Return what is to be submitted, and the same job if there is one to attach to.

    The latest attempt decides. One that is running or has completed is attached to, unless a fresh one is wanted or, if it has
    completed, its data are not known to be the same; one that failed or was cancelled is followed by the next.
    """
    service, options = target.service, ctx.options
    if options.name is not None:
        if service.find(options.name) is not None:
            raise InvalidError(
                f"There is a job named {options.name} already.", hint="Choose another name with --name."
            )
        return renamed(make_job(template, images, 1), options.name), None
    following, latest, view = _latest_of(template, service, images, comparison)
    if view is not None and not options.fresh:
        known = not (view.status is JobStatus.COMPLETED and must_retrain(ctx, template))
        if _attachable(view.status) and known:
            return latest, view
        if view.status is JobStatus.NOT_RESPONDING:
            # AzureML has lost contact with it, and may find it again: there must never be two.
            ctx.warn(f"The job {view.name} does not answer: cancelling it before the next attempt.")
            request_cancel(service, view.name, clock=ctx.clock)
    ctx.notice(why_submitted(template, service, images, view, fresh=options.fresh))
    return following, None


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


def _latest_of(
    template: JobTemplate, service: Workspace, images: Mapping[str, Tested], comparison: Comparison
) -> tuple[JobSpec, JobSpec, JobView | None]:
    """Return the next attempt, and the latest one with its job, or None."""
    *known, (following, _) = _attempts(template, service, images)
    for job, view in reversed(known):
        if view is not None and (same := comparison.match(service, job, view)) is not None:
            return following, same, view
    return following, following, None


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
    newest = itertools.islice(service.tagged_jobs(Tag.FINGERPRINT), _MOST_LOOKED_AT)
    return next((view for view in newest if name.fullmatch(view.name)), None)


def _attachable(status: JobStatus) -> bool:
    return status is JobStatus.COMPLETED or not (status.terminal or status is JobStatus.CANCEL_REQUESTED)


def _submit(ctx: RunContext, target: Target, spec: JobSpec, comparison: Comparison) -> tuple[JobSpec, JobView]:
    """Submit the job; under the next attempt's name if its own was taken meanwhile."""
    options, service = ctx.options, target.service
    if ctx.plan.config.target.cluster is not None:
        target.ensure_compute(ctx.plan.config.target.cluster, ctx.clock)
    if options.supersede and options.group is not None:
        _supersede(ctx, target, options.group)

    return submit_next(service, spec, answer_for=lambda name: ctx.track(name, service), comparison=comparison)


def _supersede(ctx: RunContext, target: Target, group: Group) -> None:
    """Cancel the live jobs of older runs of the group that have the same stem.

    One group may train several things.
    """
    stem = ctx.plan.job.stem
    for view in target.service.live_jobs(Tag.GROUP):
        sequence = whole(view.tags.get(Tag.SEQUENCE, ""))
        older = sequence is not None and sequence < group.sequence
        if view.tags[Tag.GROUP] == group.name and older and view.name.startswith(f"{stem}-"):
            ctx.notice(f"Superseded: cancelling the job {view.name} of an older run of {group.name}.")
            request_cancel(target.service, view.name, clock=ctx.clock)


def _latest(ctx: RunContext, target: Target, template: JobTemplate) -> JobView | None:
    images: dict[str, Tested] = {}
    for one in ctx.plan.images:
        if (found := target.find_image(one.spec)) is None:
            return None
        images[one.spec.name] = found
    return _latest_of(template, target.service, images, _comparison(ctx, target, template))[2]


def _report_image(ctx: RunContext, view: JobView) -> None:
    """Report the image of a job that was found, from its tags."""
    image, digest = view.tags.get(Tag.IMAGE), view.tags.get(Tag.DIGEST)
    if image and digest:
        address = view.tags.get(Tag.ADDRESS, "")
        ctx.emit(ImageReady(reference=image, digest=digest, address=address, how="found"))
    else:
        ctx.notice("The job's environment was used as it was given, not tested.")
