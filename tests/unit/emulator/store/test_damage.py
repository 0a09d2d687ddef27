"""A full disk, a truncated database, an emptied file of Azurite: each is called what it is."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from azure.core.exceptions import HttpResponseError, ServiceRequestError

from aml_emulator.api.admin import Admin
from aml_emulator.api.errors import state_error
from aml_emulator.store import damage
from aml_emulator.store.database import Database
from aml_emulator.store.store import Store
from tests.unit.emulator.memory_service import API, TRACKING, furnished
from tests.unit.emulator.parts import IDENTITY, WS, Service

ROOM = SimpleNamespace(f_bavail=1 << 20, f_frsize=4096, f_files=10, f_favail=5)
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


def test_a_database_whose_contents_are_in_its_log_is_whole(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    assert damage.database_problem(tmp_path / "store.db") is None
    store.close()
    assert damage.database_problem(tmp_path / "store.db") is None


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


def test_a_disk_without_inodes_is_full_as_well(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(**{**vars(ROOM), "f_favail": 0}))
    assert str(damage.disk_problem(data)).startswith(f"the disk of {data} has no room for further files")


def test_the_admin_interface_answers_503_with_the_problem(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    service = furnished()
    object.__setattr__(service.services, "data", data)
    admin = Admin(
        context=service.services,
        jobs=service.jobs,
        version="1",
        ca_pem="",
        registry_engine_name="",
        max_jobs=1,
        children_alive=lambda: True,
    )
    assert admin.health() == (200, {"status": "ready"})
    monkeypatch.setattr(os, "statvfs", lambda _path: FULL)
    status, said = admin.health()
    assert (status, said["status"]) == (503, "not ready")
    assert said["missing"][0].startswith("the disk of ")
    service.close()


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


def test_a_request_to_a_damaged_database_says_so(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object, **_options: object) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    monkeypatch.setattr(service.store.runs, "experiment", broken)
    path = f"{TRACKING}/experiments/get-by-name?experiment_name=x"
    answer = service.call("GET", path, host=API)
    assert (answer.status, answer.json["error_code"]) == (500, "StateDamaged")
    assert "database is damaged (database disk image is malformed)" in answer.json["message"]


def answered(status: int) -> HttpResponseError:
    error = HttpResponseError(f"Azurite answers {status}")
    error.status_code = status
    return error


@pytest.mark.parametrize(
    ("error", "is_fault"),
    [
        (sqlite3.OperationalError("database or disk is full"), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EIO, "Input/output error"), True),
        (ServiceRequestError("Azurite does not answer"), True),
        (answered(500), True),
        # The same fails each time: to try it again would never end.
        (answered(404), False),
        (FileNotFoundError(errno.ENOENT, "No such file"), False),
        (sqlite3.IntegrityError("FOREIGN KEY constraint failed"), False),
        (KeyError("x"), False),
    ],
)
def test_storage_faults_are_those_that_may_pass(error: Exception, is_fault: bool) -> None:
    assert damage.is_storage_fault(error) == is_fault


def test_errors_of_other_kinds_are_left_alone() -> None:
    assert state_error(KeyError("x"), None) is None
    assert state_error(sqlite3.IntegrityError("UNIQUE"), None) is None
    assert state_error(OSError(errno.ENOENT, "x"), None) is None
    full = state_error(OSError(errno.ENOSPC, "No space left on device"), None)
    assert full is not None
    assert full.status == 507
    blobs = state_error(ServiceRequestError("Connection refused"), None)
    assert blobs is not None
    assert (blobs.code, IDENTITY.storage_key in blobs.message) == ("StorageFailed", False)
