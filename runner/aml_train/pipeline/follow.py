"""Follow the job, and the attempts after it, to the end; count what they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from aml_train.core.errors import AmlTrainError
from aml_train.core.events import Event, JobStatusChanged, LogsEnded
from aml_train.core.tags import Tag
from aml_train.jobs.attempts import (
    Comparison,
    attempt_of,
    may_follow,
    next_name,
    number_of,
    resubmit,
    resumed_from,
    retries_of,
)
from aml_train.jobs.composed import COMPOSED
from aml_train.jobs.cost import Spending
from aml_train.jobs.logs.report import JobLogs
from aml_train.jobs.pace import Exceeded, Limits
from aml_train.jobs.states import JobStatus
from aml_train.jobs.watch import Watch
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.graph import GraphFollower
from aml_train.pipeline.result import SubmittedJob
from aml_train.pipeline.stop import StopWatch
from aml_train.pipeline.submit import report_job
from aml_train.pipeline.target import Target


@dataclass(frozen=True, kw_only=True)
class Together:
    """What the replicates of a job have in common while they are followed.

    Attributes:
        began: when the first one was followed first, by the run's clock.
        spending: counts all of them.
        look: looks at the others; returns why none of them needs to go on, or None.
    """

    began: float
    spending: Spending
    look: Callable[[JobView], Exceeded | None]


def follow_job(ctx: RunContext, target: Target, job: SubmittedJob, together: Together | None = None) -> SubmittedJob:
    """Follow *job*, and each attempt after a preemption, until one completes.

    Raises:
        AmlTrainError: the last attempt failed, was cancelled, or exceeded a bound.
    """
    with ctx.stage("watch", "Follow the job") as summary:
        view = job.view
        spending = Spending(ctx.plan.config.cost, target.service) if together is None else together.spending
        # A job of this run that completed at once is followed all the same: its log is not read yet, nor its metrics settled.
        settled = view.status is JobStatus.COMPLETED and job.attached
        if settled:
            ctx.progress.job_ended(view.status.value)
            ctx.emit(JobStatusChanged(job=view.name, status=view.status.value))
            graph = _graph(ctx, target, view, spending)
            if graph is not None and (failure := graph.judge(None)) is not None:
                raise failure
        else:
            try:
                view = _follow_attempts(ctx, target, job, spending, together)
            finally:
                cost = spending.cost()
                ctx.progress.add(cost=cost)
                if cost is not None:
                    ctx.emit(cost)
        ctx.progress.live = None
        summary.append("completed" if number_of(view.name) == 1 else f"completed as {view.name}")
    return replace(job, view=view, settled=settled)


def _follow_attempts(
    ctx: RunContext, target: Target, job: SubmittedJob, spending: Spending, together: Together | None
) -> JobView:
    """Follow one attempt after another; return the one that completed."""
    began, most = ctx.clock.now() if together is None else together.began, ctx.plan.config.retry.preempted
    while True:
        view = job.view
        graph = _graph(ctx, target, view, spending)
        look = graph.look if graph is not None else together.look if together is not None else None
        stop = _stop(ctx, target, job)
        watch = _watch(ctx, target, view, spending, spent=ctx.clock.now() - began, look=look, stop=stop)
        try:
            ended, failure = watch.run()
            if graph is not None:
                failure = graph.judge(failure)
            if stop is not None:
                failure = stop.judge(ended, failure)
        except AmlTrainError:
            if watch.last is not None and watch.last.status.terminal:
                _report_attempt(ctx, watch.last)
            raise
        finally:
            spending.ended(watch.last or view, watch.timing.running_seconds(ctx.clock.now()))
        retry = may_follow(ended, failure, cancelled=watch.timing.cancelled, tags=view.tags, most=most)
        name = next_name(view.name) if retry and spending.allows_another() else None
        _report_attempt(ctx, replace(ended, inputs=view.inputs), again=name)
        ctx.progress.live = None
        if failure is None:
            # What was written down at the submission stays what it was.
            properties = {**ended.properties, **view.properties}
            return replace(view, started=ended.started, ended=ended.ended, properties=properties)
        if name is None:
            raise failure
        number = f"{retries_of(view.tags) + 1} of at most {most} times"
        ctx.warn(f"The job {view.name} was preempted: submitting it again as {name}, {number}.")
        job = _resubmit(ctx, target, job)


def _graph(ctx: RunContext, target: Target, view: JobView, spending: Spending) -> GraphFollower | None:
    """Return the follower of a job's nodes or trials; None for a command job."""
    if view.kind not in COMPOSED:
        return None
    return GraphFollower(ctx=ctx, service=target.service, view=view, spending=spending)


def _stop(ctx: RunContext, target: Target, job: SubmittedJob) -> StopWatch | None:
    """Return what looks for the rules of ``watch.stop``; None without any, for composed jobs, and where nothing is judged."""
    config = ctx.plan.config.watch.stop
    if config is None or not ctx.options.decide or job.view.kind in COMPOSED:
        return None
    return StopWatch(ctx, target, job, config)


def _watch(
    ctx: RunContext,
    target: Target,
    view: JobView,
    spending: Spending,
    *,
    spent: float,
    look: Callable[[JobView], Exceeded | None] | None,
    stop: StopWatch | None,
) -> Watch:
    bounds, clock = ctx.plan.config.watch, ctx.clock
    limits = Limits(
        total=bounds.timeout,
        queue=bounds.queue_timeout,
        run=bounds.run_timeout,
        cap=spending.begin(view),
        spent=spent,
    )

    def emit(event: Event) -> None:
        if isinstance(event, LogsEnded):
            ctx.progress.add(logs=event)
        # A job that has ended is not cancelled any more, whatever of it is left to be read.
        elif isinstance(event, JobStatusChanged) and JobStatus(event.status).final:
            ctx.progress.job_ended(event.status)
        ctx.emit(event)

    every, service = bounds.logs == "all", target.service
    logs = JobLogs(service, view.name, emit, every=every, masker=ctx.secrets)

    def scanned(found: JobView) -> Exceeded | None:
        if stop is not None:
            stop.look(found, logs)
        return None if look is None else look(found)

    return Watch(
        service,
        view.name,
        clock=clock,
        pace=target.pace,
        limits=limits,
        listener=emit,
        logs=logs,
        scanned=scanned,
    )


def _resubmit(ctx: RunContext, target: Target, job: SubmittedJob) -> SubmittedJob:
    """Submit the attempt after *job*, which was preempted.

    If another run has submitted it, attach to it.
    """
    service = target.service
    view, spec, attached = resubmit(
        service,
        job.view,
        job.spec,
        answer_for=lambda name: ctx.track(name, service),
        comparison=Comparison(foreign=ctx.foreign, files=ctx.options.register),
    )
    if (path := job.view.properties.get(Tag.RESUME)) is not None:
        if (source := resumed_from(view)) is not None:
            ctx.notice(f"{view.name} continues from the checkpoints of {source} ({path}).")
        else:
            ctx.warn(f"{job.view.name} left no checkpoints at {path}: {view.name} starts from the beginning.")
    job = SubmittedJob(view=view, spec=spec, attached=attached, ours=job.ours or not attached)
    report_job(ctx, job)
    return job


def _report_attempt(ctx: RunContext, view: JobView, *, again: str | None = None) -> None:
    attempt = attempt_of(view, again=again)
    ctx.progress.add(attempts=(*ctx.progress.result.attempts, attempt))
    ctx.emit(attempt)
