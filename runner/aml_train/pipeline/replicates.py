"""The replicates of a job: submitted together, followed in the order of their values, judged together.

Each is a command job with a computed name of its own, so that a value that was run before is attached to. All run in one tested image. The first
one is followed as the only job of a run is: its log is shown, and it is registered. Of the others, their statuses are reported.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from aml_train.config.sections.replicates import ReplicatesConfig
from aml_train.core.errors import AmlTrainError, GateFailedError, InvalidError, ServiceError
from aml_train.core.events import Event, JobNamed, JobStatusChanged, Notice
from aml_train.core.tags import Tag
from aml_train.gate.baseline import FoundBaseline
from aml_train.image.spec import Tested
from aml_train.jobs.attempts import may_follow
from aml_train.jobs.cost import Spending
from aml_train.jobs.live import request_cancel
from aml_train.jobs.pace import Exceeded
from aml_train.jobs.spec import JobTemplate, fingerprint, with_input
from aml_train.jobs.states import JobStatus, failure_of
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.context import Progress, RunContext
from aml_train.pipeline.data import check_at_end
from aml_train.pipeline.evaluate import Replicated, evaluate, find_replicates
from aml_train.pipeline.follow import Together, follow_job
from aml_train.pipeline.result import SubmittedJob
from aml_train.pipeline.submit import find_job, submit_job
from aml_train.pipeline.target import Target

#: Seconds between two looks at the replicates that are not followed yet.
_EVERY: Final = 10.0
_MARK: Final = 12
"""Characters of a fingerprint in a job's name."""


