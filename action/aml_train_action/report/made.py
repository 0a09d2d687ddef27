"""The report of a run, from its record. Pure.

Texts of the record are masked; what is larger than a report takes is cut.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, cast

import msgspec

from aml_train.core.comparison import Comparison
from aml_train.core.events import ImageReady, RuleDecided, TestsFinished
from aml_train.core.series import by_step
from aml_train.core.tables import Table as Logged
from aml_train.pipeline.report import (
    Attempt,
    Baseline,
    Check,
    Cost,
    Curve,
    Difference,
    Failure,
    Image,
    Job,
    Log,
    Model,
    Node,
    Report,
    Rule,
    Series,
    Source,
    Stage,
    Table,
    Tests,
    as_name,
    as_text,
    encode,
    number,
    thin,
)
from aml_train_action.report.record import Record

#: Rules and rows of the comparison, the most of each.
_MOST_ROWS: Final = 400
_MOST: Final = 200
_LINES: Final = 40
_MESSAGE: Final = 4_000
_GATES: Final = ("passed", "failed", "skipped", "")


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
    source: Source
    reproduce: str
    created: datetime.datetime
    rule_place: Callable[[str], str] = field(default=_as_it_is, repr=False)
    test_place: Callable[[str], str] = field(default=_as_it_is, repr=False)


def report_of(record: Record, origin: Origin) -> Report:
    """Return the report of what *record* has."""
    comparison = record.comparison
    baseline = comparison.right.metrics if comparison else {}
    return Report(
        title=as_name(origin.title),
        configuration=as_name(origin.configuration),
        target=as_name(origin.target),
        created=origin.created,
        status=as_name(record.status),
        exit_code=record.exit_code,
        message=_text(record.message),
        hint=_text(record.hint or ""),
        source=origin.source,
        job=_job(record),
        attempts=tuple(
            Attempt(job=as_name(one.job), attempt=one.attempt, status=as_name(one.status), ending=as_name(one.ending))
            for one in record.attempts[:_MOST]
        ),
        gate=cast('Literal["passed", "failed", "skipped", ""]', record.gate if record.gate in _GATES else ""),
        rules=tuple(
            _rule(rule, baseline, origin)
            for rule in sorted(record.rules, key=lambda one: one.verdict != "missed")[:_MOST_ROWS]
        ),
        baseline=_baseline(comparison) if comparison else None,
        metrics={as_name(name): number(value) for name, value in (record.metrics or {}).items()},
        curves=_curves(record),
        tables=tuple(_table(one) for one in record.tables[:_MOST]),
        images=tuple(
            _image(record, image) for image in (*([record.image] if record.image else []), *record.images.values())
        ),
        tests=tuple(
            _tests(tests, origin)
            for tests in (*([record.tests] if record.tests else []), *record.tests_of_images.values())
        ),
        checks=_checks(record),
        data=_texts((comparison.left.data if comparison else None) or {}),
        parameters=_texts(comparison.left.parameters if comparison else {}),
        nodes=_nodes(record),
        model=_model(record),
        logs=_logs(record),
        cost=_cost(record),
        stages=tuple(
            Stage(name=as_name(name), summary=_text(done.summary), seconds=done.seconds, skipped=done.skipped)
            for name, done in record.finished.items()
        ),
        notices=tuple(map(_text, record.notices)),
        reproduce=_text(origin.reproduce),
        left_out=_left_out(record),
    )


def encode_within(report: Report, *, most: int) -> bytes:
    """Return *report* as JSON of at most *most* bytes, with fewer rules if it must be.

    Missed rules are the first of them, and stay longest.
    """
    while True:
        try:
            return encode(report, most=most)
        except ValueError:
            rows = report.baseline.rows if report.baseline else ()
            if not (report.rules or rows):
                raise
            kept = report.rules[: len(report.rules) // 2]
            baseline = report.baseline and msgspec.structs.replace(report.baseline, rows=rows[: len(rows) // 2])
            gone = tuple(dict.fromkeys((*report.left_out, "rules of the gate and rows of the comparison")))
            report = msgspec.structs.replace(report, rules=kept, baseline=baseline, left_out=gone)


def _text(text: str) -> str:
    return as_text(text if len(text) <= _MESSAGE else text[: _MESSAGE - 1] + "…")


def _texts(values: Mapping[str, str]) -> dict[str, str]:
    return {as_name(name): _text(value) for name, value in values.items()}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _job(record: Record) -> Job | None:
    if record.job is None:
        return None
    last = record.attempts[-1] if record.attempts else None
    seconds = record.comparison.left.seconds if record.comparison else None
    return Job(
        name=as_name(record.job.job),
        status=as_name(last.status if last else record.job_status or ""),
        experiment=as_name(record.experiment or ""),
        url=as_name(record.job.studio_url or ""),
        attached=record.job.attached,
        seconds=_finite(seconds),
    )


def _rule(rule: RuleDecided, baseline: Mapping[str, float], origin: Origin) -> Rule:
    before = baseline.get(rule.metric)
    return Rule(
        metric=as_name(rule.metric),
        rule=as_name(rule.rule),
        verdict=cast('Literal["met", "missed", "warned", "skipped"]', rule.verdict),
        value=None if rule.value is None else number(rule.value),
        limit=None if rule.limit is None else number(rule.limit),
        baseline=None if before is None else number(before),
        reason=_text(rule.reason),
        where=as_name(origin.rule_place(rule.where)),
    )


def _baseline(comparison: Comparison) -> Baseline:
    rows = sorted(comparison.rows(), key=lambda row: row.same)[:_MOST_ROWS]
    return Baseline(
        title=_text(comparison.right.title),
        job=as_name(comparison.right.job or ""),
        rows=tuple(
            Difference(
                kind=row.kind,
                name=as_name(row.name),
                left=_text(row.left),
                right=_text(row.right),
                difference=_text(row.difference),
                same=row.same,
            )
            for row in rows
        ),
    )


def _curves(record: Record) -> tuple[Curve, ...]:
    curves = []
    for metric in dict.fromkeys(rule.metric for rule in record.rules):
        ours, theirs = by_step(record.histories.get(metric, ())), by_step(record.baseline.get(metric, ()))
        if len(ours) < 2:
            continue
        series = [Series(title="this job", points=thin(ours.items()))]
        if len(theirs) > 1:
            series.append(Series(title="baseline", points=thin(theirs.items())))
        limits = [one.limit for one in record.rules if one.metric == metric]
        finite = tuple(dict.fromkeys(limit for limit in limits if limit is not None and math.isfinite(limit)))
        curves.append(Curve(metric=as_name(metric), series=tuple(series), limits=finite))
    return tuple(curves)


def _table(table: Logged) -> Table:
    return Table(
        name=as_name(table.name),
        kind=table.kind,
        head=tuple(map(_text, table.head)),
        rows=tuple(tuple(map(_text, row)) for row in table.rows),
        more=_text(table.more),
    )


def _image(record: Record, image: ImageReady) -> Image:
    """Return an image; that of ``image`` with what differs from the baseline's."""
    comparison = record.comparison if not image.image_name else None
    changed = record.changed_image if comparison else None
    return Image(
        reference=as_name(image.reference),
        digest=as_name(image.digest),
        name=as_name(image.image_name),
        address=as_name(image.address),
        how=image.how,
        compressed_bytes=image.compressed_bytes,
        against=as_name((comparison.right.digest if comparison else None) or ""),
        changes=changed.changes if changed else (),
        more_changes=changed.more_changes if changed else 0,
    )


