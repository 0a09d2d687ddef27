"""The report of a run, made from its events as far as the run gets."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

import msgspec

from aml_train.core.answers import json_number
from aml_train.core.events import (
    AttemptEnded,
    BaselineCompared,
    CostCounted,
    Event,
    GraphPlanned,
    ImageChecked,
    ImageReady,
    JobStatusChanged,
    JobSubmitted,
    LogsEnded,
    MetricsSettled,
    ModelPromoted,
    ModelRegistered,
    NodeChanged,
    Notice,
    RuleVerdict,
    RunFinished,
    StageFinished,
    TestsFinished,
)
from aml_train.core.masked_events import masked
from aml_train.gate.decide import Verdict
from aml_train.report import values
from aml_train.report.convert import difference_value, table_value, tidy
from aml_train.report.series import by_step

_MOST_NOTICES: Final = 100
#: Computed names, in which a short secret may occur by chance, among the facts that a run reports at its end.
_COMPUTED_FACTS: Final = frozenset(
    {"experiment", "model", "promoted_version", "previous_version", "stage", "promotion"}
)
_Named = TypeVar("_Named", values.Stage, values.Image, values.Node)


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
        outputs: image → name and output of each test that failed in it.
        actor, reason: of a promotion.
    """

    report: values.Report = field(default_factory=lambda: begun_report("aml-train"))
    ended: bool = False
    settled: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    actor: str = ""
    reason: str = ""
    _histories: Mapping[str, Sequence[values.Point]] = field(default_factory=dict)
    _before: Mapping[str, Sequence[values.Point]] = field(default_factory=dict)
    _baseline: Mapping[str, float] = field(default_factory=dict)

    def set(self, **changes: Any) -> None:
        """Replace fields of the report."""
        self.report = msgspec.structs.replace(self.report, **changes)

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
        report = msgspec.structs.replace(tidy(self.report, mask, mask_name), status=self.report.status)
        return replace(
            self,
            report=report,
            facts={**masked(self.facts, mask, mask_name), **masked(computed, mask_name, mask_name)},
            outputs=masked(self.outputs, mask, mask_name),
            actor=mask(self.actor),
            reason=mask(self.reason),
        )

    def __call__(self, event: Event) -> None:
        """Record one event."""
        report = self.report
        match event:
            case StageFinished():
                stage = values.Stage(
                    name=event.stage, summary=event.summary, seconds=event.seconds, skipped=event.skipped
                )
                self.set(stages=_put(report.stages, stage))
            case ImageReady():
                self.set(images=_put(report.images, _image(event)))
            case ImageChecked():
                found = (
                    values.Check(check=one.check, level=one.counts_as, what=one.what, why=one.why, remedy=one.remedy)
                    for one in event.findings
                )
                self.set(checks=(*report.checks, *found))
            case TestsFinished():
                others = (one for one in report.tests if one.image_name != event.image_name)
                self.set(tests=(*others, _tests(event)))
                outputs = [(one.name, one.output) for one in event.failures if one.output]
                self.outputs = {**self.outputs, event.image_name: outputs}
            case JobSubmitted():
                self.set(job=values.Job(name=event.job, url=event.studio_url or "", attached=event.attached))
            case JobStatusChanged():
                self._set_job(status=event.status)
            case GraphPlanned():
                self.set(
                    nodes=tuple(
                        values.Node(name=one.name, needs=one.needs, environment=one.environment)
                        for one in event.nodes
                    )
                )
            case NodeChanged():
                known = next((one for one in report.nodes if one.name == event.node), values.Node(name=event.node))
                node = msgspec.structs.replace(known, status=event.status, run=event.run, reused=event.reused)
                self.set(nodes=_put(report.nodes, node))
            case LogsEnded():
                self._logs(event)
            case AttemptEnded():
                attempt = values.Attempt(
                    job=event.job, attempt=event.attempt, status=event.status, ending=event.ending
                )
                self.set(attempts=(*report.attempts, attempt))
                self._set_job(status=event.status)
            case CostCounted():
                self.set(cost=_cost(event))
            case MetricsSettled():
                self.settled, self._histories = True, event.histories
                left_out = (f"{event.more_tables} logged tables",) if event.more_tables else ()
                self.set(
                    metrics={name: json_number(value) for name, value in event.metrics.items()},
                    tables=tuple(map(table_value, event.tables)),
                    left_out=(*report.left_out, *left_out),
                )
            case BaselineCompared():
                self._compared(event)
            case RuleVerdict():
                self._rule(event)
            case ModelRegistered():
                self.set(model=values.Model(name=event.model, version=event.version, found=event.found))
            case ModelPromoted():
                self.actor = event.actor
            case Notice():
                if len(report.notices) < _MOST_NOTICES:
                    self.set(notices=(*report.notices, event.text))
            case RunFinished():
                self.end(event.status, event.exit_code, event.message, event.hint)
                self.facts = event.facts
                self._set_job(experiment=event.facts.get("experiment") or "")
                if lineage := event.facts.get("lineage"):
                    self.set(lineage=_step(lineage))
            case _:
                pass

    def _set_job(self, **changes: Any) -> None:
        if self.report.job is not None:
            self.set(job=msgspec.structs.replace(self.report.job, **changes))

    def _logs(self, event: LogsEnded) -> None:
        self.set(
            logs=tuple(
                values.Log(origin=one.origin, rank=one.rank, size=one.size, lines=one.lines) for one in event.tails
            ),
            tracebacks=tuple(
                values.Traceback(origin=one.origin, rank=one.rank, message=one.message, text=one.text)
                for one in event.tracebacks
            ),
        )

    def _compared(self, event: BaselineCompared) -> None:
        left, right = event.comparison.left, event.comparison.right
        self._before, self._baseline = event.histories, right.metrics
        rows = sorted(event.comparison.rows(), key=lambda row: row.same)
        self.set(
            baseline=values.Baseline(title=right.title, job=right.job or "", rows=tuple(map(difference_value, rows))),
            data=dict(left.data or {}),
            parameters=dict(left.parameters),
        )
        self._set_job(seconds=left.seconds)

    def _rule(self, event: RuleVerdict) -> None:
        rule = values.Rule(
            metric=event.metric,
            rule=event.rule,
            verdict=cast(Verdict, event.verdict),
            value=json_number(event.value),
            limit=json_number(event.limit),
            baseline=json_number(self._baseline.get(event.metric)),
            reason=event.reason,
            where=event.where,
        )
        gate = self.report.gate
        if event.verdict == "missed":
            gate = "failed"
        elif gate in ("", "skipped"):
            gate = "skipped" if event.verdict == "skipped" else "passed"
        self.set(rules=(*self.report.rules, rule), gate=gate, curves=self._curves(event.metric, event.limit))

    def _curves(self, metric: str, limit: float | None) -> tuple[values.Curve, ...]:
        """Return the curves with that of *metric* and its further *limit*, over the baseline's."""
        others = [one for one in self.report.curves if one.metric != metric]
        limits = dict.fromkeys(value for one in self.report.curves if one.metric == metric for value in one.limits)
        if limit is not None and math.isfinite(limit):
            limits[limit] = None
        ours, theirs = by_step(self._histories.get(metric, ())), by_step(self._before.get(metric, ()))
        if len(ours) < 2:
            return self.report.curves
        series = [values.Series(title="this job", points=values.thin(ours.items()))]
        if len(theirs) > 1:
            series.append(values.Series(title="baseline", points=values.thin(theirs.items())))
        return (*others, values.Curve(metric=metric, series=tuple(series), limits=tuple(limits)))


