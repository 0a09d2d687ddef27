"""The files of a job, or of a registered model, as places to download from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aml_train.azure.blob.address import JobOutput, LocalPath, parse_address
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.operations import Place
from aml_train.azure.blob.transfer import Tally
from aml_train.core.errors import ServiceError
from aml_train.core.globs import has_wildcards, safe_relative, select


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


def model_place(workspace: DataWorkspace, path: str, title: str) -> Place:
    """Return where the files of a model version are.

    Args:
        workspace: the model's.
        path: the place that the version names, such as ``azureml://jobs/JOB/outputs/…``.
        title: the version, for messages.

    Raises:
        ServiceError: the place is none in a datastore, or the service does not answer.
    """
    address = parse_address(path)
    if isinstance(address, LocalPath):
        raise ServiceError(f"The files of {title} are at {path}, no datastore.")
    where = workspace.locate(address)
    return Place(storage=workspace.storage(where.datastore), path=where.path, address=title, literal=True)


def fetch_place(place: Place, folder: Path, tally: Tally) -> None:
    """Download what is at *place*, so that *folder* has exactly that.

    An earlier download that was interrupted is continued; a file of it that is not at the place any more is removed.

    Raises:
        InvalidError: a name cannot be a file's here, or a file cannot be written.
        ServiceError: there is nothing, a checksum does not fit, or the storage refuses or does not answer.
    """
    place.download(folder, tally, folder_wanted=True)
    wanted = {folder / safe_relative(name) for name, _ in place.find().items}
    for path in folder.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
