"""The files of a model version are exactly those at its place, whatever its path looks like."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aml_train.azure.blob.address import DatastorePath
from aml_train.azure.blob.operations import Place, fetch_place, model_place
from aml_train.azure.blob.transfer import Tally
from aml_train.core.errors import ServiceError
from tests.support.memory_storage import MemoryStorage


def at(storage: MemoryStorage, path: str) -> Place:
    workspace: Any = SimpleNamespace(
        locate=lambda _address: DatastorePath(datastore="d", path=path), storage=lambda _name: storage
    )
    return model_place(workspace, "azureml://jobs/j/outputs/artifacts/paths/m", "digits:7")


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("path", ["model", "mo[d]el", "mo*el", "what?"])
def test_a_path_is_no_pattern(path: str, tmp_path: Path) -> None:
    storage = MemoryStorage().fill([f"{path}/a", f"{path}/sub/b", "moXel/c", "model2/d"])
    fetch_place(at(storage, path), tmp_path, Tally())
    assert files(tmp_path) == {"a", "sub/b"}


def test_a_single_file_is_in_the_folder(tmp_path: Path) -> None:
    fetch_place(at(MemoryStorage().fill(["outputs/model.pkl"]), "outputs/model.pkl"), tmp_path, Tally())
    assert files(tmp_path) == {"model.pkl"}


def test_files_of_an_earlier_state_are_removed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/old").write_text("x")
    (tmp_path / ".a.0123456789ab.part").write_text("x")
    fetch_place(at(MemoryStorage().fill(["m/a"]), "m"), tmp_path, Tally())
    assert files(tmp_path) == {"a"}


def test_a_place_without_files_or_outside_of_datastores_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="There is nothing at digits:7"):
        fetch_place(at(MemoryStorage(), "m"), tmp_path, Tally())
    workspace: Any = None
    with pytest.raises(ServiceError, match="The files of digits:7 are at folder/model, no datastore"):
        model_place(workspace, "folder/model", "digits:7")
