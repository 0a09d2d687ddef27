"""The report of a run, made from its events as far as the run gets."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import msgspec

from aml_train.core import events
from aml_train.core.masked_events import masked
from aml_train.models.lineage import LineageStep
from aml_train.report import values
from aml_train.report.series import by_step

_MOST_NOTICES: Final = 100
#: Computed names, in which a short secret may occur by chance, among the facts that a run reports at its end.
_COMPUTED_FACTS: Final = frozenset(
    {"experiment", "model", "promoted_version", "previous_version", "stage", "promotion"}
)
_T = TypeVar("_T")


def begun_report(title: str, **fields: Any) -> values.Report:
    """Return the report of a run of which nothing is known yet: it ends with an error if nothing else is reported."""
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return values.Report(title=title, created=now, status="error", exit_code=1, **fields)


@dataclass(kw_only=True)
class RunRecord:
    """A listener that makes the report of a run; a run that ends early leaves the results until then.

    Attributes:
        report: the report so far.
        ended: whether the end is recorded.
        settled: whether the job's metrics were read.
        facts: the final ones, among them those of a promotion.
        actor, reason: of a promotion.
    """

    report: values.Report = field(default_factory=lambda: begun_report("aml-train"))
    ended: bool = False
    settled: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    actor: str = ""
    reason: str = ""
    _histories: Mapping[str, Sequence[values.Point]] = field(default_factory=dict)
    _before: Mapping[str, Sequence[values.Point]] = field(default_factory=dict)

    def set(self, **changes: Any) -> None:
        """Replace fields of the report."""
        self.report = replace(self.report, **changes)

    def end(self, status: str, exit_code: int, message: str, hint: str | None = None) -> None:
        """Record the end; the logs of a job that did not fail are of no interest."""
        self.set(status=status, exit_code=exit_code, message=message, hint=hint or "")
        if exit_code == 0:
            self.set(logs=(), tracebacks=())
        self.ended = True

    def masked(self, mask: Callable[[str], str], mask_name: Callable[[str], str]) -> RunRecord:
        """Return a copy without secrets in its texts: escaped for Markdown or JSON, not every one would be found.

        *mask_name* replaces them in names that were computed.
        """
        computed = {name: fact for name, fact in self.facts.items() if name in _COMPUTED_FACTS}
        return replace(
            self,
            report=values.tidy(self.report, mask, mask_name),
            facts={**masked(self.facts, mask, mask_name), **masked(computed, mask_name, mask_name)},
            actor=mask(self.actor),
            reason=mask(self.reason),
        )

    def __call__(self, event: events.Event) -> None:
        """Record one event."""
        report = self.report
        match event:
            case events.StageFinished():
                self.set(stages=_put(report.stages, event, "stage"))
            case events.ImageReady():
                self.set(images=_put(report.images, event, "image_name"))
            case events.ImageChecked():
                self.set(checks=(*report.checks, *event.findings))
            case events.TestsFinished():
                self.set(tests=_put(report.tests, event, "image_name"))
            case events.JobSubmitted():
                self.set(job=values.Job(name=event.job, url=event.studio_url or "", attached=event.attached))
            case events.JobStatusChanged():
                self._set_job(status=event.status)
            case events.GraphPlanned():
                self.set(nodes=event.nodes)
            case events.NodeChanged():
                known = next(
                    (one for one in report.nodes if one.name == event.node), events.GraphNode(name=event.node)
                )
                node = replace(known, status=event.status, run=event.run, reused=event.reused)
                self.set(nodes=_put(report.nodes, node, "name"))
            case events.LogsEnded():
                self.set(logs=event.tails, tracebacks=event.tracebacks)
            case events.AttemptEnded():
                self.set(attempts=(*report.attempts, event))
                self._set_job(status=event.status)
            case events.ReplicateChanged():
                self.set(replicates=_put(report.replicates, event, "replicate"))
            case events.CostCounted():
                self.set(cost=event)
            case events.StopFound():
                self.set(stops=_put(report.stops, event, "label"))
            case events.MetricsSettled():
                self.settled, self._histories = True, event.histories
                left_out = (f"{event.more_tables} logged tables",) if event.more_tables else ()
                self.set(metrics=event.metrics, tables=event.tables, left_out=(*report.left_out, *left_out))
            case events.BaselineCompared():
                self._compared(event)
            case events.RuleVerdict():
                self._rule(event)
            case events.ModelRegistered():
                self.set(model=values.Model(name=event.model, version=event.version, found=event.found))
            case events.ModelPromoted():
                self.actor = event.actor
            case events.Notice():
                if len(report.notices) < _MOST_NOTICES:
                    self.set(notices=(*report.notices, event.text))
            case events.RunFinished():
                self.end(event.status, event.exit_code, event.message, event.hint)
                self.facts = event.facts
                self._set_job(experiment=event.facts.get("experiment") or "")
                if lineage := event.facts.get("lineage"):
                    self.set(lineage=msgspec.convert(lineage, LineageStep))
            case _:
                pass

    def _set_job(self, **changes: Any) -> None:
        if self.report.job is not None:
            self.set(job=replace(self.report.job, **changes))

    def _compared(self, event: events.BaselineCompared) -> None:
        left, right = event.comparison.left, event.comparison.right
        self._before = event.histories
        rows = sorted(event.comparison.rows(), key=lambda row: row.same)
        self.set(
            baseline=values.Baseline(title=right.title, job=right.job or "", rows=tuple(rows)),
            data=left.data or {},
            parameters=left.parameters,
        )
        self._set_job(seconds=left.seconds)

    def _rule(self, event: events.RuleVerdict) -> None:
        gate = self.report.gate
        if event.verdict == "missed":
            gate = "failed"
        elif gate in ("", "skipped"):
            gate = "skipped" if event.verdict == "skipped" else "passed"
        self.set(rules=(*self.report.rules, event), gate=gate, curves=self._curves(event.metric, event.limit))

    def _curves(self, metric: str, limit: float | None) -> tuple[values.Curve, ...]:
        """Return the curves with that of *metric* and its further *limit*, over the baseline's."""
        others = [one for one in self.report.curves if one.metric != metric]
        limits = dict.fromkeys(value for one in self.report.curves if one.metric == metric for value in one.limits)
        if limit is not None and math.isfinite(limit):
            limits[limit] = None
        ours, theirs = by_step(self._histories.get(metric, ())), by_step(self._before.get(metric, ()))
        if len(ours) < 2:
            return self.report.curves
        series = [values.Series(title="this job", role="job", points=values.thin(ours.items()))]
        if len(theirs) > 1:
            series.append(values.Series(title="baseline", role="baseline", points=values.thin(theirs.items())))
        return (*others, values.Curve(metric=metric, series=tuple(series), limits=tuple(limits)))


def _put(found: tuple[_T, ...], new: _T, key: str) -> tuple[_T, ...]:
    """Return *found* with *new*, in place of the one whose attribute *key* is the same."""
    return tuple({getattr(one, key): one for one in (*found, new)}.values())
