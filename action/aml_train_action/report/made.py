"""The report of a run, from its record. Pure.

Texts of the record are masked; what is larger than a report takes is cut.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from aml_train.core.answers import json_number
from aml_train.core.comparison import Comparison
from aml_train.core.events import ImageReady, RuleVerdict, TestsFinished
from aml_train.core.series import by_step
from aml_train.report import values
from aml_train.report.convert import tidy
from aml_train_action.report.record import Record

#: Rules and rows of the comparison, the most of each.
_MOST_ROWS: Final = 400
_MOST: Final = 200
_LINES: Final = 40
_MESSAGE: Final = 4_000


def _as_it_is(name: str) -> str:
    return name


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The part of a report that the record does not know.

    Attributes:
        title: the project's name.
        configuration: which of the repository's configurations it is.
        target: the target that the workflow chose.
        source: repository, commit and workflow.
        reproduce: the command line that does the same elsewhere.
        created: the time of the report.
        rule_place: makes ``file:line`` of a rule relative to the repository's root.
        test_place: makes the file of a test so.
    """

    title: str
    configuration: str
    target: str
    source: values.Source
    reproduce: str
    created: datetime.datetime
    rule_place: Callable[[str], str] = field(default=_as_it_is, repr=False)
    test_place: Callable[[str], str] = field(default=_as_it_is, repr=False)


def report_of(record: Record, origin: Origin) -> values.Report:
    """Return the report of what *record* has."""
    left = record.comparison.left if record.comparison else None
    tests = [*([record.tests] if record.tests else []), *record.tests_of_images.values()]
    made = values.Report(
        title=origin.title,
        configuration=origin.configuration,
        target=origin.target,
        created=origin.created,
        status=record.status,
        exit_code=record.exit_code,
        message=record.message,
        hint=record.hint or "",
        source=origin.source,
        job=_job(record),
        attempts=tuple(
            values.Attempt(job=one.job, attempt=one.attempt, status=one.status, ending=one.ending)
            for one in record.attempts[:_MOST]
        ),
        gate=record.gate,
        rules=_rules(record, origin),
        baseline=_baseline(record.comparison) if record.comparison else None,
        metrics={name: json_number(value) for name, value in (record.metrics or {}).items()},
        curves=_curves(record),
        tables=tuple(
            values.Table(name=one.name, kind=one.kind, head=one.head, rows=one.rows, more=one.more)
            for one in record.tables[:_MOST]
        ),
        images=tuple(_image(one) for one in (*([record.image] if record.image else []), *record.images.values())),
        tests=tuple(_tests(one, origin) for one in tests),
        checks=tuple(
            values.Check(check=one.check, level=one.counts_as, what=one.what, why=one.why, remedy=one.remedy)
            for one in (record.checks.findings if record.checks else ())[:_MOST]
        ),
        data=dict((left.data if left else None) or {}),
        parameters=dict(left.parameters if left else {}),
        nodes=_nodes(record),
        model=_model(record),
        logs=_logs(record),
        cost=_cost(record),
        stages=tuple(
            values.Stage(name=name, summary=done.summary, seconds=done.seconds, skipped=done.skipped)
            for name, done in record.finished.items()
        ),
        notices=tuple(record.notices),
        reproduce=origin.reproduce,
        left_out=_left_out(record),
    )
    return tidy(made, _cut)


