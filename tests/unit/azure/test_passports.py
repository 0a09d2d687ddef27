"""The files of models and of code in a workspace's storage: everything that a job could read counts, and nothing hides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from aml_train.azure.blob.address import DatastorePath
from aml_train.azure.models import AzurePassports
from aml_train.core.answers import MOST_BYTES, Answer
from aml_train.core.errors import ServiceError
from aml_train.jobs.workspace import ModelView
from tests.support.memory_storage import MemoryStorage

CODE = "/subscriptions/s/codes/c/versions/1"


class Data:
    """The data of a workspace with one container."""

    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage

    def locate(self, address: Any) -> DatastorePath:
        assert isinstance(address, DatastorePath)
        return address

    def storage(self, _datastore: str) -> MemoryStorage:
        return self._storage

    def default_datastore(self) -> str:
        return "workspaceblobstore"

    def storage_of(self, uri: str, _what: str) -> tuple[MemoryStorage, str]:
        return self._storage, uri.partition("container/")[2]


def opened(*names: str, code: dict[str, Any] | None = None) -> AzurePassports:
    job = Answer({"properties": {"codeId": CODE}}, ServiceError)
    rest = SimpleNamespace(
        cloud=SimpleNamespace(arm="https://arm"),
        find_job=lambda name: job if name == "job-1" else None,
        read=lambda *_args, **_options: None if code is None else Answer(code, ServiceError),
    )
    return AzurePassports(cast("Any", rest), cast("Any", Data(MemoryStorage().fill(names))))


def files(passports: AzurePassports, path: str) -> list[str]:
    address = f"azureml://datastores/workspaceblobstore/paths/{path}"
    return [file.path for file in passports.model_files(ModelView(name="m", version="1", path=address))]


@pytest.mark.parametrize("path", ["run/model", "run/model/"])
def test_the_files_of_a_folder_and_no_others(path: str) -> None:
    passports = opened("run/model/a", "run/model/b/c", "run/model2/d", "run/model.txt")
    assert files(passports, path) == ["a", "b/c"]


def test_files_below_a_single_file_count_as_clients_download_them() -> None:
    passports = opened("run/model.pkl", "run/model.pkl/evil", "run/model.pkl2")
    assert files(passports, "run/model.pkl") == ["model.pkl", "model.pkl/evil"]


def test_the_code_of_a_job() -> None:
    code = {"properties": {"codeUri": "https://account/container/"}}
    found = opened("train.py", "lib/net.py", code=code).code_files("job-1")
    assert found is not None
    assert [(file.path, b"".join(file.read())) for file in found] == [("lib/net.py", b"x"), ("train.py", b"x")]
    gone = opened(code=None).code_files("job-1")
    assert gone is not None
    assert list(gone) == []
    assert opened().code_files("job-2") is None


def test_documents_are_kept_and_read_as_far_as_they_can_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    passports = opened()
    assert passports.read("digits", "7", "model.sig") == b""
    passports.write("digits", "7", "model.sig", b"signed")
    assert passports.read("digits", "7", "model.sig") == b"signed"
    monkeypatch.setattr("aml_train.azure.models.MOST_BYTES", 3)
    assert passports.read("digits", "7", "model.sig") == b"sign"
    assert MOST_BYTES > 3
