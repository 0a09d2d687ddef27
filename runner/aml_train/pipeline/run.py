"""The pipeline: image and tests → submit → follow → gate → register.

Stages emit events and print nothing.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Final

from aml_train.config.job.script import files_not_kept
from aml_train.core.errors import AmlTrainError
from aml_train.core.events import RunFinished
from aml_train.core.machine import expected, in_place_of_interrupt
from aml_train.core.tags import PROPERTY_FILES_NOT_KEPT
from aml_train.image.spec import ImageSpec, Tested, TestSpec
from aml_train.jobs.cost import Spending
from aml_train.jobs.inputs import data_to_be, pin_data
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.data import begin_reading, check_at_end, check_at_start
from aml_train.pipeline.decide import decide, record_gate
from aml_train.pipeline.evaluate import check_baseline
from aml_train.pipeline.follow import follow_job
from aml_train.pipeline.passport import check_signer, seal, sign_model
from aml_train.pipeline.register import register_model
from aml_train.pipeline.replicates import Replicates
from aml_train.pipeline.result import RunResult
from aml_train.pipeline.submit import find_job, interrupt, submit_job
from aml_train.pipeline.target import Target

_MOST_FILES: Final = 5
"""Files that the message of a run names, of those that are lost."""


def run(ctx: RunContext) -> RunResult:
    """Execute the plan.

    Returns:
        the result, with exit code and status word of the table of endings; expected errors are in it.
    """
    progress = ctx.progress
    try:
        status, message = _run_stages(ctx)
        progress.add(status=status, exit_code=0, message=message)
    except AmlTrainError as error:
        progress.fail(error)
    except (KeyboardInterrupt, Exception) as error:
        if in_place_of_interrupt(error):
            progress.add(interrupted=True)
            progress.fail(interrupt(ctx))
        elif isinstance(error, OSError) and (limit := expected(error)) is not None:
            progress.fail(limit)
        else:
            raise
    result = progress.result
    ctx.emit(
        RunFinished(
            status=result.status,
            exit_code=result.exit_code,
            message=result.message,
            hint=result.hint,
            facts=result.facts(),
        )
    )
    return result


def _run_stages(ctx: RunContext) -> tuple[str, str]:
    """Run the stages; return status word and message of a run that does not fail."""
    plan, options = ctx.plan, ctx.options
    if plan.config.passport.signs:
        check_signer(ctx)
    for text in plan.notices:
        ctx.notice(text)
    with ctx.stage("target", plan.names.description) as summary:
        target = ctx.open_target()
        summary.append("ready")
    if not options.submit:
        build_and_test(ctx, target)
        return "passed", "The image is tested and in the registry."
    service, baseline = target.service, None
    replicates = None if plan.config.replicates is None else Replicates(ctx, target, plan.config.replicates)
    template = plan.job if options.job is not None else pin_data(plan.job, service)
    data = None if options.job is not None else begin_reading(ctx, service, template)
    if options.attach:
        if data is not None:
            template = dataclasses.replace(template, data=data())
        job = find_job(ctx, target, template) if replicates is None else replicates.find(template)
        if options.decide and (options.wait or job.view.status.terminal):
            prover = ctx.prover(target)
            baseline = check_baseline(service, plan.config.gate, plan.config.baseline, prover=prover, submitted=True)
    else:
        if options.decide:
            inputs = data_to_be(template)
            baseline = check_baseline(
                service, plan.config.gate, plan.config.baseline, prover=ctx.prover(target), data=inputs
            )
        for text in Spending(plan.config.cost, service).check(plan.job.document, plan.config.target.cluster):
            if text not in plan.notices:
                ctx.notice(text)
        images = build_and_test(ctx, target)
        template = dataclasses.replace(template, data=data() if data is not None else {})
        submit = functools.partial(submit_job, ctx, target) if replicates is None else replicates.submit
        job = submit(template, images, baseline)
    if not (options.wait or job.view.status.terminal):
        later = "attach` follows and gates it" if options.decide else f"jobs logs -f {job.name}` follows it"
        return "submitted", f"The job {job.name} is submitted, and continues by itself. `aml-train {later}."
    if not job.view.status.terminal:
        check_at_start(ctx, target, job)
    if replicates is None:
        completed, failure = check_at_end(ctx, target, job, follow_job(ctx, target, job))
    else:
        completed, failure = replicates.follow()
    if failure is not None:
        if options.decide:
            record_gate(ctx, target, completed, None)
        raise failure
    if not options.decide:
        return "passed", f"The job {completed.view.name} completed."
    gate = decide(ctx, target, completed, baseline, None if replicates is None else replicates.judged)
    model = register_model(ctx, target, completed, gate)
    if model is not None and plan.config.passport.signs:
        sign_model(ctx, target, completed.view, gate, model)
    record_gate(ctx, target, completed, gate)
    if plan.config.passport.signs:
        seal(ctx, target, completed.view, gate)
    return "passed", f"The job completed{gate.decision.clause}.{_not_kept(ctx, completed.view)}"


def _not_kept(ctx: RunContext, job: JobView) -> str:
    """Return that no model is registered, and which files the job lost; empty if the configuration has a model.

    The local AzureML knows the files; of a job on Azure, the code that was sent tells those with literal names.
    """
    if ctx.plan.config.model is not None:
        return ""
    lost, code = job.properties.get(PROPERTY_FILES_NOT_KEPT), ctx.plan.config.job.code
    if lost is None and ctx.options.job is None and code is not None and code.is_dir():
        lost = ", ".join(f"{name} ({where})" for name, where in list(files_not_kept(code).items())[:_MOST_FILES])
    none = " No model is registered: the configuration has no `model`."
    return f"{none} Not kept, as it was written outside outputs/: {lost}." if lost else none


def build_and_test(ctx: RunContext, target: Target) -> Mapping[str, Tested]:
    """Build and test the images, or find them in the registry; return them by their names, that of the job first.

    A job's own environment is used as it is.
    """
    images: dict[str, Tested] = {}
    if not ctx.plan.images:
        ctx.notice("The job's own environment is used as it is given, not tested.")
    for one in ctx.plan.images:
        images[one.spec.name] = _ensure(ctx, target, one.spec, one.tests)
        ctx.progress.add(images=dict(images))
    return images


def _ensure(ctx: RunContext, target: Target, spec: ImageSpec, tests: TestSpec | None) -> Tested:
    plan, options = ctx.plan, ctx.options
    if tests is not None and options.keep_tests:
        tests = dataclasses.replace(tests, keep=True)
    # A proposed commit registers nothing, and its configuration names no secret of the runner.
    spec = dataclasses.replace(spec, is_proposed=not options.register)
    commit = str(plan.commit) if plan.commit else None
    return target.ensure_image(spec, tests, force=options.force_build, commit=commit)
