"""Decide the gate of a completed job, and record the decision in the job's tags."""

from __future__ import annotations

import datetime
from typing import Final

from aml_train.core.errors import GateFailedError, ServiceError
from aml_train.core.events import BaselineCompared, MetricsSettled
from aml_train.core.git import Origin, origin_of_tags
from aml_train.core.masked_events import masked
from aml_train.gate.baseline import FoundBaseline
from aml_train.gate.decide import GateResult
from aml_train.gate.history import late_text, series_of, written_after
from aml_train.pipeline.baselines import earlier_baseline
from aml_train.pipeline.branch_verdicts import branch_of, record_verdict
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.evaluate import METRIC_PAUSE, Replicated, evaluate
from aml_train.pipeline.result import SubmittedJob
from aml_train.pipeline.target import Target

#: Nothing arrives this long after the end. Two reads must agree all the same, in case the clocks differ.
_SETTLED_AFTER: Final = datetime.timedelta(seconds=30)


def decide(
    ctx: RunContext,
    target: Target,
    job: SubmittedJob,
    baseline: FoundBaseline | None,
    replicated: Replicated | None = None,
) -> GateResult:
    """Read the job's metrics, and those of the replicates that are judged with it, and decide every rule.

    *baseline* is the one that existed when the run began.

    Raises:
        GateFailedError: a rule is missed. The job's tags record it.
        ServiceError: the service refuses or does not answer.
    """
    plan, name = ctx.plan, job.view.name
    with ctx.stage("gate", "Decide the gate") as summary:
        ended = job.view.ended or target.service.details(name).ended
        now = datetime.datetime.now(datetime.UTC)
        long_ago = job.settled and ended is not None and now - ended > _SETTLED_AFTER
        gate = evaluate(
            target.service,
            name,
            plan.config.gate,
            plan.config.baseline,
            clock=ctx.clock,
            pause=0.0 if long_ago else METRIC_PAUSE,
            prover=ctx.prover(target),
            earlier=earlier_baseline(plan.config.baseline, baseline, job.view.tags, candidate=name),
            replicated=replicated,
        )
        ctx.emit(
            MetricsSettled(
                job=name,
                metrics=gate.metrics,
                histories=series_of(gate.histories),
                tables=masked(gate.tables, ctx.secrets.mask, ctx.secrets.mask_name),
                more_tables=gate.more_tables,
            )
        )
        for one in gate.replicates:
            ctx.replicate(one.replicate, one.job, one.status, one.metrics)
        if gate.remark:
            ctx.warn(gate.remark)
        if any(gate.histories.values()):
            # Anyone may have written what was logged after the job's end.
            for metric, points in sorted(written_after(gate.histories, ended).items()):
                ctx.warn(late_text(metric, points, ended))
        ctx.progress.add(gate=gate)
        if gate.comparison is not None and plan.config.baseline is not None:
            before = series_of(gate.baseline_histories)
            ctx.emit(BaselineCompared(comparison=gate.comparison, where=plan.config.baseline.where, histories=before))
        for event in gate.decision.rules:
            ctx.emit(event)
        if not gate.decision.met:
            record_gate(ctx, target, job, gate)
            lines = [f"{rule.reason} ({rule.where})" for rule in gate.decision.missed]
            raise GateFailedError("The gate is not met: " + "\n".join(lines), hint="No model was registered.")
        summary.append(gate.decision.summary)
    return gate


def record_gate(ctx: RunContext, target: Target, job: SubmittedJob, gate: GateResult | None) -> None:
    """Record the gate's decision in the job's tags; a refusal does not change it. None is a run that failed before it.

    A job that is found by its computed name is this commit's work; one that was named may be of any commit, and its tags say which.

    Raises:
        ServiceError: the service does not answer, and the run passes on the branch that later runs are compared with. With
            ``bootstrap``, the next one would find no baseline, and pass without being compared.
    """
    view, decision = job.view, None if gate is None else gate.decision
    against = (gate.comparison.right.job or "") if gate is not None and gate.comparison is not None else ""
    origin = ctx.plan.origin if ctx.options.job is None else origin_of_tags(view.tags)
    try:
        now = datetime.datetime.now(datetime.UTC)
        record_verdict(target.service, view, origin, decision, now=now, against=against, later=ctx.options.attach)
    except ServiceError as error:
        if error.transient and decision is not None and decision.met and _is_baseline_of_others(ctx, origin):
            raise ServiceError(
                f"The job {view.name} passes, but its verdict could not be written into its tags, where `baseline.branch`"
                f" finds it: {error.message}",
                hint="Run it again: nothing is trained a second time, and the verdict is written.",
            ) from error
        ctx.warn(
            f"The verdict could not be written into the job's tags, where `baseline.branch` finds it: {error.message}"
            f" `aml-train attach {view.name}` writes it."
        )


def _is_baseline_of_others(ctx: RunContext, origin: Origin | None) -> bool:
    """Return whether later runs are compared with those of this run's branch."""
    baseline, branch = ctx.plan.config.baseline, branch_of(origin)
    return baseline is not None and branch is not None and branch == baseline.branch
