"""The sides of ``aml-train compare``: parse what is named, and look it up."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from aml_train.config.model import Config
from aml_train.config.sections.gate import BaselineConfig
from aml_train.core.comparison import Comparison, Side
from aml_train.core.errors import InvalidError
from aml_train.core.git import Checkout, Origin
from aml_train.gate.baseline import read_values
from aml_train.gate.history import MetricPoint, series_of
from aml_train.jobs.workspace import Workspace, no_job, seconds_of
from aml_train.pipeline.baselines import find_baseline, side_of_job
from aml_train.pipeline.branch_verdicts import Recorded
from aml_train.pipeline.plan import origin_of
from aml_train.pipeline.resolve import read_commit, read_project

Kind = Literal["job", "model", "stage", "branch", "file", "baseline"]
_PREFIXES: Final[Mapping[str, Kind]] = {"job": "job", "stage": "stage", "branch": "branch", "file": "file"}
_MODEL: Final = re.compile(r"(?P<name>[^:@]+)(?::(?P<version>[^:@]+)|@(?P<stage>[^:@]+))")
_FORMS: Final = (
    "Known are a job's name, model:NAME:VERSION, model:NAME@STAGE, stage:STAGE (of the model in aml-train.yml), branch:NAME, baseline (that"
    " of aml-train.yml), and files: report.json."
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The name of a side.

    Attributes:
        text: as it was written.
        kind: what it is; ``stage``, ``branch`` and ``baseline`` need the project's configuration.
        name: the job's, model's, stage's or branch's name, or the file's path; empty for ``baseline``.
        version, stage: of a model; exactly one of them is given there.
    """

    text: str
    kind: Kind
    name: str = ""
    version: str | None = None
    stage: str | None = None


def parse_reference(text: str) -> Reference:
    """Return the side that *text* names.

    A word without a prefix is a job's name, except ``baseline`` and files.

    Raises:
        InvalidError: it is none of the known forms.
    """
    prefix, sign, rest = text.partition(":")
    if text == "baseline":
        return Reference(text=text, kind="baseline")
    if sign and prefix == "model":
        match = _MODEL.fullmatch(rest)
        if match is None:
            raise InvalidError(f"{text!r} names no version of a model.", hint=_FORMS)
        return Reference(text=text, kind="model", name=match["name"], version=match["version"], stage=match["stage"])
    if sign and prefix in _PREFIXES:
        if not rest:
            raise InvalidError(f"{text!r} names nothing.", hint=_FORMS)
        return Reference(text=text, kind=_PREFIXES[prefix], name=rest)
    if text.lower().endswith(".json") or "/" in text:
        return Reference(text=text, kind="file", name=text)
    # AzureML's rule for the names of jobs: azure-ai-ml, ``_schema/core/fields.py``.
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,255}", text):
        raise InvalidError(f"{text!r} is not the name of a job.", hint=_FORMS)
    return Reference(text=text, kind="job", name=text)


@dataclass(frozen=True, kw_only=True)
class Project:
    """The project's configuration, for sides that depend on it."""

    config: Config
    origin: Origin


def project_of(config: Config, environ: Mapping[str, str]) -> Project:
    """Return the project of *config*, with the origin of its checkout; *environ* is the process's."""
    checkout = Checkout(config.directory)
    name = read_project(config.directory, environ, checkout=checkout)
    return Project(config=config, origin=origin_of(config, read_commit(config.directory, checkout=checkout), name))


def find_comparison(
    workspace: Callable[[], Workspace],
    references: tuple[Reference, Reference],
    project: Callable[[], Project],
    *,
    now: datetime.datetime,
    metrics: Sequence[str] = (),
) -> Comparison:
    """Return both sides, with *metrics* or all; other arguments and errors are those of :func:`find_side`.

    Raises:
        InvalidError: neither side logged one of *metrics*.
    """
    jobs = [one.name if one.kind == "job" else None for one in references]
    sides = [
        find_side(workspace, one, project, now=now, besides=other)
        for one, other in zip(references, reversed(jobs), strict=True)
    ]
    for metric in metrics:
        if not any(metric in side.metrics for side in sides):
            raise InvalidError(f"{metric}: neither side logged it.")
    left, right = (
        replace(side, metrics={name: value for name, value in side.metrics.items() if not metrics or name in metrics})
        for side in sides
    )
    return Comparison(left=left, right=right)