class Replicates:
    """The replicates of one run's job."""

    def __init__(self, ctx: RunContext, target: Target, config: ReplicatesConfig) -> None:
        self._ctx = ctx
        self._target = target
        self._config = config
        self._jobs: list[tuple[RunContext, SubmittedJob]] = []
        self._ended: list[SubmittedJob] = []
        self._read: Replicated | None = None
        self._spending = Spending(ctx.plan.config.cost, target.service)
        self._looked = -_EVERY

    @property
    def judged(self) -> Replicated:
        """The replicates that have completed, the first ones in their order."""
        read = {} if self._read is None else self._read.read
        self._read = Replicated(config=self._config, jobs=tuple(one.name for one in self._ended), read=read)
        return self._read

    def submit(
        self, template: JobTemplate, images: Mapping[str, Tested], baseline: FoundBaseline | None
    ) -> SubmittedJob:
        """Submit a job for each value, or attach to it; return the first.

        With ``stop: early``, none is submitted after those that have completed already and decide the gate.

        Raises:
            InvalidError: one job is to have the name in the options.
            ServiceError: the service refuses, or a job of a computed name is another one.
        """
        if self._ctx.options.name is not None:
            raise InvalidError("One name does not go with several replicates.", hint="Leave out --name.")
        templates = [self._of(template, place) for place in range(len(self._config.values))]
        marks = [fingerprint(one, images)[:_MARK] for one in templates]
        properties = {Tag.REPLICATES: " ".join([self._config.input, *marks])}
        for place, one in enumerate(templates):
            own = self._context(place)
            job = submit_job(
                own,
                self._target,
                replace(one, properties={**one.properties, **properties}),
                images,
                baseline,
                exact=place > 0,
            )
            self._add(own, job)
            if place == 0 and job.spec is not None:
                images = job.spec.images
            if job.attached and job.view.status is JobStatus.COMPLETED and len(self._ended) == place:
                self._ended.append(job)
                if self._decided():
                    break
        self._ended = []
        return self._jobs[0][1]

    def find(self, template: JobTemplate) -> SubmittedJob:
        """Find the jobs that were submitted before; return the first, or the one that is named.

        Raises:
            InvalidError: there is none of that name.
            ServiceError: none was submitted.
        """
        own = self._context(0)
        if self._ctx.options.job is not None:
            self._add(own, find_job(own, self._target, template))
            return self._with_others(self._jobs[0][1])
        for place in range(len(self._config.values)):
            own = self._context(place)
            try:
                self._add(own, find_job(own, self._target, self._of(template, place)))
            except ServiceError:
                if place == 0 or self._config.stop == "end":
                    raise
                break  # the ones before may have decided the gate
        return self._jobs[0][1]

    def _with_others(self, first: SubmittedJob) -> SubmittedJob:
        """Find the replicates of a job that was named, as far as they are those of the configuration; return it."""
        config, name = self._config, first.name
        ordered = find_replicates(self._target.service, first.view, config, completed=False)
        if name in {one.name for one in ordered[1:] if one is not None}:
            hint = (
                f"Name that of the first, {ordered[0].name}" if ordered[0] is not None else "Name that of the first"
            )
            raise InvalidError(f"The job {name} is not that of {config.label(0)}, which is judged.", hint=f"{hint}.")
        for view in ordered[1:]:
            if view is None:
                break
            self._add(self._context(len(self._jobs)), SubmittedJob(view=view, attached=True, ours=False))
        return first

    def _of(self, template: JobTemplate, place: int) -> JobTemplate:
        value = self._config.values[place]
        return replace(template, document=with_input(template.document, self._config.input, value))

    def _add(self, own: RunContext, job: SubmittedJob) -> None:
        self._jobs.append((own, job))
        self._ctx.replicate(self._config.label(len(self._jobs) - 1), job.name, job.view.status.value)

    def _context(self, place: int) -> RunContext:
        """Return the context of one replicate: the run's for the first, and one that reports little for each other."""
        ctx, label = self._ctx, self._config.label(place)

        def emit(event: Event) -> None:
            if place == 0 or isinstance(event, JobNamed):
                ctx.emit(event)
            elif isinstance(event, Notice) and event.level == "warning":
                ctx.warn(f"{label}: {event.text}")
            if isinstance(event, JobStatusChanged):
                ctx.replicate(label, event.job, event.status)

        if place == 0:
            return replace(ctx, emit=emit)
        progress = Progress()
        progress.add(images=ctx.progress.result.images)
        ctx.progress.others.append(progress)
        return replace(ctx, emit=emit, progress=progress)

    def follow(self) -> tuple[SubmittedJob, GateFailedError | None]:
        """Follow the replicates until all have completed, or the first of them decide the gate.

        Returns:
            the first job; the error of a run whose data may not change, None for none.

        Raises:
            AmlTrainError: a replicate failed, was cancelled, or exceeded a bound. The others are cancelled.
        """
        ctx, target, failure, decided = self._ctx, self._target, None, False
        began, planned = ctx.clock.now(), len(self._config.values)
        try:
            for place, (own, job) in enumerate(self._jobs):
                look = functools.partial(self._look, place)
                together = Together(began=began, spending=self._spending, look=look)
                completed = follow_job(own, target, job, together)
                completed, failure = check_at_end(own, target, job, completed)
                self._ended.append(completed)
                decided = failure is None and self._decided()
                if decided or failure is not None:
                    self._cancel(place + 1)
                    break
        except AmlTrainError as error:
            if not isinstance(error, ServiceError):
                self._cancel(len(self._ended))
            raise
        finally:
            if (cost := self._spending.cost()) is not None:
                ctx.progress.add(cost=cost)
                ctx.emit(cost)
        if decided:
            ctx.notice(f"The gate is decided after {len(self._ended)} of {planned} replicates.")
        elif failure is None and len(self._ended) < planned:
            missing = ", ".join(map(self._config.label, range(len(self._ended), planned)))
            raise ServiceError(f"There are no jobs with {missing} to be judged.", hint="Run them: aml-train run")
        return self._ended[0], failure

    def _decided(self) -> bool:
        """Return whether the gate needs no further replicates, where they are not awaited anyway."""
        ctx, config = self._ctx, self._ctx.plan.config
        early = self._config.stop == "early" and len(self._ended) < len(self._config.values)
        if not (early and ctx.options.decide):
            return False
        return evaluate(
            self._target.service,
            self._ended[0].name,
            config.gate,
            config.baseline,
            clock=ctx.clock,
            prover=ctx.prover(self._target),
            replicated=self.judged,
        ).decision.final

    def _look(self, place: int, view: JobView) -> Exceeded | None:
        """Look at the replicates after the one at *place*, which is followed."""
        ctx, now = self._ctx, self._ctx.clock.now()
        if now - self._looked < _EVERY:
            return None
        self._looked = now
        self._count(view)
        for later in range(place + 1, len(self._jobs)):
            _, job = self._jobs[later]
            if job.attached and job.view.status is JobStatus.COMPLETED:
                continue
            try:
                found = self._target.service.details(job.name)
            except ServiceError:
                continue
            label = self._config.label(later)
            ctx.replicate(label, found.name, found.status.value)
            self._count(found)
            failure = (
                failure_of(found.status, job=job.name, reason=found.error, tail="", codes=found.codes)
                if found.status.final
                else None
            )
            most = ctx.plan.config.retry.preempted
            if failure is not None and not may_follow(found, failure, cancelled=False, tags=job.view.tags, most=most):
                text, hint = f"The replicate {label} ended: {failure.message}", f"See: aml-train jobs logs {job.name}"
                return Exceeded(error=type(failure), text=text, remedy=hint)
        return self._spending.over(view.name) if ctx.plan.config.cost.bounded else None

    def _count(self, view: JobView) -> None:
        now = view.ended or view.observed
        if view.started is not None and now is not None:
            self._spending.ended(view, max(0.0, (now - view.started).total_seconds()))

    def _cancel(self, place: int) -> None:
        """Cancel the replicates from *place* on that this run has submitted and that may still run."""
        service = self._target.service
        for later in range(place, len(self._jobs)):
            own, job = self._jobs[later]
            name = job.name if own.progress.result.job is None else own.progress.result.job.name
            if job.attached:
                continue
            try:
                if service.details(name).status.terminal:
                    continue
                request_cancel(service, name, clock=self._ctx.clock)
                found = service.details(name)
                self._count(found)
                self._ctx.replicate(self._config.label(later), name, found.status.value)
            except ServiceError as error:
                self._ctx.warn(f"The job {name} could not be cancelled: {error.message}")
