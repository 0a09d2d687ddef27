"""Collect the report of a job from a workspace.

A part that cannot be read, such as an image that was deleted or a log in storage that is not reached from here, is missing in the report,
which says why in its place. Only a job that does not exist ends the collection.
"""

from __future__ import annotations

import functools
import itertools
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from aml_train.azure.models import AzureCatalogue
from aml_train.comparison import Project, Reference, find_side
from aml_train.config.model import Config
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.clock import SYSTEM_CLOCK
from aml_train.core.comparison import Comparison, Side
from aml_train.core.errors import AmlTrainError, InvalidError, ServiceError
from aml_train.core.events import Listener
from aml_train.core.git import Origin
from aml_train.core.masking import Masker
from aml_train.core.secrets import without_secret_values
from aml_train.core.tags import (
    TAG_BRANCH,
    TAG_COMMIT,
    TAG_CONFIGURATION,
    TAG_DATA_CHANGED,
    TAG_PASSPORT,
    TAG_REPOSITORY,
    TAG_RUN_URL,
)
from aml_train.core.threads import map_parallel
from aml_train.jobs.composed import COMPOSED, ChildView
from aml_train.jobs.inputs import shown_data
from aml_train.jobs.workspace import JobView, ModelView, descendants, no_job, seconds_of
from aml_train.pipeline.baselines import side_of_job
from aml_train.pipeline.target import Host, open_workspace
from aml_train.report import values
from aml_train.report.reader import Gaps, Other, PartReader, ReportSources

_LOOKED_AT: Final = 1_000
"""Jobs of which the latest of a configuration is looked for."""


def collect_report(
    sources: ReportSources, jobs: Sequence[Reference], *, baseline: Reference | None = None
) -> values.Report:
    """Read everything that a report shows of a job.

    Args:
        sources: the workspace.
        jobs: the job, and further ones that it is compared with; without any, the latest of the configuration.
        baseline: what the job is compared with; None for the configured baseline.

    Raises:
        InvalidError: what is named has no job, or nothing is named and there is no configuration.
        ServiceError: there is no such job, or the service does not answer at all.
    """
    return values.tidy(_Collector(sources).collect(jobs, baseline), sources.masker.mask)


def open_report(
    host: Host,
    target: TargetConfig,
    directory: Path,
    emit: Listener,
    *,
    project: Callable[[], Project | None],
    masker: Masker,
    progress: Callable[[str], None],
) -> ReportSources:
    """Open a workspace to read reports; start the local AzureML if it does not run.

    Raises:
        InvalidError: the target's workspace is not configured.
        ServiceError: there is nothing to sign in with, or the local AzureML does not start.
    """
    connection = open_workspace(host, target, directory, emit)
    return ReportSources(
        service=connection.service,
        catalogue=AzureCatalogue(connection.service, SYSTEM_CLOCK),
        registry=connection.registry,
        project=project,
        target=target.name,
        masker=masker,
        progress=progress,
    )


@dataclass(frozen=True, kw_only=True)
class _Job:
    """A job of the report, and the model's version by which it was named."""

    view: JobView
    model: ModelView | None = None
    title: str = ""


