"""A full disk, a truncated database, an emptied file of Azurite: each is called what it is."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from azure.core.exceptions import HttpResponseError, ServiceRequestError

from aml_emulator.store import damage
from aml_emulator.store.database import Database
from aml_emulator.store.store import Store
from tests.unit.emulator.parts import WS, Service

FULL = SimpleNamespace(f_bavail=3, f_frsize=4096, f_files=10, f_favail=5)

STORE = "azureml://datastores/workspaceblobstore/paths/x"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a database of some pages and Azurite's files."""
    store = Store(tmp_path / "store.db")
    store.assets.put("data", "x", "1", {"dataUri": "y" * 20_000})
    store.close()
    (tmp_path / "blobs").mkdir()
    for name in damage.AZURITE_FILES:
        (tmp_path / "blobs" / name).write_text('{"filename": "x", "collections": []}')
    return tmp_path


def test_state_that_is_whole_is_used(data: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    damage.check_before_start(data)
    damage.check_before_start(tmp_path_factory.mktemp("empty"))
    for name in damage.AZURITE_FILES:
        (data / "blobs" / name).unlink()
    damage.check_before_start(data)


@pytest.mark.parametrize(
    ("left", "state"), [(0, "empty"), (1, "not a database"), (4096, "truncated"), (20_000, "truncated")]
)
def test_a_truncated_database_is_refused_before_the_start(data: Path, left: int, state: str) -> None:
    os.truncate(data / "store.db", left)
    with pytest.raises(damage.DamageError, match=rf"store\.db is {state}.*aml-train emulator reset"):
        damage.check_before_start(data)


@pytest.mark.parametrize("name", damage.AZURITE_FILES)
@pytest.mark.parametrize(
    ("content", "state"), [("", "empty"), ('{"filename": "x", "coll', "cut off"), ("\0" * 64, "cut off")]
)
def test_a_damaged_file_of_azurite_is_refused_before_the_start(
    data: Path, name: str, content: str, state: str
) -> None:
    (data / "blobs" / name).write_text(content)
    with pytest.raises(damage.DamageError, match=rf"{name} is {state}.* the blobs that it listed would be lost"):
        damage.check_before_start(data)


def test_health_names_each_problem(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ping() -> None:
        raise ServiceRequestError("Connection refused\nwith details")

    assert damage.state_problems(data, lambda: None) == []
    monkeypatch.setattr(os, "statvfs", lambda _path: FULL)
    os.truncate(data / "store.db", 100)
    full, truncated, blobs = damage.state_problems(data, ping)
    assert full.startswith(f"the disk of {data} is full: 12 KiB are free. Remove what is not needed")
    assert truncated.startswith(f"the database {data / 'store.db'} is truncated: it has 100 of at least ")
    assert blobs == "Blob storage (Azurite) fails: Connection refused"


def test_a_request_on_a_full_disk_says_so_and_the_next_one_works(tmp_path: Path) -> None:
    service = Service()
    service.store.close()
    store = Store(tmp_path / "store.db")
    service.store = store
    object.__setattr__(service.services, "store", store)
    database: Database = store._db
    put = {"properties": {"dataUri": STORE, "dataType": "uri_folder", "description": "x" * 200_000}}
    pages = database.rows("PRAGMA page_count")[0][0]
    database.execute(f"PRAGMA max_page_count={pages}")
    answer = service.call("PUT", f"{WS}/data/big/versions/1", put)
    assert (answer.status, answer.json["error"]["code"]) == (507, "InsufficientStorage")
    assert "the disk is full" in answer.json["error"]["message"]
    assert not database._connection.in_transaction
    database.execute("PRAGMA max_page_count=1000000")
    assert service.call("PUT", f"{WS}/data/big/versions/1", put).status == 201
    service.close()


def answered(status: int) -> HttpResponseError:
    error = HttpResponseError(f"Azurite answers {status}")
    error.status_code = status
    return error
