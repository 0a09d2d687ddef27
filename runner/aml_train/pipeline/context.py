"""The context that every stage of a run receives, and the run's progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError
from aml_train.core.events import Listener, Notice, ReplicateChanged, Stage, report_stage
from aml_train.core.masking import Masker
from aml_train.jobs.live import LiveJob
from aml_train.jobs.workspace import JobView, Workspace
from aml_train.pipeline.branch_verdicts import Prover
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.result import RunOptions, RunResult
from aml_train.pipeline.target import Target

if TYPE_CHECKING:
    from aml_train.models.passport.envelope import Signer


class Progress:
    """The result so far, and the job that an interruption cancels or detaches.

    A failure reports the result so far.

    Attributes:
        result: the stages' results; replaced as a whole, never changed in place.
        live: the active job; None before there may be one, and after it has ended.
        ended: the status that the job ended with; None while it may still run.
        others: the progress of each further replicate of the job.
    """

    def __init__(self) -> None:
        self.result = RunResult()
        self.live: LiveJob | None = None
        self.ended: str | None = None
        self.others: list[Progress] = []

    def add(self, **results: Any) -> None:
        """Add results of stages, by their names in :class:`RunResult`."""
        self.result = replace(self.result, **results)

    def fail(self, error: AmlTrainError) -> None:
        """End the run with *error*."""
        self.add(status=error.status, exit_code=error.exit_code, message=error.message, hint=error.hint)

    def job_ended(self, status: str) -> None:
        """Note that the job has ended: there is nothing left to cancel."""
        self.live, self.ended = None, status


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """One execution of a plan, as its stages see it.

    Attributes:
        plan: what to do.
        options: what may vary between two executions of the plan.
        open_target: prepares the target; the local AzureML is started.
        emit: receives every event.
        clock: time.
        secrets: masks secrets in the job's logs and tables.
        progress: what was reached so far.
        signer: returns who signs passports; None if none are configured.
        prover: returns what proves the verdicts of branches and the origin of jobs, given the target.
    """

    plan: Plan
    options: RunOptions
    open_target: Callable[[], Target]
    emit: Listener
    clock: Clock
    secrets: Masker = field(default_factory=Masker)
    progress: Progress = field(default_factory=Progress)
    signer: Callable[[], Signer | None] = lambda: None
    prover: Callable[[Target], Prover | None] = lambda _target: None

    def stage(self, name: Stage, title: str) -> AbstractContextManager[list[str]]:
        """Report a stage. The block appends its summary to the list that it receives."""
        return report_stage(name, title, emit=self.emit, now=self.clock.now)

    def notice(self, text: str) -> None:
        """Report a remark."""
        self.emit(Notice(text=text))

    def warn(self, text: str) -> None:
        """Report a warning."""
        self.emit(Notice(text=text, level="warning"))

    def replicate(self, name: str, job: str, status: str, metrics: Mapping[str, float] | None = None) -> None:
        """Report a replicate of the job, unless nothing has changed."""
        event = ReplicateChanged(replicate=name, job=job, status=status, metrics=metrics or {})
        known = {one.replicate: one for one in self.progress.result.replicates}
        before = known.get(name)
        if before is None or (before.job, before.status, before.metrics) != (job, status, event.metrics):
            self.progress.add(replicates=tuple({**known, name: event}.values()))
            self.emit(event)

    def foreign(self, job: JobView, why: str) -> None:
        """Report a job that has the name of this run's, and is another one."""
        self.warn(
            f"The job {job.name} has the name of this run's job, and is not it: what differs is {why}. It is left alone, and"
            " does not count as an attempt."
        )

    def track(self, job: str, service: Workspace) -> LiveJob:
        """Make *job* the active one, which an interruption cancels or detaches.

        This comes before anything is sent.
        """
        self.progress.ended = None
        self.progress.live = live = LiveJob(job, service, self.clock, self.emit)
        return live
