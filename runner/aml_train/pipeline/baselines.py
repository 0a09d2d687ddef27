"""Look up the configured baseline: its values, and what a comparison shows of it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn

from aml_train.config.sections.gate import BaselineConfig
from aml_train.core.comparison import Side
from aml_train.core.errors import InvalidError
from aml_train.core.secrets import without_secret_values
from aml_train.core.tags import VALUE_LENGTH, Tag
from aml_train.core.threads import map_parallel
from aml_train.gate.baseline import FoundBaseline, RunBaseline, ValuesBaseline, read_values
from aml_train.gate.history import last_value
from aml_train.gate.logged import columns_of
from aml_train.jobs.attempts import replicates_of
from aml_train.jobs.data import recorded_contents
from aml_train.jobs.inputs import data_of
from aml_train.jobs.metrics import counted_histories
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView, Workspace, seconds_of
from aml_train.models.register import fault_of_registration
from aml_train.pipeline.branch_verdicts import Prover, Recorded, latest_passed

NOT_CONFIGURED: Final = "no `baseline` is configured"


def selection(config: BaselineConfig) -> str:
    """Return how *config* chooses its baseline: ``model=digits stage=production``."""
    keys = ("file", "job", "model", "stage", "tag", "version", "branch")
    given = {key: getattr(config, key) for key in keys}
    chosen = {
        key: value.name if isinstance(value, Path) else value for key, value in given.items() if value is not None
    }
    return " ".join(f"{key}={value}" for key, value in chosen.items())


def baseline_tags(config: BaselineConfig | None, found: FoundBaseline | None) -> dict[str, str]:
    """Return the tag that records the baseline of a job that is about to be submitted.

    It is empty if there is no baseline.
    """
    if config is None or found is None:
        return {}
    return {Tag.BASELINE: f"{selection(config)}: {found.side.title}"[:VALUE_LENGTH]}


def earlier_baseline(
    config: BaselineConfig | None, at_start: FoundBaseline | None, tags: Mapping[str, str], *, candidate: str
) -> str:
    """Return what the baseline was before *candidate* was judged, and when; empty for none.

    Args:
        config: the present configuration. A tag of the job that names another baseline does not count.
        at_start: what was found when this run began.
        tags: the job's.
        candidate: the job, which is not its own baseline.
    """
    if config is None:
        return ""
    if at_start is not None and at_start.side.job != candidate:
        return f"{at_start.side.title} was the baseline when the run began"
    before = f"{selection(config)}: "
    noted = tags.get(Tag.BASELINE, "")
    return (
        f"{noted.removeprefix(before)} was the baseline when the job was submitted"
        if noted.startswith(before)
        else ""
    )


@dataclass(frozen=True, kw_only=True)
class BaselineLookup:
    """The baseline, or why there is none.

    Attributes:
        found: the baseline; None for none.
        why: why there is none.
        doubted: there is something in its place that was altered or is not proved: that there is none is no reason to pass
            without it.
    """

    found: FoundBaseline | None = None
    why: str = ""
    doubted: bool = False


def find_baseline(
    service: Workspace,
    metrics: Sequence[str],
    config: BaselineConfig | None,
    *,
    prover: Prover | None = None,
    candidate: str | None = None,
) -> BaselineLookup:
    """Return the baseline, or why there is none.

    Only a job that completed is one: the metrics of another are those of a training that has not come to its end.

    Args:
        service: the workspace.
        metrics: those whose every value is needed.
        config: what is configured.
        prover: proves the verdicts of the branches of this run's repository.
        candidate: the job that is judged, which is not the baseline of a branch.

    Raises:
        InvalidError: the baseline's file cannot be used.
        ServiceError: the service does not answer.
    """
    if config is None:
        return BaselineLookup(why=NOT_CONFIGURED)
    if config.file is not None:
        return BaselineLookup(found=_of_file(config), why=f"there is no file {config.file.name}")
    if config.job is not None:
        view = service.find(config.job)
        if view is None:
            return BaselineLookup(why=f"there is no job {config.job}")
        if view.status is not JobStatus.COMPLETED:
            why = f"the job {config.job} is {view.status.value}, and only a completed one is a baseline"
            return BaselineLookup(why=why)
        return BaselineLookup(found=_of_job(service, view, f"the job {view.name}", metrics))
    if config.branch is not None:
        last = latest_passed(service, prover, config.branch, besides=candidate)
        if last.view is None:
            return BaselineLookup(why=last.why, doubted=last.doubted)
        place = f"branch {config.branch}{', verdict not proved' if isinstance(prover, Recorded) else ''}"
        return BaselineLookup(found=_of_job(service, last.view, f"the job {last.view.name} ({place})", metrics))
    return _of_model(service, config, metrics)


def with_replicates(service: Workspace, found: FoundBaseline, metrics: Sequence[str]) -> FoundBaseline:
    """Return a baseline with the values of its job's replicates; of one whose job is not there any more, itself alone.

    Raises:
        ServiceError: the service does not answer.
    """
    view = service.find(found.side.job) if found.side.job and isinstance(found.values, RunBaseline) else None
    known = [] if view is None else replicates_of(service, view, judged=found.judged)
    others = [one for one in known if one.name != found.side.job]
    values = [_of_job(service, one, f"the job {one.name}", metrics).values for one in others]
    return replace(found, replicates=(found.values, *values))


def side_of_job(view: JobView, title: str) -> Side:
    """Return a job as the side of a comparison, without what it logged."""
    return Side(
        title=title,
        job=view.name,
        status=view.status.value,
        seconds=seconds_of(view),
        data=data_of(view.tags, view.inputs),
        contents=recorded_contents(view.properties),
        digest=view.tags.get(Tag.DIGEST),
        commit=view.tags.get(Tag.COMMIT),
        parameters=view.parameters,
        variables=without_secret_values(view.variables),
    )


def side_of_model(model: ModelView, title: str, view: JobView | None) -> Side:
    """Return a model's version as the side of a comparison.

    Facts of the job that wrote it are added if the job still exists; metrics are those of the version's tags.
    """
    job = model.origin
    side = Side(title=title, job=job) if view is None else side_of_job(view, title)
    known = view is not None or any(name.startswith(Tag.DATA) for name in model.tags)
    tags, inputs = (view.tags, view.inputs) if view is not None else ({}, {})
    kept = {
        tag.removeprefix(Tag.PARAMETER): text for tag, text in model.tags.items() if tag.startswith(Tag.PARAMETER)
    }
    return replace(
        side,
        model=model.name,
        version=model.version,
        metrics=kept_metrics(model),
        data=data_of({**tags, **model.tags}, inputs) if known else None,
        contents=recorded_contents(model.tags),
        digest=model.tags.get(Tag.DIGEST) or side.digest,
        commit=model.tags.get(Tag.COMMIT) or side.commit,
        parameters=view.parameters if view is not None else kept,
    )


def kept_metrics(model: ModelView) -> dict[str, float]:
    """Return the metrics in a model's tags, except tags that are no numbers any more."""
    values: dict[str, float] = {}
    for tag, value in model.tags.items():
        if tag.startswith(Tag.METRIC):
            try:
                values[tag.removeprefix(Tag.METRIC)] = float(value)
            except ValueError:
                continue
    return values


