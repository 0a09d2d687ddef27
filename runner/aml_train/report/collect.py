"""Collect the report of a job from a workspace.

A part that cannot be read, such as an image that was deleted or a log in storage that is not reached from here, is missing in the report,
which says why in its place. Only a job that does not exist ends the collection.
"""

from __future__ import annotations

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
from aml_train.core.tags import Tag
from aml_train.core.threads import map_parallel
from aml_train.jobs.composed import ChildView
from aml_train.jobs.inputs import shown_data
from aml_train.jobs.workspace import JobView, ModelView, descendants, no_job, seconds_of
from aml_train.pipeline.baselines import side_of_job
from aml_train.pipeline.target import Host, open_workspace
from aml_train.report import values
from aml_train.report.reader import Gaps, PartReader, ReportSources

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
        InvalidError: there is no such job, or nothing is named and there is no configuration.
        ServiceError: the service does not answer at all.
    """
    return values.tidy(_Collector(sources).collect(jobs, baseline), sources.masker.mask)


def open_report(
    host: Host,
    target: TargetConfig,
    directory: Path,
    emit: Listener,
    *,
    project: Callable[[], Project],
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
        self._gaps = Gaps(sources.progress)

    def _find(self, reference: Reference, *, besides: str | None = None) -> Side:
        sources = self._sources
        return find_side(lambda: sources.service, reference, sources.project, now=sources.now(), besides=besides)

    def _job(self, reference: Reference) -> _Job:
        if reference.kind == "job":
            view = self._service.find(reference.name)
            if view is None:
                raise no_job(self._service.tagged_jobs, reference.name)
            return _Job(view=view)
        side = self._find(reference)
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
        origin = self._sources.project().origin
        for view in itertools.islice(self._service.tagged_jobs(Tag.CONFIGURATION), _LOOKED_AT):
            if origin.is_of(view.tags.get(Tag.REPOSITORY, ""), view.tags.get(Tag.CONFIGURATION, "")):
                return _Job(view=view)
        raise InvalidError(
            f"There is no job of {origin.configuration} in the workspace.", hint="See: aml-train jobs list."
        )

    def collect(self, references: Sequence[Reference], baseline: Reference | None) -> values.Report:
        """Read the report of the first job, compared with the others and the baseline."""
        gaps, sources, service = self._gaps, self._sources, self._service
        job, *further = [self._job(one) for one in references] or [self._latest()]
        name = job.view.name
        named = None if baseline is None else self._find(baseline, besides=name)
        view = self._detailed(job.view)
        if changed := view.tags.get(Tag.DATA_CHANGED):
            gaps.notices.append(
                f"The result is not reproducible: data changed after the job was submitted. {changed}."
            )
        config, origin = self._configuration(view)
        model = job.model or gaps.read("model", lambda: self._model(view, config))
        metrics: Mapping[str, float] = gaps.read("metrics", lambda: service.last_metrics(name)) or {}
        logged: Mapping[str, str] = gaps.read("parameters", lambda: service.logged_parameters(name)) or {}
        compared = named or self._baseline(view, config)
        others = [replace(side, title=one.title or side.title) for one in further if (side := self._side(one.view))]
        reader = PartReader(
            sources=sources,
            gaps=gaps,
            view=view,
            config=config,
            origin=origin,
            children=self._children(view),
            model=model,
            baseline=compared,
        )
        tasks: tuple[Callable[[], Mapping[str, Any]], ...] = (
            lambda: reader.gate_and_curves(metrics, others),
            reader.images,
            reader.lineage,
            reader.files,
            reader.logs,
            reader.nodes_or_trials,
            reader.attempts_and_cost,
        )
        found: dict[str, Any] = {}
        for part in map_parallel(lambda task: task(), tasks, "report"):
            found |= part
        seconds = seconds_of(view, sources.now())
        side = replace(side_of_job(view, f"the job {name}"), metrics=found["metrics"], logged=logged, seconds=seconds)
        side, tags, place = _without_secrets(side), view.tags, view.placement
        return values.Report(
            title=view.experiment or name,
            configuration=tags.get(Tag.CONFIGURATION, ""),
            target=sources.target,
            created=sources.now(),
            status="job",
            source=values.Source(
                repository=tags.get(Tag.REPOSITORY, ""),
                commit=tags.get(Tag.COMMIT, ""),
                branch=tags.get(Tag.BRANCH, ""),
                run_url=tags.get(Tag.RUN_URL, ""),
            ),
            job=values.Job(
                name=name,
                status=view.status.value,
                kind=view.kind or "",
                experiment=view.experiment or "",
                url=view.studio_url or "",
                compute=(place.compute or place.size or "") if place is not None else "",
                created=view.created,
                seconds=seconds,
                error=view.error or "",
            ),
            baseline=None if compared is None else _compared(side, compared),
            others=tuple(_compared(side, one) for one in others),
            data=shown_data(view),
            parameters=side.parameters,
            variables=side.variables or {},
            logged=side.logged or {},
            model=None if model is None else _model(model),
            reproduce=_reproduction(view, model, sources.target),
            notices=tuple(gaps.notices),
            missing=gaps.missing,
            **found,
        )

    def _detailed(self, view: JobView) -> JobView:
        """Add what only a job's details say: its times, its logs and its error."""
        shown = self._gaps.read("job", lambda: self._service.details(view.name)) or view
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
        why = ""
        try:
            project = self._sources.project()
        except AmlTrainError as error:
            why = error.message
        else:
            named, origin = view.tags.get(Tag.CONFIGURATION), project.origin
            expected = project.config.job.document.get("experiment_name")
            if named is None and expected and view.experiment not in (None, expected):
                why = f"the job is of the experiment {view.experiment}, and the configuration's is {expected}."
            elif named is not None and not origin.is_of(view.tags.get(Tag.REPOSITORY, ""), named):
                why = f"the job is of {named}, and the configuration here is {origin.configuration}."
        if why:
            self._gaps.notices.append(f"The rules of the gate were not decided again: {why}")
            return None, None
        return project.config, origin

    def _children(self, view: JobView) -> Sequence[ChildView]:
        if view.kind == "sweep":
            return self._gaps.read("trials", lambda: self._service.children(view.name)) or ()
        if view.kind == "pipeline":
            return self._gaps.read("nodes", lambda: list(descendants(self._service, view.name))) or ()
        return ()

    def _model(self, view: JobView, config: Config | None) -> ModelView | None:
        """Return the version of the configuration's model that the job wrote."""
        if config is None or config.model is None:
            return None
        return next((one for one in self._service.models(config.model.name) if one.origin == view.name), None)

    def _baseline(self, view: JobView, config: Config | None) -> Side | None:
        """Return the configured baseline; None if there is none, or the job itself is it by now."""
        if config is None or config.baseline is None:
            return None
        configured = Reference(text="baseline", kind="baseline")
        found = self._gaps.read("baseline", lambda: self._find(configured, besides=view.name))
        if found is not None and found.job == view.name:
            self._gaps.notices.append("The job itself is the baseline now.")
            return None
        return found

    def _side(self, view: JobView) -> Side | None:
        reference = Reference(text=view.name, kind="job", name=view.name)
        return self._gaps.read("baseline", lambda: self._find(reference))


def _model(model: ModelView) -> values.Model:
    return values.Model(
        name=model.name,
        version=model.version,
        stage=model.staged or "",
        found=True,
        passport=model.tags.get(Tag.PASSPORT, ""),
    )


def _reproduction(view: JobView, model: ModelView | None, target: str) -> str:
    """Return the commands that do the same again; empty if they are not known."""
    where = f" --target {shlex.quote(target)}" if target else ""
    if model is not None:
        return f"aml-train model reproduce {shlex.quote(f'{model.name}:{model.version}')}{where}"
    commit, configuration = view.tags.get(Tag.COMMIT, ""), view.tags.get(Tag.CONFIGURATION, "")
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


def _compared(side: Side, other: Side) -> values.Baseline:
    rows = Comparison(left=side, right=_without_secrets(other)).rows()
    return values.Baseline(title=other.title, job=other.job or "", rows=rows)
