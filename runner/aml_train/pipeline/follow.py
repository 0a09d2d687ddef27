"""Follow a job, and the attempts after it, to the end; and tell what they cost."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError
from aml_train.core.events import (
    AttemptEnded,
    CostCounted,
    Event,
    JobStatusChanged,
    JobSubmitted,
    Listener,
    LogsEnded,
    Notice,
)
from aml_train.core.masking import Masker
from aml_train.jobs import (
    JobLogs,
    JobService,
    JobSpec,
    JobStatus,
    JobView,
    Limits,
    LiveJob,
    Pace,
    Spending,
    Watch,
    attempt_of,
    follow,
    may_follow,
    next_name,
    number_of,
    retries_of,
)
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.result import Outcome


@dataclass(kw_only=True)
class Held:
    """What a run answers for while it lasts.

    Attributes:
        live: the job that an interruption lets go of, or cancels; None while there is none.
        spec: what it was submitted as, by this run.
        ours: whether this run asked for it, rather than found it.
    """

    live: LiveJob | None = None
    spec: JobSpec | None = None
    ours: bool


class Following:
    """Follows one job of a plan.

    Args:
        plan: bounds, retries and prices.
        service: the workspace's jobs.
        clock: time.
        listener: is told everything.
        masker: knows the secrets that the logs are not to show.
        outcome: is filled with attempts, logs and cost.
        held: is kept true.
    """

    def __init__(
        self,
        plan: Plan,
        service: JobService,
        *,
        clock: Clock,
        listener: Listener,
        masker: Masker | None,
        outcome: Outcome,
        held: Held,
    ) -> None:
        self._plan = plan
        self._service = service
        self._clock = clock
        self._listener = listener
        self._masker = masker
        self._outcome = outcome
        self._held = held

    def run(self, view: JobView, pace: Pace) -> JobView:
        """Return the job that completed: *view*, or an attempt after it.

        Raises:
            AmlTrainError: what the last attempt ends the run with.
        """
        spending = Spending(self._plan.cost, self._service)
        try:
            return self._attempts(view, pace, spending)
        finally:
            self._count(spending)

    def _attempts(self, view: JobView, pace: Pace, spending: Spending) -> JobView:
        bounds, began = self._plan.watch, self._clock.now()
        while True:
            limits = Limits(
                total=bounds.timeout,
                queue=bounds.queue_timeout,
                run=bounds.run_timeout,
                cap=spending.begin(view),
                spent=self._clock.now() - began,
            )
            watching = self._watch(view, pace, limits)
            try:
                ended, failure = watching.run()
            except AmlTrainError:
                if watching.last is not None and watching.last.status.terminal:
                    self._ended(watching.last, None)
                raise
            finally:
                spending.ended(watching.last or view, watching.timing.running_seconds(self._clock.now()))
            most = self._plan.retry.preempted
            again = may_follow(ended, failure, cancelled=watching.timing.cancelled, tags=view.tags, most=most)
            name = next_name(view.name) if again and spending.allows_another() else None
            self._ended(ended, name)
            self._held.live = None
            if failure is None:
                return dataclasses.replace(view, started=ended.started, ended=ended.ended)
            if name is None:
                raise failure
            number = f"{retries_of(view.tags) + 1} of at most {most} times"
            text = f"The job {view.name} was preempted: submitting it again as {name}, {number}."
            self._listener(Notice(text=text, level="warning"))
            view = self._again(view)

    def _watch(self, view: JobView, pace: Pace, limits: Limits) -> Watch:
        service, listener = self._service, self._heard
        every = self._plan.watch.logs == "all"
        logs = JobLogs(service, view.name, self._watched, every=every, masker=self._masker, now=self._clock.now)
        return Watch(service, view.name, clock=self._clock, pace=pace, limits=limits, listener=listener, logs=logs)

    def _watched(self, event: Event) -> None:
        if isinstance(event, LogsEnded):
            self._outcome.logs = event
        self._listener(event)

    def _heard(self, event: Event) -> None:
        """Pass an event of the watch on. A job that has ended, whatever is left to be read of it, is not cancelled any more."""
        if isinstance(event, JobStatusChanged) and JobStatus(event.status).final:
            self._held.live, self._outcome.job_ended = None, event.status
        self._listener(event)

    def _ended(self, view: JobView, again: str | None) -> None:
        attempt = attempt_of(view)
        self._outcome.attempts.append(attempt)
        self._listener(
            AttemptEnded(
                job=attempt.job, attempt=attempt.number, status=attempt.status, ending=attempt.ending, again=again
            )
        )

    def _again(self, view: JobView) -> JobView:
        """Have the attempt after *view*, which was preempted; from now on this run answers for it."""
        held, service = self._held, self._service

        def answer_for(name: str) -> LiveJob:
            held.live = LiveJob(name, service, self._clock, self._listener)
            return held.live

        view, held.spec, attached = follow(service, view, held.spec, answer_for=answer_for)
        self._outcome.job, self._outcome.attached, self._outcome.job_ended = view, attached, None
        held.ours = held.ours or not attached
        self._listener(
            JobSubmitted(job=view.name, attached=attached, studio_url=view.studio_url, attempt=number_of(view.name))
        )
        return view

    def _count(self, spending: Spending) -> None:
        cost = self._outcome.cost = spending.cost()
        if cost is not None:
            self._listener(
                CostCounted(
                    node_hours=cost.node_hours,
                    gpu_hours=cost.gpu_hours,
                    cost=cost.amount,
                    currency=cost.currency,
                    text=str(cost),
                    unknown=cost.unknown,
                )
            )