def _put(found: tuple[_Named, ...], new: _Named) -> tuple[_Named, ...]:
    """Return *found* with *new*, in place of the one of its name."""
    named = {one.name: one for one in found}
    named[new.name] = new
    return tuple(named.values())


def _image(event: ImageReady) -> values.Image:
    return values.Image(
        reference=event.reference,
        digest=event.digest,
        name=event.image_name,
        address=event.address,
        how=event.how,
        compressed_bytes=event.compressed_bytes,
    )


def _tests(event: TestsFinished) -> values.Tests:
    return values.Tests(
        image_name=event.image_name,
        passed=event.passed,
        failed=event.failed,
        skipped=event.skipped,
        seconds=event.seconds,
        cached=event.cached,
        failures=tuple(
            values.Failure(name=one.name, file=one.file or "", line=one.line, message=one.message)
            for one in event.failures
        ),
    )


def _cost(event: CostCounted) -> values.Cost:
    return values.Cost(
        text=event.text,
        node_hours=event.node_hours,
        gpu_hours=event.gpu_hours,
        amount=event.cost,
        currency=event.currency,
        unknown=event.unknown,
    )


def _step(fact: Mapping[str, Any]) -> values.Step:
    """Return the lineage among the facts of a promotion."""
    known = {name: str(fact[name]) for name in ("kind", "name", "state", "detail")}
    return values.Step(**known, parts=tuple(map(_step, fact["parts"])))
