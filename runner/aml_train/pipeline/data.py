"""Identities of a job's data: read before it, and again as it begins and ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from aml_train.core.errors import AmlTrainError, GateFailedError, InvalidError, ServiceError
from aml_train.core.tags import VALUE_LENGTH, Tag
from aml_train.core.threads import in_background
from aml_train.jobs.data import (
    DataIdentity,
    DataSource,
    change_text,
    changed_data,
    data_sources,
    input_name,
    recorded_data,
)
from aml_train.jobs.inputs import pin_data
from aml_train.jobs.live import request_cancel
from aml_train.jobs.spec import JobTemplate
from aml_train.jobs.workspace import Workspace
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.prepare import PreparedRun
from aml_train.pipeline.result import SubmittedJob
from aml_train.pipeline.target import Target, find_open_workspace

#: Data that were read longer ago, before a build, are read again before the job is named after them.
_FRESH_SECONDS: Final = 30.0


def read_data(service: Workspace, sources: Mapping[str, DataSource]) -> dict[str, DataIdentity]:
    """Return what the data of each input are now."""
    return dict(zip(sources, service.identify_data(list(sources.values())), strict=True)) if sources else {}


def begin_reading(
    ctx: RunContext, service: Workspace, template: JobTemplate
) -> Callable[[], dict[str, DataIdentity]]:
    """Begin to read the data of *template*; return a function that returns them.

    The reading runs in parallel with the look-up of the image. The function raises InvalidError if data that are not identified fail
    the run.
    """
    sources, began = data_sources(template.document), ctx.clock.now()
    first = in_background(lambda: read_data(service, sources), "data")

    def found() -> dict[str, DataIdentity]:
        data = first.result()
        if ctx.clock.now() - began > _FRESH_SECONDS:
            data = read_data(service, sources)
        if unknown := _unknown(data):
            _report_unknown(ctx, unknown)
        return data

    return found


def with_data(prepared: PreparedRun) -> PreparedRun:
    """Return the plan with the identities of its data, if a workspace answers.

    Nothing is started.
    """
    plan, config = prepared.plan, prepared.plan.config
    sources = data_sources(plan.job.document)
    if not sources:
        return prepared
    problem = "the local AzureML does not run"
    try:
        connection = find_open_workspace(prepared.host, config.target, config.directory)
        if connection is not None:
            job = pin_data(plan.job, connection.service)
            job = replace(job, data=read_data(connection.service, data_sources(job.document)))
            return replace(prepared, plan=replace(plan, job=job))
    except AmlTrainError as error:
        problem = error.message
    data = dict.fromkeys(sources, DataIdentity(problem=problem))
    return replace(prepared, plan=replace(plan, job=replace(plan.job, data=data)))


def _report_unknown(ctx: RunContext, unknown: str) -> None:
    effect, text = _effect(ctx), f"Data are not identified: {unknown}"
    if effect == "fail":
        raise InvalidError(
            f"{ctx.plan.config.data_config.where}: {text}, and `data.unidentified` is `fail`.",
            hint="Give the identity the right to list these data, or write `unidentified: retrain`.",
        )
    meaning = "no completed job is attached to" if effect == "retrain" else "changes at their addresses go unnoticed"
    ctx.notice(f"{text}: {meaning} (`data.unidentified: {effect}`).")


def _effect(ctx: RunContext) -> str:
    return ctx.plan.config.data_config.unidentified or ("retrain" if ctx.options.register else "allow")


def must_retrain(ctx: RunContext, template: JobTemplate) -> bool:
    """Return whether a completed job may not be attached to.

    It may have read other data.
    """
    return _effect(ctx) == "retrain" and any(not one.mark for one in template.data.values())


def check_at_start(ctx: RunContext, target: Target, job: SubmittedJob) -> None:
    """Read the data again as the job begins, and warn of changes.

    Raises:
        GateFailedError: data changed, and ``data.pin`` is strict. A job of this run is cancelled.
    """
    text, _ = _changes(target.service, job)
    if not text:
        return
    _report(ctx, text)
    if ctx.plan.config.data_config.pin == "strict":
        if not job.attached:
            request_cancel(target.service, job.name, clock=ctx.clock)
        raise _strict(ctx.plan, text)


def check_at_end(
    ctx: RunContext, target: Target, job: SubmittedJob, completed: SubmittedJob
) -> tuple[SubmittedJob, GateFailedError | None]:
    """Read the data again after the job.

    A job that had completed before this run, and is named after the data as they are now, is not read again.

    Returns:
        the job, with a tag that records changes; the error of a run whose data may not change, None for none.
    """
    view = completed.view
    known = completed.settled and job.spec is not None
    text, unread = ("", "") if known else _changes(target.service, job)
    text = text or view.tags.get(Tag.DATA_CHANGED, "")
    if text:
        _report(ctx, text)
        completed = _recorded(ctx, target.service, completed, text[:VALUE_LENGTH])
    elif unread:
        ctx.warn(f"Whether data changed after the job was submitted is not known: {unread}.")
    strict = ctx.plan.config.data_config.pin == "strict" and (text or unread)
    return completed, _strict(ctx.plan, text or f"Not known: {unread}") if strict else None


def _recorded(ctx: RunContext, service: Workspace, completed: SubmittedJob, text: str) -> SubmittedJob:
    """Return the job with the tag of its changed data, which the service gets too."""
    view, tags = completed.view, {Tag.DATA_CHANGED: text}
    if view.tags.get(Tag.DATA_CHANGED) != text:
        try:
            service.tag(view.name, tags)
        except ServiceError as error:
            ctx.warn(f"The job's tags do not record that its data changed: {error.message}")
    return replace(completed, view=replace(view, tags={**view.tags, **tags}))


def _changes(service: Workspace, job: SubmittedJob) -> tuple[str, str]:
    """Return how data changed since the submission, and which cannot be listed again."""
    if job.spec is not None:
        then, sources = job.spec.data, data_sources(job.spec.document)
    else:
        then = recorded_data(job.view.properties)
        sources = {f"inputs.{name}": DataSource(path=path) for name, path in job.view.inputs.items()}
    now = read_data(service, {place: one for place, one in sources.items() if place in then and then[place].mark})
    return change_text(changed_data(then, now)), _unknown(now)


def _unknown(data: Mapping[str, DataIdentity]) -> str:
    return ", ".join(f"{input_name(place)} ({one.problem})" for place, one in data.items() if not one.mark)


def _report(ctx: RunContext, text: str) -> None:
    if ctx.progress.result.data_changed != text:
        ctx.progress.add(data_changed=text)
        ctx.warn(f"The result is not reproducible: data changed after the job was submitted. {text}.")


def _strict(plan: Plan, text: str) -> GateFailedError:
    return GateFailedError(
        f"Data may not change after the job is submitted: `data.pin` is `strict` ({plan.config.data_config.where}). {text}.",
        hint="No model was registered. Run again: the job trains on the data as they are now.",
    )
