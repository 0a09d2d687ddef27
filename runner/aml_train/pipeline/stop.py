"""Look for the rules of ``watch.stop`` while a job runs, and end the run of one that is cancelled for them."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from aml_train.config.sections.stop import StopConfig
from aml_train.core.errors import AmlTrainError, GateFailedError, InvalidError, ServiceError
from aml_train.core.events import MetricsSettled, RuleVerdict, StopFound, rank_label
from aml_train.core.tags import VALUE_LENGTH, Tag
from aml_train.core.text import duration
from aml_train.core.threads import map_parallel
from aml_train.gate.baseline import RunBaseline
from aml_train.gate.decide import Decision, GateResult
from aml_train.gate.futility import hopeless, missed, missed_by, reached, unmeetable
from aml_train.gate.history import MetricPoint, series_of
from aml_train.jobs.live import request_cancel
from aml_train.jobs.logs.names import LogName
from aml_train.jobs.logs.report import JobLogs
from aml_train.jobs.metrics import counted_histories, settle_metrics
from aml_train.jobs.placement import Placement
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, Workspace
from aml_train.pipeline.baselines import find_baseline
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.decide import record_gate
from aml_train.pipeline.evaluate import METRIC_PAUSE
from aml_train.pipeline.result import SubmittedJob
from aml_train.pipeline.target import Target

#: Metrics whose histories are read at one look; the others have their turn at the next one.
_MOST_AT_ONCE: Final = 8
#: Seconds between two looks that count as silence at most: this machine may have been asleep.
_GAP: Final = 120.0
#: How much longer than it took the next reading is waited for: the job's end and its logs come first.
_REST: Final = 9.0
#: Metrics that are read for a sign of life.
_MOST_METRICS: Final = 200
_METRICS: Final = "The job's metrics"
_T = TypeVar("_T")

History = Mapping[str, Sequence[MetricPoint]]


class StopWatch:
    """Looks for the rules of one attempt of a job.

    Args:
        ctx: the run.
        target: the workspace.
        job: the attempt.
        config: the rules.
    """

    def __init__(self, ctx: RunContext, target: Target, job: SubmittedJob, config: StopConfig) -> None:
        self._ctx = ctx
        self._target = target
        self._service: Workspace = target.service
        self._job = job
        self._placement = job.view.placement or Placement()
        self._config = config
        self._found: dict[str, tuple[StopFound, datetime.datetime | None]] = {}
        self._told: set[str] = set()
        self._turns = 0
        self._baseline: History | None = None
        self._stopping: list[RuleVerdict] = []
        self._requested = False
        self._rests_until = 0.0
        self._looked: float | None = None
        self._quiet = 0.0
        self._sizes: dict[LogName, int] = {}
        self._ages: dict[LogName, float] = {}

    def look(self, view: JobView, logs: JobLogs) -> None:
        """Look at a job that has begun. That something cannot be read changes nothing: the next look reads it again."""
        if view.status is not JobStatus.RUNNING:
            self._looked = None
            return
        silent, began, config = self._is_silent(view, logs), self._ctx.clock.now(), self._config
        if began < self._rests_until:
            return
        if silent:
            self._look_for_life(view)
        histories = self._histories(view)
        if config.gate is not None:
            for rule in unmeetable(config.of_gate, histories, config.gate):
                self._report(view, rule, exact=config.gate == "impossible")
        for rule in hopeless(config.metrics, histories, self._curves(histories)):
            self._report(view, rule, exact=False)
        if self._stopping and not self._requested:
            self._cancel(view)
        ended = self._ctx.clock.now()
        self._rests_until = ended + _REST * (ended - began)

    def judge(self, ended: JobView, failure: AmlTrainError | None) -> AmlTrainError | None:
        """Report what went on, and return what the run ends with: that a rule was found, if the job was cancelled for it.

        Args:
            ended: the job at its end.
            failure: what its own status says; None for Completed.
        """
        for found, at in list(self._found.values()):
            if not found.cancels and at is not None and ended.ended is not None:
                hours = max(0.0, (ended.ended - at).total_seconds()) * self._placement.nodes / 3600
                self._emit(replace(found, node_hours=hours), at)
        if failure is None and self._requested:
            self._ctx.warn("The job completed before it was cancelled: the gate decides.")
        # The tag of an earlier run only says for which rule: that the job was cancelled, and the run fails, is its status.
        tag = ended.tags.get(Tag.STOPPED, "") if self._config.mode == "cancel" else ""
        known = [missed(*rule, tag) for rule in self._config.rules]
        before = [replace(one, reason=tag.removeprefix(_label(one))) for one in known if tag.startswith(_label(one))]
        rules = self._stopping or before
        return self._ended(ended, rules) if ended.status is JobStatus.CANCELED and rules else failure

    def _report(self, view: JobView, rule: RuleVerdict, *, exact: bool) -> None:
        """Report a rule once; note that the job is to be cancelled for it."""
        if _label(rule) in self._found:
            return
        cancels = self._config.mode == "cancel"
        if cancels and not self._job.ours:
            self._say("`watch.stop` cancels no job that another run has submitted.")
            cancels = False
        elif cancels and exact and (view.restarted is not None or self._may_begin_anew()):
            self._say(
                "`watch.stop.gate: impossible` only reports: a preemption would begin another attempt, with values of its own."
            )
            cancels = False
        self._stopping += [rule] if cancels else []
        self._emit(StopFound(job=view.name, rule=rule, cancels=cancels), view.observed)

    def _emit(self, found: StopFound, at: datetime.datetime | None) -> None:
        self._found[_label(found.rule)] = (found, at)
        self._ctx.progress.add(stops=tuple(one for one, _ in self._found.values()))
        self._ctx.emit(found)

    def _may_begin_anew(self) -> bool:
        """Return whether a preemption may start the training again; also if that is not known."""
        kind = self._try("The kind of the job's nodes", lambda: self._service.node_kind(self._placement))
        return kind is None or kind.spot or self._ctx.plan.config.retry.preempted > 0

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._ctx.warn(text)

    def _histories(self, view: JobView) -> History:
        """Return what counts by now of some of the metrics whose rules are not found yet."""
        left = [metric for metric, text, _ in self._config.rules if f"{metric} {text}: " not in self._found]
        silence = self._config.silence
        names = list(dict.fromkeys(metric for metric in left if silence is None or metric != silence.metric))
        first = self._turns * _MOST_AT_ONCE % max(1, len(names))
        self._turns += 1
        read = self._read((names[first:] + names[:first])[:_MOST_AT_ONCE])
        if view.restarted is None:
            return read
        return self._try(_METRICS, lambda: counted_histories(self._service, self._job.name, read)) or {}

    def _try(self, what: str, work: Callable[[], _T]) -> _T | None:
        """Return the result of *work*; None if something cannot be read, which is said once."""
        try:
            return work()
        except (ServiceError, InvalidError) as error:
            self._say(f"{what} cannot be read, and `watch.stop` waits: {error.message}")
            return None

    def _read(self, names: Iterable[str]) -> History:
        """Return the values of metrics so far; none if they cannot be read."""
        wanted, read = list(names), functools.partial(self._service.metric_history, self._job.name)
        points = self._try(_METRICS, lambda: map_parallel(read, wanted, "metric-history"))
        return dict(zip(wanted, points or [], strict=False))

    def _curves(self, histories: History) -> History:
        """Return the curves of the baseline, once the first of them is needed."""
        wanted = [rule for rule in self._config.metrics if rule.kind == "below-baseline"]
        begun = any(reached(rule, histories.get(rule.metric, ())) is not None for rule in wanted)
        if self._baseline is None and begun:
            metrics, config = [rule.metric for rule in wanted], self._ctx.plan.config.baseline
            find = functools.partial(find_baseline, self._service, metrics, config, candidate=self._job.name)
            looked_up = self._try("The baseline", lambda: find(prover=self._ctx.prover(self._target)))
            if looked_up is None:
                return {}
            found = looked_up.found.values if looked_up.found is not None else None
            self._baseline = found.histories if isinstance(found, RunBaseline) else {}
            if not any(self._baseline.values()):
                self._say(f"`below-baseline` compares with nothing: {looked_up.why or 'the baseline has no curves'}.")
        return self._baseline or {}

    def _is_silent(self, view: JobView, logs: JobLogs) -> bool:
        """Return whether no log has grown for the time of the rule."""
        rule, now = self._config.silence, self._ctx.clock.now()
        if rule is None or view.observed is None:
            return False
        passed = 0.0 if self._looked is None else min(now - self._looked, _GAP)
        began, self._looked = self._looked is None, now
        before, self._sizes = self._sizes, logs.sizes()
        if not logs.readable:
            self._say("A log of the job cannot be read: its silence is not known, and `watch.stop.silence` waits.")
        grown = {name for name, size in self._sizes.items() if began or size != before.get(name)}
        self._ages = {name: 0.0 if name in grown else self._ages.get(name, 0.0) + passed for name in self._sizes}
        self._quiet = 0.0 if began or grown or not logs.readable else self._quiet + passed
        return self._quiet >= rule.number

    def _look_for_life(self, view: JobView) -> None:
        """Report the silence of a job whose logs are silent, unless a metric is newer."""
        rule = self._config.silence
        metrics = self._try(_METRICS, lambda: sorted(self._service.last_metrics(view.name))[:_MOST_METRICS])
        points = self._read(metrics or ())
        if rule is None or view.observed is None or metrics is None or len(points) < len(metrics):
            return
        newest = max((point.timestamp for some in points.values() for point in some), default=0)
        age = view.observed.timestamp() - newest / 1000
        if age < rule.number:
            self._quiet = max(0.0, age)
            return
        longest = max(self._ages, key=lambda name: self._ages[name], default=None)
        text = f"no line in any log and no metric for {duration(self._quiet)}"
        if longest is not None and len(self._ages) > 1:
            who = f"; {rank_label(longest.rank) or longest.path} has been silent the longest"
            text += f"{who}, for {duration(self._ages[longest])} ({longest.path})"
        self._report(view, missed_by(rule, text, self._quiet, rule.number), exact=False)

    def _cancel(self, view: JobView) -> None:
        """Say on the job what it is cancelled for, and cancel it; without an answer, the next look tries again."""
        why = f"{_label(self._stopping[0])}{self._stopping[0].reason}"[:VALUE_LENGTH]
        try:
            self._service.tag(view.name, {Tag.STOPPED: why})
            request_cancel(self._service, view.name, clock=self._ctx.clock)
            self._requested = True
        except ServiceError as error:
            self._say(f"The job {view.name} could not be cancelled, which is tried again: {error.message}")

    def _ended(self, ended: JobView, rules: Sequence[RuleVerdict]) -> GateFailedError:
        """Report the metrics of a job that was cancelled, record the verdict, and return it."""
        ctx, name = self._ctx, ended.name
        wanted = [metric for metric, _, _ in self._config.rules]
        settle = functools.partial(settle_metrics, clock=ctx.clock, pause=METRIC_PAUSE)
        metrics, histories = self._try(_METRICS, lambda: settle(self._service, name, wanted)) or ({}, {})
        gate = GateResult(decision=Decision(rules=tuple(rules)), metrics=metrics, histories=histories)
        ctx.progress.add(gate=gate)
        ctx.emit(MetricsSettled(job=name, metrics=metrics, histories=series_of(histories)))
        for rule in rules:
            ctx.emit(rule)
        record_gate(ctx, self._target, SubmittedJob(view=ended, attached=True), gate)
        lines = [f"{rule.reason} ({rule.where})" for rule in rules]
        return GateFailedError(
            f"The job {name} was stopped by `watch.stop`, and is {ended.status.value}: " + "\n".join(lines),
            hint="No model was registered. `watch.stop.mode: observe` only reports.",
        )


def _label(rule: RuleVerdict) -> str:
    """Return what names a rule, and begins its tag."""
    return f"{rule.metric} {rule.rule}: "