class _Collector:
    """Finds the jobs of one report, and reads it."""

    def __init__(self, sources: ReportSources) -> None:
        self._sources = sources
        self._service = sources.service
        self._gaps = Gaps()
        self._project: Project | None = None
        self._loaded = False

    def project(self) -> Project:
        """Return the project, for a side that depends on it."""
        if not self._loaded:
            self._project, self._loaded = self._sources.project(), True
        if self._project is None:
            raise InvalidError(
                "There is no configuration here that says what is meant.",
                hint="Name a job, or the project folder: aml-train report JOB; -C FOLDER.",
            )
        return self._project

    def _job(self, reference: Reference) -> _Job:
        if reference.kind == "job":
            view = self._service.find(reference.name)
            if view is None:
                raise no_job(self._service.tagged_jobs, reference.name)
            return _Job(view=view)
        side = find_side(lambda: self._service, reference, self.project, now=self._sources.now())
        if side.job is None:
            raise InvalidError(f"{reference.text} has no job that a report could be made of.")
        view = self._service.find(side.job)
        if view is None:
            raise ServiceError(f"The job {side.job} of {reference.text} does not exist any more.")
        model = None
        if side.model is not None:
            model = next((one for one in self._service.models(side.model) if one.version == side.version), None)
        return _Job(view=view, model=model, title=side.title)

    def _latest(self) -> _Job:
        """Return the latest job of the configuration."""
        origin = self.project().origin
        if origin is None:
            raise InvalidError(
                "Which job is meant is not known: the configuration is in no git repository.",
                hint="Name one: aml-train report JOB. See: aml-train jobs list.",
            )
        for view in itertools.islice(self._service.tagged_jobs(TAG_CONFIGURATION), _LOOKED_AT):
            if origin.is_of(view.tags.get(TAG_REPOSITORY, ""), view.tags.get(TAG_CONFIGURATION, "")):
                return _Job(view=view)
        raise ServiceError(
            f"There is no job of {origin.configuration} in the workspace.", hint="See: aml-train jobs list."
        )

    def collect(self, references: Sequence[Reference], baseline: Reference | None) -> values.Report:
        """Read the report of the first job, compared with the others and the baseline."""
        gaps, sources, service = self._gaps, self._sources, self._service
        job, *further = [self._job(one) for one in references] or [self._latest()]
        name = job.view.name
        named = None
        if baseline is not None:
            named = find_side(lambda: service, baseline, self.project, now=sources.now(), besides=name)
        view = self._detailed(job.view)
        if changed := view.tags.get(TAG_DATA_CHANGED):
            gaps.note(f"The result is not reproducible: data changed after the job was submitted. {changed}.")
        config, origin = self._configuration(view)
        children = self._children(view)
        model = job.model or gaps.read("model", lambda: self._model(view, config), None)
        none: Mapping[str, Any] = {}
        metrics: Mapping[str, float] = gaps.read("metrics", lambda: service.last_metrics(name), none)
        logged: Mapping[str, str] = gaps.read("parameters", lambda: service.logged_parameters(name), none)
        others = self._others(view, config, named, further)
        compared = next((one for one in others if one.role == "baseline"), None)
        reader = PartReader(sources, gaps)
        tasks: tuple[Callable[[], Mapping[str, Any]], ...] = (
            lambda: reader.gate_and_curves(view, config, origin, model, metrics, others),
            lambda: reader.images(view, compared),
            lambda: reader.lineage(view, model),
            lambda: reader.files(view, children),
            lambda: reader.logs(view, children),
            lambda: reader.parts(view, children, config),
            lambda: reader.run(view, config),
        )
        found: dict[str, Any] = {}
        for part in map_parallel(lambda task: task(), tasks, "report"):
            found |= part
        seconds = seconds_of(view, sources.now())
        side = replace(side_of_job(view, f"the job {name}"), metrics=found["metrics"], logged=logged, seconds=seconds)
        side = _without_secrets(side)
        return values.Report(
            title=view.experiment or name,
            configuration=view.tags.get(TAG_CONFIGURATION, ""),
            target=sources.target,
            created=sources.now(),
            status="job",
            source=_source(view),
            job=_job(view, seconds),
            baseline=None if compared is None else _compared(side, compared),
            others=tuple(_compared(side, one) for one in others if one is not compared),
            data=shown_data(view),
            parameters=side.parameters,
            variables=side.variables or {},
            logged=side.logged or {},
            model=None if model is None else _model(model),
            reproduce=_reproduction(view, model, sources.target),
            notices=gaps.notices,
            missing=gaps.missing,
            **found,
        )

    def _detailed(self, view: JobView) -> JobView:
        """Add what only a job's details say: its times, its logs and its error."""
        self._sources.progress("job")
        shown = self._gaps.read("job", lambda: self._service.details(view.name), view)
        return replace(
            view,
            status=shown.status,
            log_files=shown.log_files,
            error=shown.error or view.error,
            codes=shown.codes,
            created=shown.created or view.created,
            started=shown.started or view.started,
            ended=shown.ended or view.ended,
        )

    def _configuration(self, view: JobView) -> tuple[Config | None, Origin | None]:
        """Return the configuration if it is the job's: by its tags, else its experiment."""
        try:
            project = self.project()
        except AmlTrainError as error:
            self._loaded = True
            self._gaps.note(f"The rules of the gate were not decided again: {error.message}")
            return None, None
        named, origin = view.tags.get(TAG_CONFIGURATION), project.origin
        if named is not None and (
            origin is None
            or not origin.is_of(view.tags.get(TAG_REPOSITORY, ""), view.tags.get(TAG_CONFIGURATION, ""))
        ):
            here = origin.configuration if origin is not None else "outside of git"
            self._gaps.note(
                f"The rules of the gate were not decided again: the job is of {named}, and the configuration here is {here}."
            )
            return None, None
        expected = project.config.job.document.get("experiment_name")
        if named is None and expected and view.experiment not in (None, expected):
            self._gaps.note(
                f"The rules of the gate were not decided again: the job is of the experiment {view.experiment}, and the configuration's"
                f" is {expected}."
            )
            return None, None
        return project.config, origin

    def _children(self, view: JobView) -> Sequence[ChildView]:
        if view.kind not in COMPOSED:
            return ()
        self._sources.progress("nodes")
        if view.kind == "sweep":
            return self._gaps.read("trials", lambda: self._service.children(view.name), ())
        return self._gaps.read("nodes", lambda: list(descendants(self._service, view.name)), [])

    def _model(self, view: JobView, config: Config | None) -> ModelView | None:
        """Return the version of the configuration's model that the job wrote."""
        if config is None or config.model is None:
            return None
        return next((one for one in self._service.models(config.model.name) if one.origin == view.name), None)

    def _others(
        self, view: JobView, config: Config | None, named: Side | None, further: Sequence[_Job]
    ) -> list[Other]:
        self._sources.progress("baseline")
        baseline = named
        if named is None and config is not None and config.baseline is not None:
            baseline = self._side(Reference(text="baseline", kind="baseline"), besides=view.name)
            if baseline is not None and baseline.job == view.name:
                self._gaps.note("The job itself is the baseline now.")
                baseline = None
        found = [Other(side=baseline, role="baseline")] if baseline is not None else []
        for one in further:
            side = self._side(Reference(text=one.view.name, kind="job", name=one.view.name))
            if side is not None:
                found.append(Other(side=replace(side, title=one.title or side.title), role="other"))
        return found

    def _side(self, reference: Reference, *, besides: str | None = None) -> Side | None:
        service, now = self._service, self._sources.now()
        find = functools.partial(find_side, lambda: service, reference, self.project, now=now, besides=besides)
        return self._gaps.read("baseline", find, None)


