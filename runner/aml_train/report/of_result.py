"""The report of a run's result, without further requests. Pure, but for the time of the report."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from aml_train.core.answers import json_number
from aml_train.gate.decide import GateResult
from aml_train.image.spec import Tested
from aml_train.report import values
from aml_train.report.convert import (
    Other,
    difference_value,
    job_value,
    model_value,
    rule_value,
    table_value,
    tidy,
)
from aml_train.report.parts import CurveSide, read_curves

if TYPE_CHECKING:
    from aml_train.pipeline.result import RunResult


def report_of_result(result: RunResult) -> values.Report:
    """Return what a result has as a report."""
    job, cost, gate = result.job, result.cost, result.gate
    images = [("", result.image), *result.images.items()]
    known: dict[str, object] = {} if gate is None else _of_gate(gate)
    report = values.Report(
        title=(job.view.experiment or job.name) if job is not None else "aml-train",
        created=datetime.datetime.now(datetime.UTC),
        status=result.status,
        exit_code=result.exit_code,
        message=result.message,
        hint=result.hint or "",
        job=None if job is None else job_value(job.view, None),
        attempts=tuple(
            values.Attempt(job=one.job, attempt=one.number, status=one.status, ending=one.ending)
            for one in result.attempts
        ),
        images=tuple(
            values.Image(reference=str(one.reference), digest=one.digest, name=name, address=one.address, how=one.how)
            for name, one in images
            if isinstance(one, Tested)
        ),
        model=None if result.model is None else model_value(result.model),
        logs=tuple(
            values.Log(origin=tail.origin, rank=tail.rank, size=tail.size, lines=tuple(tail.lines))
            for tail in (result.logs.tails if result.logs is not None and not result.passed else ())
        ),
        cost=None
        if cost is None
        else values.Cost(
            text=str(cost),
            node_hours=cost.node_hours,
            gpu_hours=cost.gpu_hours,
            amount=cost.amount,
            currency=cost.currency,
            unknown=cost.unknown,
        ),
        notices=(f"The result is not reproducible: {result.data_changed}",) if result.data_changed else (),
        **known,  # type: ignore[arg-type]
    )
    return tidy(report, str)


def _of_gate(gate: GateResult) -> dict[str, object]:
    compared = gate.comparison
    others = [] if compared is None else [Other(side=compared.right, role="baseline")]
    limits: dict[str, list[float]] = {}
    for rule in gate.decision.rules:
        if rule.limit is not None:
            limits.setdefault(rule.metric, []).append(rule.limit)
    sides: list[CurveSide] = [("this job", "job", lambda name: gate.histories.get(name, ()))]
    if compared is not None:
        sides.append(("baseline", "baseline", lambda name: gate.baseline_histories.get(name, ())))
    curves, _ = read_curves(sorted(gate.histories), sides, limits)
    return {
        "gate": gate.decision.word if gate.decision.rules else "",
        "rules": tuple(rule_value(rule, others) for rule in gate.decision.rules),
        "baseline": None
        if compared is None
        else values.Baseline(
            title=compared.right.title,
            job=compared.right.job or "",
            rows=tuple(map(difference_value, compared.rows())),
        ),
        "metrics": {name: json_number(value) for name, value in gate.metrics.items()},
        "curves": tuple(curves),
        "tables": tuple(map(table_value, gate.tables)),
    }
