"""What becomes of a job that completed: the gate decides, the model is registered, the job's tags say it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

from aml_train.core.clock import Clock
from aml_train.core.errors import GateFailedError, ServiceError
from aml_train.core.events import (
    BaselineCompared,
    Listener,
    MetricsSettled,
    ModelRegistered,
    Notice,
    Stage,
)
from aml_train.core.masking import Masker
from aml_train.core.origin import origin_of_tags
from aml_train.core.tables import masked
from aml_train.gate import Decision, MetricPoint, late_text, written_after
from aml_train.jobs import JobService, JobView
from aml_train.models import check_written, lineage_tags, register_model
from aml_train.pipeline.baselines import Found, earlier_baseline
from aml_train.pipeline.branch_verdicts import GateWord, record_verdict
from aml_train.pipeline.evaluate import courses, decide_gate, report
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.result import Options, Outcome

# Between two readings of the metrics: of a job that has just ended, and of one that had ended before this run.
_METRIC_PAUSE: Final = 0.3
_SETTLED_PAUSE: Final = 0.05


class Verdict:
    """Decides on one job of a plan.

    Args:
        plan: rules, baseline and model.
        service: the workspace's jobs, metrics and models.
        options: see :class:`aml_train.pipeline.result.Options`.
        clock: time.
        listener: is told everything.
        outcome: is filled with metrics, decision and model.
        stage: reports a stage by its name and title; the block puts its summary into the list that it is given.
        settled: the job had ended before this run: its metrics change no more.
        masker: knows the secrets that texts of the job are not to show.
        at_start: the baseline that there was when the run began, as far as it was looked up.
    """

    def __init__(
        self,
        plan: Plan,
        service: JobService,
        *,
        options: Options,
        clock: Clock,
        listener: Listener,
        outcome: Outcome,
        stage: Callable[[Stage, str], AbstractContextManager[list[str]]],
        settled: bool,
        masker: Masker | None = None,
        at_start: Found | None = None,
    ) -> None:
        self._plan = plan
        self._at_start = at_start
        self._service = service
        self._options = options
        self._clock = clock
        self._listener = listener
        self._outcome = outcome
        self._stage = stage
        self._settled = settled
        self._masker = masker or Masker()

    def carry_out(self, job: JobView) -> Decision:
        """Decide on *job*, which completed, and register its model.

        Raises:
            GateFailedError: a rule is missed; nothing was registered.
            JobFailedError: the job wrote no model.
            ServiceError: the service refuses or does not answer.
        """
        decision = self._decide(job)
        self._register(job, decision)
        self._record(job, decision.word)
        return decision

    def _decide(self, job: JobView) -> Decision:
        plan = self._plan
        with self._stage("gate", "Decide the gate") as summary:
            pause = _SETTLED_PAUSE if self._settled else _METRIC_PAUSE
            gated = decide_gate(
                self._service,
                job.name,
                plan.gate,
                plan.baseline,
                clock=self._clock,
                pause=pause,
                origin=plan.origin,
                earlier=earlier_baseline(plan.baseline, self._at_start, job.tags, candidate=job.name),
            )
            decision, self._outcome.metrics = gated.decision, gated.last
            points = courses(gated.histories)
            tables = tuple(masked(table, self._masker.mask) for table in gated.tables)
            self._listener(
                MetricsSettled(
                    job=job.name,
                    metrics=gated.last,
                    histories=points,
                    tables=tables,
                    more_tables=gated.more_tables,
                )
            )
            if gated.remark:
                self._warn(gated.remark)
            self._report_late(job, gated.histories)
            self._outcome.decision, self._outcome.comparison = decision, gated.comparison
            if gated.comparison is not None and plan.baseline is not None:
                before = courses(gated.before)
                self._listener(
                    BaselineCompared(comparison=gated.comparison, where=plan.baseline.where, histories=before)
                )
            report(decision, self._listener)
            if not decision.met:
                self._record(job, "failed")
                lines = [f"{rule.reason} ({rule.where})" for rule in decision.missed]
                raise GateFailedError("The gate is not met: " + "\n".join(lines), hint="No model was registered.")
            summary.append(decision.summary)
        return decision

    def _report_late(self, job: JobView, histories: Mapping[str, Sequence[MetricPoint]]) -> None:
        """Report values that the gate has read and that were logged after the job's end: they may be anybody's."""
        if not any(histories.values()):
            return
        ended = job.ended or self._service.details(job.name).ended
        for name, points in sorted(written_after(histories, ended).items()):
            self._warn(late_text(name, points, ended))

    def _register(self, job: JobView, decision: Decision) -> None:
        spec, service = self._plan.model, self._service
        if spec is None:
            return
        if (why := self._unregistered(job)) is not None:
            with self._stage("register", f"Look for the model {spec.name}") as summary:
                if (doubt := check_written(service, spec, job.name)) is not None:
                    self._warn(doubt)
                summary.append(f"{spec.name} is written, and not registered: {why}")
            return
        with self._stage("register", f"Register the model {spec.name}") as summary:
            tags = lineage_tags(job, metrics=self._outcome.metrics, decision=decision)
            model, found = register_model(service, spec, job=job.name, tags=tags, remark=self._warn)
            self._outcome.model = model
            self._listener(ModelRegistered(model=model.name, version=model.version, found=found))
            summary.append(
                f"{'had been registered as' if found else 'registered'} {model.name} version {model.version}"
            )

    def _unregistered(self, job: JobView) -> str | None:
        """Return why the model of *job* is not registered; None when it is. A job that is named may be any commit's."""
        branch = self._options.branch
        if not self._options.register:
            return "this run registers no model"
        if self._options.job is None or branch is None:
            return None
        origin, ours = origin_of_tags(job.tags), self._plan.origin
        if origin is None or not origin.branch:
            return f"the job's tags do not say that it is a job of {branch}"
        if ours is not None and origin.repository != ours.repository:
            return f"the job is one of {origin.repository or 'another repository'}"
        if origin.dirty or origin.branch != branch:
            changed = ", with changes that are in no commit" if origin.dirty else ""
            return f"the job is one of {origin.branch}{changed}, and not of {branch}"
        return None

    def _record(self, job: JobView, gate: GateWord) -> None:
        """Have the job's tags say what the gate said. The verdict stands, whether they do or not.

        A job that is found by its computed name is this commit's work; one that is named may be any commit's, and its tags say which.
        """
        origin = self._plan.origin if self._options.job is None else origin_of_tags(job.tags)
        try:
            record_verdict(self._service, job, origin, gate, now=datetime.datetime.now(datetime.UTC))
        except ServiceError as error:
            self._warn(
                f"The verdict could not be written into the job's tags, where `baseline.branch` finds it: {error.message}"
                f" `aml-train attach {job.name}` writes it."
            )

    def _warn(self, text: str) -> None:
        self._listener(Notice(text=text, level="warning"))