def _source(view: JobView) -> values.Source:
    tags = view.tags
    return values.Source(
        repository=tags.get(TAG_REPOSITORY, ""),
        commit=tags.get(TAG_COMMIT, ""),
        branch=tags.get(TAG_BRANCH, ""),
        run_url=tags.get(TAG_RUN_URL, ""),
    )


def _job(view: JobView, seconds: float | None) -> values.Job:
    place = view.placement
    return values.Job(
        name=view.name,
        status=view.status.value,
        kind=view.kind or "",
        experiment=view.experiment or "",
        url=view.studio_url or "",
        compute=(place.compute or place.size or "") if place is not None else "",
        created=view.created,
        seconds=seconds,
        error=view.error or "",
    )


def _model(model: ModelView) -> values.Model:
    return values.Model(
        name=model.name,
        version=model.version,
        stage=model.staged or "",
        found=True,
        passport=model.tags.get(TAG_PASSPORT, ""),
    )


def _reproduction(view: JobView, model: ModelView | None, target: str) -> str:
    """Return the commands that do the same again; empty if they are not known."""
    where = f" --target {shlex.quote(target)}" if target else ""
    if model is not None:
        return f"aml-train model reproduce {shlex.quote(f'{model.name}:{model.version}')}{where}"
    commit, configuration = view.tags.get(TAG_COMMIT, ""), view.tags.get(TAG_CONFIGURATION, "")
    if not commit or not configuration:
        return ""
    plain, dirty, _ = commit.partition("-dirty")
    lines = [
        *(["# The files differed from this commit."] if dirty else []),
        f"git checkout {shlex.quote(plain)}",
        f"aml-train run --config {shlex.quote(configuration)} --fresh{where}",
    ]
    return "\n".join(lines)


def _without_secrets(side: Side) -> Side:
    """Hide the values whose names say that they are secret."""
    logged = None if side.logged is None else without_secret_values(side.logged)
    return replace(side, parameters=without_secret_values(side.parameters), logged=logged)


def _compared(side: Side, other: Other) -> values.Baseline:
    rows = Comparison(left=side, right=_without_secrets(other.side)).rows()
    return values.Baseline(title=other.side.title, job=other.side.job or "", rows=rows)