def _of_file(config: BaselineConfig) -> FoundBaseline | None:
    file = config.file
    if file is None:
        return None
    try:
        values = read_values(file.read_bytes())
    except FileNotFoundError:
        if config.bootstrap:
            return None
        _unusable(config, "there is no such file")
    except OSError as error:
        _unusable(config, str(error.strerror))
    except ValueError as error:
        _unusable(config, str(error))
    baseline = ValuesBaseline(title=file.name, values=values, stands_for_all=True)
    return FoundBaseline(values=baseline, side=Side(title=file.name, metrics=values))


def _unusable(config: BaselineConfig, why: str) -> NoReturn:
    raise InvalidError(
        f"{config.where}: the baseline {config.file} cannot be read: {why}",
        hint='It is a JSON file of metrics and numbers, such as {"val/accuracy": 0.95}.',
    )


def _of_job(service: Workspace, view: JobView, title: str, metrics: Sequence[str]) -> FoundBaseline:
    last = service.last_metrics(view.name)
    known = [metric for metric in metrics if metric in last]
    values = map_parallel(functools.partial(service.metric_history, view.name), known, "metric-history")
    histories = counted_histories(service, view.name, dict(zip(known, values, strict=True)))
    if unknown := [metric for metric in metrics if metric not in last]:
        series = columns_of(service.logged(view.name, known=last, first=unknown)).series
        columns = {metric: series[metric] for metric in unknown if series.get(metric)}
        histories |= columns
        last = {**last, **{metric: last_value(points) for metric, points in columns.items()}}
    return FoundBaseline(
        values=RunBaseline(title=title, histories=histories),
        side=replace(side_of_job(view, title), metrics=last, logged=service.logged_parameters(view.name)),
    )


def _of_model(service: Workspace, config: BaselineConfig, metrics: Sequence[str]) -> BaselineLookup:
    name = config.model or ""
    wanted = next(
        f"{key} {value}" for key in ("stage", "tag", "version") if (value := getattr(config, key)) is not None
    )
    versions = service.models(name)
    model = next((version for version in versions if _is_wanted(version, config)), None)
    if model is None:
        has = f"of its {len(versions)} versions none is" if versions else "there is no such model"
        return BaselineLookup(why=f"the model {name} with {wanted} is missing ({has})")
    title = f"{name} version {model.version} ({wanted})"
    job = model.origin
    view = service.find(job) if job is not None else None
    if view is not None and view.status is JobStatus.COMPLETED:
        if fault := fault_of_registration(service, model, view.name):
            return BaselineLookup(why=f"{title} was altered after its registration: {fault}", doubted=True)
        found = _of_job(service, view, title, metrics)
        side = side_of_model(model, title, view)
        metrics_of_both = {**side.metrics, **found.side.metrics}
        return BaselineLookup(
            found=replace(
                found,
                side=replace(side, metrics=metrics_of_both, logged=found.side.logged),
                judged=model.properties.get(Tag.REPLICATES, ""),
            )
        )
    # Its job is gone, or is not what it was; what the gate read at its end is kept with the model.
    side = side_of_model(model, title, view)
    values = ValuesBaseline(title=title, values=side.metrics, stands_for_all=False)
    return BaselineLookup(found=FoundBaseline(values=values, side=side))


def _is_wanted(model: ModelView, config: BaselineConfig) -> bool:
    if config.version is not None:
        return model.version == config.version
    if config.stage is not None:
        return config.stage.lower() == model.staged
    name, _, value = (config.tag or "").partition("=")
    return name in model.tags and (not value or model.tags[name] == value)
