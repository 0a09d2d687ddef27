"""Artifacts: the recorded files of runs, and uploaded files in Blob storage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aml_emulator.domain.errors import InvalidError, NotFoundError
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.layout import UnsafePathError, safe_relative
from aml_emulator.executor.spec import Folder
from aml_emulator.store.runs import Artifact, Run

OF_RUNS: Final = "ExperimentRun"
"""The origin of the files of runs; their container is ``dcid.`` and the run's id."""


@dataclass(frozen=True, kw_only=True)
class File:
    """An artifact: its path, its time in seconds since the epoch, its entity tag."""

    path: str
    created: float
    etag: str | None = None


@dataclass(frozen=True)
class RunArtifacts:
    """The recorded files of a run; *origin* is Azure's word for what they belong to."""

    workspace: Workspace
    run: Run
    origin: str = OF_RUNS

    @property
    def container(self) -> str:
        """The run's data container."""
        return f"dcid.{self.run.id}"

    @property
    def folder(self) -> Folder:
        """The folder in Blob storage."""
        return self.workspace.files_of(self.run)

    def files(self, prefix: str) -> Sequence[File]:
        """Return the recorded files below *prefix*."""
        found = self.workspace.store.runs.artifacts(self.run.id, prefix=prefix)
        return [
            _recorded(one) for one in found if not prefix or one.path == prefix or one.path.startswith(f"{prefix}/")
        ]

    def file(self, path: str) -> File:
        """Return one recorded file."""
        found = self.workspace.store.runs.artifact(self.run.id, path)
        if found is None:
            raise NotFoundError(f"artifact '{path}' of run '{self.run.id}'")
        return _recorded(found)

    def create(self, path: str) -> File:
        """Record a file.

        Raises:
            InvalidError: the run has an earlier run's files.
        """
        if self.folder != self.workspace.artifacts_of(self.run.id):
            raise InvalidError(f"The run '{self.run.id}' reuses an earlier one, and takes no files.")
        return _recorded(self.workspace.store.runs.add_artifact(self.run.id, path))


@dataclass(frozen=True)
class UploadedArtifacts:
    """Files that belong to no run, as Blob storage lists them."""

    workspace: Workspace
    origin: str
    container: str

    @property
    def folder(self) -> Folder:
        """The folder in the datastore that the origin names, or among the artifacts.

        Raises:
            NotFoundError: the names lead out of the container.
        """
        try:
            prefix = safe_relative(f"{self.origin}/{self.container}")
        except UnsafePathError as error:
            raise NotFoundError(f"artifact '{self.origin}/{self.container}'") from error
        for datastore in self.workspace.local_datastores():
            if datastore.name == self.origin:
                return Folder(container=datastore.container, prefix=prefix.removeprefix(f"{datastore.name}/"))
        return Folder(container=self.workspace.identity.artifact_container, prefix=prefix)

    def files(self, prefix: str) -> Sequence[File]:
        """Return the blobs below *prefix*."""
        folder = self.folder
        found = self.workspace.blobs.walk(folder.container, folder.name_of(prefix) if prefix else folder.prefix)
        paths = sorted("/".join(part for part in (prefix, entry.name) if part) for entry in found)
        return [self.create(path) for path in paths]

    def file(self, path: str) -> File:
        """Return one blob."""
        folder, path = self.folder, path.strip("/")
        if self.workspace.blobs.size(folder.container, folder.name_of(path)) is None:
            raise NotFoundError(f"artifact '{folder.prefix}/{path}'")
        return self.create(path)

    def create(self, path: str) -> File:
        """Return a file; none is recorded."""
        return File(path=path, created=self.workspace.clock())


Artifacts = RunArtifacts | UploadedArtifacts


def check_paths(paths: Iterable[str]) -> None:
    """Return if these can be paths of artifacts.

    Raises:
        InvalidError: one cannot.
    """
    for path in paths:
        if not path or path.startswith("/") or ".." in path.split("/"):
            raise InvalidError(f"Not a path of an artifact: '{path}'")


def _recorded(artifact: Artifact) -> File:
    return File(path=artifact.path, created=artifact.created, etag=f'"{int(artifact.created * 1000):x}"')