def _tests(tests: TestsFinished, origin: Origin) -> Tests:
    return Tests(
        image_name=as_name(tests.image_name),
        passed=tests.passed,
        failed=tests.failed,
        skipped=tests.skipped,
        seconds=_finite(tests.seconds),
        cached=tests.cached,
        failures=tuple(
            Failure(
                name=as_name(one.name),
                file=as_name(origin.test_place(one.file) if one.file else ""),
                line=one.line,
                message=_text(one.message),
            )
            for one in tests.failures[:_MOST]
        ),
    )


def _checks(record: Record) -> tuple[Check, ...]:
    findings = record.checks.findings if record.checks else ()
    return tuple(
        Check(
            check=as_name(one.check),
            level=one.counts_as,
            what=_text(one.what),
            why=_text(one.why),
            remedy=_text(one.remedy),
        )
        for one in findings[:_MOST]
    )


def _nodes(record: Record) -> tuple[Node, ...]:
    planned = {node.name: node for node in record.graph}
    nodes = []
    for name in list(dict.fromkeys((*planned, *record.nodes)))[:_MOST]:
        seen, plan = record.nodes.get(name), planned.get(name)
        nodes.append(
            Node(
                name=as_name(name),
                status=as_name(seen.status) if seen else "",
                run=as_name(seen.run) if seen else "",
                needs=tuple(map(as_name, plan.needs)) if plan else (),
                environment=as_name(plan.environment) if plan else "",
                reused=bool(seen and seen.reused),
            )
        )
    return tuple(nodes)


def _model(record: Record) -> Model | None:
    model = record.model
    if model is None:
        return None
    return Model(name=as_name(model.model), version=as_name(model.version), found=model.found)


def _logs(record: Record) -> tuple[Log, ...]:
    if record.logs is None or record.exit_code == 0:
        return ()
    return tuple(
        Log(
            origin=as_name(tail.origin),
            rank=as_name(tail.rank),
            size=tail.size,
            lines=tuple(as_text(line[:_MESSAGE]) for line in tail.lines[-_LINES:]),
        )
        for tail in record.logs.tails[:_MOST]
    )


def _cost(record: Record) -> Cost | None:
    cost = record.cost
    if cost is None:
        return None
    return Cost(
        text=_text(cost.text),
        node_hours=_finite(cost.node_hours),
        gpu_hours=_finite(cost.gpu_hours),
        amount=_finite(cost.cost),
        currency=as_name(cost.currency),
        unknown=_text(cost.unknown),
    )


def _left_out(record: Record) -> tuple[str, ...]:
    counted: Sequence[tuple[int, int, str]] = (
        (len(record.rules), _MOST_ROWS, "rules of the gate"),
        (len(record.comparison.rows()) if record.comparison else 0, _MOST_ROWS, "rows of the comparison"),
        (record.more_tables, 0, "logged tables"),
    )
    return tuple(f"{found - most} {what}" for found, most, what in counted if found > most)
