"""The files of a job, as places to download from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aml_train.azure.blob.address import JobOutput
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.operations import Place
from aml_train.core.globs import has_wildcards, select


def job_files(
    workspace: DataWorkspace, job: str, folder: Path, *, patterns: Sequence[str] = (), outputs: Sequence[str] = ()
) -> list[tuple[Place, Path]]:
    """Return where a job's files are, each with the folder that it is downloaded to.

    Args:
        workspace: the job's.
        job: its name.
        folder: the folder that everything goes below.
        patterns: of artefacts, or of files of the named outputs; none for all.
        outputs: named outputs, in place of the artefacts.

    Raises:
        ServiceError: there is no such job or output, or the service does not answer.
    """
    places: list[tuple[Place, Path]] = []
    for name in outputs or ("default",):
        base = folder / name if len(outputs) > 1 else folder
        for pattern in patterns or ("",):
            where = workspace.locate(JobOutput(job=job, output=name, path=pattern))
            storage = workspace.storage(where.datastore)
            place = Place(storage=storage, path=where.path, address=f"{job}: {pattern or name}")
            places.append((place, base / _kept(place, pattern)))
    return places


def _kept(place: Place, pattern: str) -> str:
    """Return the folders that downloaded files keep: those before a wildcard."""
    if not has_wildcards(pattern) and not pattern.endswith("/") and place.storage.find(place.path) is not None:
        return pattern.rpartition("/")[0]
    return select(pattern).folder.strip("/")
