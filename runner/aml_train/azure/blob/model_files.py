"""The files of a registered model, as a place to download from."""

from __future__ import annotations

from pathlib import Path

from aml_train.azure.blob.address import LocalPath, parse_address
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.operations import Place
from aml_train.azure.blob.transfer import Tally
from aml_train.core.errors import ServiceError
from aml_train.core.globs import safe_relative


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