def encode_within(report: values.Report, *, most: int) -> bytes:
    """Return *report* as JSON of at most *most* bytes, with fewer rules if it must be.

    Missed rules are the first of them, and stay longest.
    """
    while True:
        try:
            return values.encode(report, most=most)
        except ValueError:
            rows = report.baseline.rows if report.baseline else ()
            if not (report.rules or rows):
                raise
            kept = report.rules[: len(report.rules) // 2]
            baseline = report.baseline and msgspec.structs.replace(report.baseline, rows=rows[: len(rows) // 2])
            gone = tuple(dict.fromkeys((*report.left_out, "rules of the gate and rows of the comparison")))
            report = msgspec.structs.replace(report, rules=kept, baseline=baseline, left_out=gone)


def _cut(text: str) -> str:
    return text if len(text) <= _MESSAGE else text[: _MESSAGE - 1] + "…"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _job(record: Record) -> values.Job | None:
    if record.job is None:
        return None
    last = record.attempts[-1] if record.attempts else None
    return values.Job(
        name=record.job.job,
        status=last.status if last else record.job_status or "",
        experiment=record.experiment or "",
        url=record.job.studio_url or "",
        attached=record.job.attached,
        seconds=_finite(record.comparison.left.seconds if record.comparison else None),
    )


def _rules(record: Record, origin: Origin) -> tuple[values.Rule, ...]:
    """Return the rules, missed ones first."""
    baseline = record.comparison.right.metrics if record.comparison else {}
    ordered = sorted(record.rules, key=lambda one: one.verdict != "missed")
    return tuple(_rule(one, baseline, origin) for one in ordered[:_MOST_ROWS])


def _rule(rule: RuleVerdict, baseline: Mapping[str, float], origin: Origin) -> values.Rule:
    numbers = {"value": rule.value, "limit": rule.limit, "baseline": baseline.get(rule.metric)}
    known: dict[str, Any] = {"verdict": rule.verdict}
    known |= {name: json_number(one) for name, one in numbers.items() if one is not None}
    return values.Rule(
        metric=rule.metric,
        rule=rule.rule,
        reason=rule.reason,
        where=origin.rule_place(rule.where),
        **known,
    )


def _baseline(comparison: Comparison) -> values.Baseline:
    rows = sorted(comparison.rows(), key=lambda row: row.same)[:_MOST_ROWS]
    return values.Baseline(
        title=comparison.right.title,
        job=comparison.right.job or "",
        rows=tuple(
            values.Difference(
                kind=row.kind, name=row.name, left=row.left, right=row.right, difference=row.difference, same=row.same
            )
            for row in rows
        ),
    )


def _curves(record: Record) -> tuple[values.Curve, ...]:
    curves = []
    for metric in dict.fromkeys(rule.metric for rule in record.rules):
        ours, theirs = by_step(record.histories.get(metric, ())), by_step(record.baseline.get(metric, ()))
        if len(ours) < 2:
            continue
        series = [values.Series(title="this job", points=values.thin(ours.items()))]
        if len(theirs) > 1:
            series.append(values.Series(title="baseline", points=values.thin(theirs.items())))
        limits = [one.limit for one in record.rules if one.metric == metric]
        finite = tuple(dict.fromkeys(limit for limit in limits if limit is not None and math.isfinite(limit)))
        curves.append(values.Curve(metric=metric, series=tuple(series), limits=finite))
    return tuple(curves)


def _image(image: ImageReady) -> values.Image:
    return values.Image(
        reference=image.reference,
        digest=image.digest,
        name=image.image_name,
        address=image.address,
        how=image.how,
        compressed_bytes=image.compressed_bytes,
    )


def _tests(tests: TestsFinished, origin: Origin) -> values.Tests:
    return values.Tests(
        image_name=tests.image_name,
        passed=tests.passed,
        failed=tests.failed,
        skipped=tests.skipped,
        seconds=_finite(tests.seconds),
        cached=tests.cached,
        failures=tuple(
            values.Failure(
                name=one.name,
                file=origin.test_place(one.file) if one.file else "",
                line=one.line,
                message=one.message,
            )
            for one in tests.failures[:_MOST]
        ),
    )


def _nodes(record: Record) -> tuple[values.Node, ...]:
    planned = {node.name: node for node in record.graph}
    nodes = []
    for name in list(dict.fromkeys((*planned, *record.nodes)))[:_MOST]:
        seen, plan = record.nodes.get(name), planned.get(name)
        nodes.append(
            values.Node(
                name=name,
                status=seen.status if seen else "",
                run=seen.run if seen else "",
                needs=tuple(plan.needs) if plan else (),
                environment=plan.environment if plan else "",
                reused=bool(seen and seen.reused),
            )
        )
    return tuple(nodes)


def _model(record: Record) -> values.Model | None:
    model = record.model
    return None if model is None else values.Model(name=model.model, version=model.version, found=model.found)


def _logs(record: Record) -> tuple[values.Log, ...]:
    if record.logs is None or record.exit_code == 0:
        return ()
    return tuple(
        values.Log(origin=tail.origin, rank=tail.rank, size=tail.size, lines=tuple(tail.lines[-_LINES:]))
        for tail in record.logs.tails[:_MOST]
    )


def _cost(record: Record) -> values.Cost | None:
    cost = record.cost
    if cost is None:
        return None
    return values.Cost(
        text=cost.text,
        node_hours=_finite(cost.node_hours),
        gpu_hours=_finite(cost.gpu_hours),
        amount=_finite(cost.cost),
        currency=cost.currency,
        unknown=cost.unknown,
    )


def _left_out(record: Record) -> tuple[str, ...]:
    counted = (
        (len(record.rules), _MOST_ROWS, "rules of the gate"),
        (len(record.comparison.rows()) if record.comparison else 0, _MOST_ROWS, "rows of the comparison"),
        (record.more_tables, 0, "logged tables"),
    )
    return tuple(f"{found - most} {what}" for found, most, what in counted if found > most)
