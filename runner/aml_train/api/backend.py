"""The sources of a workspace's jobs, models and files: a target, or the memory."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.operations import fetch_place, job_files, model_place
from aml_train.azure.blob.transfer import Tally
from aml_train.azure.browse import describe_job, list_jobs, read_results
from aml_train.azure.models import AzureCatalogue, AzurePassports
from aml_train.core.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from aml_train.azure.browse import JobFilter, JobRow
    from aml_train.azure.target import WorkspaceTarget
    from aml_train.jobs.workspace import ModelView
    from aml_train.jobs.workspace import Workspace as JobService
    from aml_train.models.catalogue import Catalogue, PassportStore


class Backend(Protocol):
    """A workspace that can be read. Methods raise ServiceError as it refuses."""

    @property
    def service(self) -> JobService:
        """Its jobs, metrics and models."""

    @property
    def catalogue(self) -> Catalogue:
        """Its models' names and versions."""

    def rows(self, wanted: JobFilter) -> Iterator[JobRow]:
        """Yield the wanted jobs, the newest first."""

    def results(self, rows: Sequence[JobRow]) -> tuple[list[JobRow], tuple[str, int]]:
        """Return the jobs with durations and metrics.

        The second value says why some could not be read, and of how many.
        """

    def describe(self, job: str) -> dict[str, Any]:
        """Return a job's description, as ``aml-train jobs show`` prints it."""

    def download(self, job: str, folder: Path, *, patterns: Sequence[str], outputs: Sequence[str]) -> None:
        """Download files of a job below *folder*."""

    def passports(self) -> PassportStore:
        """Return the passports of its models."""

    def fetch_model(self, model: ModelView, folder: Path) -> None:
        """Download the files of a model version into *folder*; what is there is continued."""


@dataclass(frozen=True, kw_only=True)
class ConnectedBackend:
    """The workspace of a target: see :class:`Backend`."""

    connection: WorkspaceTarget

    @property
    def service(self) -> JobService:
        """See :class:`Backend`."""
        return self.connection.service

    @property
    def catalogue(self) -> Catalogue:
        """See :class:`Backend`."""
        return AzureCatalogue(self.connection.service, SYSTEM_CLOCK)

    def rows(self, wanted: JobFilter) -> Iterator[JobRow]:
        """See :class:`Backend`."""
        return list_jobs(self.connection.service, wanted)

    def results(self, rows: Sequence[JobRow]) -> tuple[list[JobRow], tuple[str, int]]:
        """See :class:`Backend`."""
        return read_results(self.connection.service, rows, now=datetime.datetime.now(datetime.UTC))

    def describe(self, job: str) -> dict[str, Any]:
        """See :class:`Backend`."""
        return describe_job(self.connection.service, job)

    def data(self) -> DataWorkspace:
        """Return the workspace's data."""
        return DataWorkspace(self.connection.service)

    def download(self, job: str, folder: Path, *, patterns: Sequence[str], outputs: Sequence[str]) -> None:
        """See :class:`Backend`."""
        for place, path in job_files(self.data(), job, folder, patterns=patterns, outputs=outputs):
            place.download(path, Tally(), folder_wanted=True)

    def passports(self) -> PassportStore:
        """See :class:`Backend`."""
        return AzurePassports(self.connection.service, self.data())

    def fetch_model(self, model: ModelView, folder: Path) -> None:
        """See :class:`Backend`."""
        fetch_place(model_place(self.data(), model.path, f"{model.name}:{model.version}"), folder, Tally())
