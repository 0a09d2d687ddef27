"""A workspace to read: jobs, metrics, curves, files and models."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from aml_train.api.planning import host_for
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.operations import fetch_place, job_files, model_place
from aml_train.azure.blob.transfer import Tally
from aml_train.azure.browse import JobFilter, JobOrder, describe_job, list_jobs, read_results, select_rows
from aml_train.azure.models import AzureCatalogue, AzurePassports
from aml_train.config.load import load_targets
from aml_train.core.clock import SYSTEM_CLOCK
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.text import aligned, duration, printable_line
from aml_train.gate.history import series_of
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import no_job
from aml_train.models.browse import ModelFilter, find_model, list_models
from aml_train.models.download import download_model
from aml_train.pipeline.target import open_workspace, target_override
from aml_train.report.series import History, plot

if TYPE_CHECKING:
    from aml_train.azure.browse import JobRow
    from aml_train.azure.sdk_v2 import AzureV2
    from aml_train.jobs.workspace import JobView, ModelView
    from aml_train.models.catalogue import Catalogue, PassportStore
    from aml_train.models.download import DownloadedModel

_MOST_READ: Final = 512 << 20
_MOST_CURVES: Final = 24


class JobList(list["JobRow"]):
    """Jobs in order, which print as a table.

    Attributes:
        notes: remarks, such as results that could not be read.
    """

    def __init__(self, rows: Iterable[JobRow], *, notes: Iterable[str] = (), metrics: Sequence[str] = ()) -> None:
        super().__init__(rows)
        self._metrics = metrics
        self.notes = tuple(notes)

    def facts(self) -> list[dict[str, object]]:
        """Return them as plain values, such as for ``pandas.DataFrame``."""
        return [row.facts() for row in self]

    def __repr__(self) -> str:
        names = list(self._metrics) or sorted({name for row in self for name in row.metrics})[:6]
        rows = [
            (
                row.name,
                row.status.value,
                "" if row.seconds is None else duration(row.seconds),
                row.created[:16].replace("T", " "),
                *(f"{row.metrics[name]:.6g}" if name in row.metrics else "" for name in names),
            )
            for row in self
        ]
        table = aligned([("name", "status", "ran", "created", *names), *rows])
        return "\n".join([f"{len(rows)} jobs", *self.notes, *table])


class Histories(dict[str, History]):
    """Metrics of a job over steps: the (step, value) pairs of each by its name. They print as curves."""

    def __init__(self, job: str, points: Mapping[str, History]) -> None:
        super().__init__(points)
        self._job = job

    def __repr__(self) -> str:
        lines = [f"metrics of {self._job}"]
        for name, points in itertools.islice(self.items(), _MOST_CURVES):
            last = f"{points[-1][1]:.6g}" if points else "none"
            lines += ["", printable_line(f"{name}: {len(points)} values, the last is {last}"), *plot(points, ())]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A workspace's jobs, metrics, files and models, to read.

    Made by :meth:`open`. Nothing here changes the workspace.

    >>> workspace = Workspace.open()
    >>> job = workspace.jobs(sort="val/accuracy")[0]
    >>> workspace.metrics(job.name)
    {'val/accuracy': 0.97}

    Every method raises ServiceError if the service refuses or does not answer.
    """

    service: AzureV2

    @classmethod
    def open(
        cls,
        target: str | None = None,
        *,
        directory: str | Path = ".",
        config: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """Connect to the workspace of a target.

        The local AzureML is started if it does not run.

        Args:
            target: one of ``targets:``; None for the configured one, else the local AzureML.
            directory: the project folder, whose aml-train.yml names the targets.
            config: another file than aml-train.yml.
            environ: the environment variables, which sign in; the process's by default.

        Raises:
            InvalidError: there is no such target, or its workspace is not configured.
            ServiceError: there is nothing to sign in with, or the local AzureML does not start.
        """
        instead = target_override()
        if instead is not None:
            found: Self = instead.workspace()
            return found
        targets = load_targets(None if config is None else Path(config), directory=Path(directory))
        chosen = targets.named(target)
        host = host_for(chosen.kind, environ)
        connection = open_workspace(host, chosen, targets.directory, lambda _event: None)
        return cls(service=connection.service)

    @property
    def _catalogue(self) -> Catalogue:
        return AzureCatalogue(self.service, SYSTEM_CLOCK)

    @property
    def _passports(self) -> PassportStore:
        return AzurePassports(self.service, DataWorkspace(self.service))

    def _rows(self, wanted: JobFilter) -> Iterator[JobRow]:
        return list_jobs(self.service, wanted)

    def _results(self, rows: Sequence[JobRow]) -> tuple[list[JobRow], tuple[str, int]]:
        return read_results(self.service, rows, now=datetime.datetime.now(datetime.UTC))

    def _fetch(self, model: ModelView, folder: Path) -> None:
        place = model_place(DataWorkspace(self.service), model.path, f"{model.name}:{model.version}")
        fetch_place(place, folder, Tally())

    def jobs(
        self,
        *,
        status: Sequence[str] = (),
        experiment: str | None = None,
        name: str | None = None,
        tags: Mapping[str, str | None] | None = None,
        sort: str = "created",
        reverse: bool = False,
        limit: int | None = 20,
        metrics: Sequence[str] | None = None,
        archived: bool = False,
    ) -> JobList:
        """List jobs with their durations and metrics, by default the newest first.

        >>> [job.status.value for job in Workspace.open().jobs(sort="val/accuracy", limit=5)]
        ['Completed']

        Args:
            status: only jobs in one of these states, such as ``running``.
            experiment: only jobs of this experiment.
            name: only jobs of this name or display name; ``*`` and ``?`` are wildcards.
            tags: only jobs with these tags; None for any value.
            sort: ``created``, ``duration`` or a metric.
            reverse: sort in the other direction: times and numbers descend by default.
            limit: at most so many; None for all.
            metrics: the metrics that are shown; an empty list reads no results, which takes two requests less for each job.
            archived: include archived jobs.

        Raises:
            InvalidError: there is no such status, or no job logged the metric to sort by.
        """
        wanted = JobFilter(
            statuses=frozenset(_status(word) for word in status),
            experiment=experiment,
            name=name,
            tags=tags or {},
            archived=archived,
        )
        results = metrics is None or bool(metrics)
        order = JobOrder(key=sort, reverse=reverse, most=limit, results=results)
        rows, notes = select_rows(self._rows(wanted), order, self._results)
        return JobList(rows, notes=notes, metrics=metrics or ())

    def job(self, name: str) -> JobView:
        """Return a job: status, times, tags, inputs.

        >>> workspace = Workspace.open()
        >>> workspace.job(workspace.jobs()[0].name).status.value
        'Completed'

        Raises:
            InvalidError: there is no such job.
        """
        if self.service.find(name) is None:
            raise no_job(self.service.tagged_jobs, name)
        return self.service.details(name)

    def describe(self, job: str) -> dict[str, Any]:
        """Return a job's description, as ``aml-train jobs show`` prints it."""
        return describe_job(self.service, job)

    def metrics(self, job: str) -> dict[str, float]:
        """Return every metric's last value.

        >>> workspace = Workspace.open()
        >>> workspace.metrics(workspace.jobs()[0].name)
        {'val/accuracy': 0.97}
        """
        return dict(self.service.last_metrics(job))

    def parameters(self, job: str) -> dict[str, str]:
        """Return the parameters that a job logged, as with ``mlflow.log_param``."""
        return dict(self.service.logged_parameters(job))

    def history(self, job: str, metric: str) -> list[tuple[int, float]]:
        """Return the (step, value) pairs of one metric, in the order of their steps.

        >>> workspace = Workspace.open()
        >>> workspace.history(workspace.jobs()[0].name, "val/accuracy")
        [(0, 0.91), (1, 0.97)]
        """
        return series_of({metric: self.service.metric_history(job, metric)})[metric]

    def histories(self, job: str, metrics: Sequence[str] | None = None) -> Histories:
        """Return metrics over steps, which print as curves.

        Args:
            job: the job's name.
            metrics: their names; None for all.
        """
        names = sorted(self.metrics(job)) if metrics is None else metrics
        return Histories(job, {name: self.history(job, name) for name in names})

    def files(self, job: str, path: str = "") -> list[str]:
        """Return the files among a job's artefacts, at or below *path*.

        >>> workspace = Workspace.open()
        >>> workspace.files(workspace.jobs()[0].name, "outputs")
        ['outputs/model/weights.txt']
        """
        return sorted(self.service.artifact_paths(job, path))

    def read(self, job: str, path: str) -> bytes:
        """Return one file of a job's artefacts, such as ``user_logs/std_log.txt``.

        Raises:
            ServiceError: the job wrote none there.
            InvalidError: it is larger than 512 MiB: download it.
        """
        content = self.service.read_artifact(job, path, most=_MOST_READ)
        if content is None:
            raise ServiceError(f"The job {job} wrote no {path}.", hint=f"See: aml-train jobs show {job}")
        if len(content) > _MOST_READ:
            raise InvalidError(f"{path} of {job} is larger than 512 MiB.", hint="Download it: Workspace.download.")
        return content

    def download(self, job: str, to: str | Path, *patterns: str, outputs: Sequence[str] = ()) -> Path:
        """Download a job's artefacts, or its named outputs; return the folder.

        A file gets its name when it is complete and its checksum is verified. After an interruption the same call continues.

        Args:
            job: the job's name.
            to: the folder that gets the files.
            patterns: the artefacts, such as ``outputs/**/*.pt``; none for all.
            outputs: named outputs, instead.
        """
        folder = Path(to)
        places = job_files(DataWorkspace(self.service), job, folder, patterns=patterns, outputs=outputs)
        for place, path in places:
            place.download(path, Tally(), folder_wanted=True)
        return folder

    def models(self, pattern: str | None = None, *, stage: str | None = None) -> list[ModelView]:
        """Return model versions, by name and the newest first.

        >>> [(model.name, model.version) for model in Workspace.open().models()]
        [('digits', '1')]

        Args:
            pattern: of names, with ``*`` and ``?``; None for all.
            stage: only versions in this stage.
        """
        wanted = ModelFilter(stage=stage.lower() if stage else None)
        rows = list_models(self.service, self._catalogue, pattern, wanted)
        return [version for row in rows for version in row.versions]

    def model(self, address: str) -> ModelView:
        """Return one model version: ``NAME:VERSION``, ``NAME@STAGE``, or the newest.

        >>> Workspace.open().model("digits").version
        '1'

        Raises:
            InvalidError: the address is none of these, or there is no such version.
        """
        return find_model(self.service, self._catalogue, address)

    def download_model(self, address: str, to: str | Path | None = None, *, force: bool = False) -> DownloadedModel:
        """Download the files of a model version, whole or not at all.

        If the version has a passport, each file's digest is compared with it.

        >>> Workspace.open().download_model("digits:1", "model").folder.name
        'model'

        Args:
            address: ``NAME:VERSION`` or ``NAME@STAGE``.
            to: the folder that gets exactly these files; ``NAME-VERSION`` by default.
            force: replace a folder that is not empty.

        Raises:
            InvalidError: the folder is not empty.
            PassportError: the files are not those that were signed.
        """
        model = self.model(address)
        folder = Path(to) if to is not None else Path(f"{model.name}-{model.version}")
        return download_model(model, folder, store=self._passports, fetch=self._fetch, force=force)


def _status(word: str) -> Any:
    known = {status.value.lower(): status for status in JobStatus}
    if word.lower() not in known:
        raise InvalidError(f"AzureML has no status {word!r}.", hint=f"Known are {', '.join(sorted(known))}.")
    return known[word.lower()]
