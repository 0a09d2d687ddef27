"""Faults of disk, database and Blob storage: told apart, and answered."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest
from azure.core.exceptions import HttpResponseError, ServiceRequestError

from aml_emulator.store.database import Database, is_storage_fault
from aml_emulator.store.store import Store
from tests.unit.emulator.parts import WS, Service

STORE = "azureml://datastores/workspaceblobstore/paths/x"


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
    assert is_storage_fault(error) == is_fault
