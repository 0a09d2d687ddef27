"""Register the model of a job that passed, or check that the job wrote it."""

from __future__ import annotations

from aml_train.core.events import ModelRegistered
from aml_train.core.git import origin_of_tags
from aml_train.core.tags import Tag
from aml_train.gate.decide import GateResult
from aml_train.jobs.attempts import judged_text
from aml_train.jobs.composed import COMPOSED
from aml_train.jobs.workspace import JobView, ModelView
from aml_train.models.register import check_written, lineage_tags
from aml_train.models.register import register_model as register
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.graph import run_with_model
from aml_train.pipeline.result import SubmittedJob
from aml_train.pipeline.target import Target


def register_model(ctx: RunContext, target: Target, job: SubmittedJob, gate: GateResult) -> ModelView | None:
    """Register the job's model once; return None if none is configured or allowed.

    Raises:
        JobFailedError: the job wrote no model.
        ServiceError: the service refuses or does not answer.
    """
    spec = ctx.plan.config.model
    if spec is None:
        return None
    name = job.view.name
    run = run_with_model(target.service, name, spec.node) if job.view.kind in COMPOSED else name
    reason = _why_not(ctx, target, job.view)
    if reason is not None:
        with ctx.stage("register", f"Look for the model {spec.name}") as summary:
            doubt = check_written(target.service, spec, run)
            if doubt is not None:
                ctx.warn(doubt)
            summary.append(f"{spec.name} is written, and not registered: {reason}")
        return None
    with ctx.stage("register", f"Register the model {spec.name}") as summary:
        tags = lineage_tags(job.view, metrics=gate.metrics, decision=gate.decision)
        if gate.replicates:
            jobs, one = [one.job for one in gate.replicates], gate.replicates[0]
            tags = {Tag.REPLICATES: judged_text(jobs, one.replicate.partition(" ")[0]), **tags}
        tags |= {Tag.NODE: spec.node} if spec.node is not None else {}
        tags |= {Tag.NODE_RUN: run} if run != name else {}
        model, found = register(target.service, spec, job=name, run=run, tags=tags, remark=ctx.warn)
        ctx.progress.add(model=model)
        ctx.emit(ModelRegistered(model=model.name, version=model.version, found=found))
        summary.append(f"{'had been registered as' if found else 'registered'} {model.name} version {model.version}")
    return model


def _why_not(ctx: RunContext, target: Target, job: JobView) -> str | None:
    """Return why the model is not registered; None if it is.

    A job that was named may be of any commit: it must be proved to be what a commit of the branch trains.
    """
    branch = ctx.options.branch
    if not ctx.options.register:
        return "this run registers no model"
    if ctx.options.job is None or branch is None:
        return None
    origin, ours = origin_of_tags(job.tags), ctx.plan.origin
    if origin is None or not origin.branch:
        return f"the job's tags do not say that it is a job of {branch}"
    if ours is not None and (origin.repository != ours.repository or not origin.repository):
        return f"the job is one of {origin.repository or 'another repository'}"
    if origin.dirty or origin.branch != branch:
        changed = ", with changes that are in no commit" if origin.dirty else ""
        return f"the job is one of {origin.branch}{changed}, and not of {branch}"
    prover = ctx.prover(target)
    if prover is None:
        return f"nothing here proves that the job is one of {branch}"
    fault = prover.fault_of_work(target.service, job, branch, origin.commit)
    return f"the job is not proved to be one of {branch}: {fault}" if fault else None