def metric_points(workspace: Callable[[], Workspace], side: Side, metric: str) -> Sequence[MetricPoint]:
    """Return a metric's recorded values; none for a side without a job.

    A model keeps the metrics of a job that is gone, which has no status; its histories are lost.
    """
    if side.job is None or side.status is None or metric not in side.metrics:
        return ()
    return workspace().metric_history(side.job, metric)


def histories(
    workspace: Callable[[], Workspace], found: Comparison, metric: str
) -> tuple[Sequence[tuple[int, float]], Sequence[tuple[int, float]]]:
    """Return the (step, value) pairs of a metric: the left side's and the right side's."""
    left, right = (
        series_of({metric: metric_points(workspace, side, metric)})[metric] for side in (found.left, found.right)
    )
    return left, right


def find_side(
    workspace: Callable[[], Workspace],
    reference: Reference,
    project: Callable[[], Project],
    *,
    now: datetime.datetime,
    besides: str | None = None,
) -> Side:
    """Return what is known of a side. A job may be in any state.

    Args:
        workspace: opens the workspace; called only if the reference needs it.
        reference: what is meant.
        project: loads the project; called only if the reference needs it.
        now: the time, for how long a running job has run.
        besides: the job on the other side, which is not the latest run of a branch here.

    Raises:
        InvalidError: there is none of that name, a file cannot be used, or the configuration does not say what is meant.
        ServiceError: the service does not answer.
    """
    if reference.kind == "file":
        return _of_file(Path(reference.name))
    service = workspace()
    if reference.kind == "job":
        view = service.find(reference.name)
        if view is None:
            raise no_job(service.tagged_jobs, reference.name)
        side = replace(
            side_of_job(view, f"the job {view.name}"),
            metrics=service.last_metrics(view.name),
            logged=service.logged_parameters(view.name),
        )
        return _timed(service, side, now)
    given = project() if reference.kind in ("stage", "branch", "baseline") else None
    config = _baseline(reference, given)
    if config.file is not None:
        return _of_file(config.file)
    prover = Recorded(origin=given.origin if given is not None else None)
    looked_up = find_baseline(service, [], config, prover=prover, candidate=besides)
    if looked_up.found is None:
        hint = "See: aml-train model list" if config.model is not None else _FORMS
        raise InvalidError(f"There is no {reference.text}: {looked_up.why}.", hint=hint)
    return _timed(service, looked_up.found.side, now)


def _baseline(reference: Reference, project: Project | None) -> BaselineConfig:
    """Return what is to be looked up, in the words of ``baseline:``."""
    if project is None:
        return BaselineConfig(model=reference.name, version=reference.version, stage=reference.stage)
    if reference.kind == "branch":
        return BaselineConfig(branch=reference.name)
    if reference.kind == "stage":
        if project.config.model is None:
            raise InvalidError(
                f"{reference.text!r} is a stage of the project's model, and aml-train.yml has no `model`.",
                hint=f"Write model:NAME@{reference.name}.",
            )
        return BaselineConfig(model=project.config.model.name, stage=reference.name)
    if project.config.baseline is None:
        raise InvalidError("aml-train.yml has no `baseline`.", hint=_FORMS)
    return project.config.baseline


def _timed(service: Workspace, side: Side, now: datetime.datetime) -> Side:
    """Add how long the job ran, or has been running."""
    if side.job is None or service.find(side.job) is None:
        return side
    seconds = seconds_of(service.details(side.job), now)
    return side if seconds is None else replace(side, seconds=seconds)


def _of_file(file: Path) -> Side:
    try:
        return Side(title=str(file), metrics=read_values(file.read_bytes()))
    except OSError as error:
        raise InvalidError(f"{file} cannot be read: {error.strerror}", hint=_FORMS) from error
    except ValueError as error:
        raise InvalidError(
            f"{file} cannot be used: {error}", hint='It is a JSON file of metrics: {"val/accuracy": 0.95}.'
        ) from error
