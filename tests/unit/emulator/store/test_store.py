from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aml_emulator.store.database import SCHEMA_VERSION, Database
from aml_emulator.store.listing import RunFilter
from aml_emulator.store.metrics import Metric
from aml_emulator.store.runs import Run
from aml_emulator.store.store import Store
from tests.unit.emulator.parts import Clock


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store(":memory:", clock=Clock())
    yield made
    made.close()


def _run(store: Store, name: str = "r", **given: Any) -> Run:
    experiment = store.runs.ensure_experiment("exp")
    outputs = {"model": {"container": "c", "prefix": "p", "kind": "uri_folder", "stored": False}}
    values: dict[str, Any] = {"display_name": name, "status": "Queued", "job": {"command": "x"}, "outputs": outputs}
    return store.runs.create(run_id=name, experiment_id=experiment.id, **(values | given))


def test_a_run_goes_forward_only(store: Store) -> None:
    _run(store)
    for status, changed in (("Preparing", True), ("Starting", False), ("Running", True), ("CancelRequested", True)):
        assert store.runs.advance("r", status) is changed
    assert not store.runs.advance("r", "Running")
    assert store.runs.require("r").started is not None
    assert store.runs.finish("r", "Failed", code="UserError", message="no", exit_code=3)
    assert not store.runs.finish("r", "Completed")
    assert not store.runs.advance("r", "Running")
    ended = store.runs.require("r")
    assert (ended.status, ended.exit_code, ended.error_code, ended.terminal) == ("Failed", 3, "UserError", True)


def test_everything_survives_a_restart_and_nothing_a_reset(tmp_path: Path) -> None:
    first = Store(tmp_path / "store.db")
    _run(first)
    first.metrics.log("r", [Metric(key="m", value=1.0, timestamp=0, step=0)])
    first.assets.put_compute("c", {})
    first.close()
    second = Store(tmp_path / "store.db")
    assert second.runs.require("r").experiment == "exp"
    assert len(second.metrics.latest("r")) == 1
    second.clear()
    assert second.runs.get("r") is None
    assert second.runs.experiments() == []
    assert second.assets.computes() == []
    second.close()


def test_queries_wait_for_no_transaction_and_see_what_is_committed(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    _run(store)
    with ThreadPoolExecutor(1) as others, store.transaction():
        store.runs.advance("r", "Running")
        _run(store, "new")
        assert store.runs.require("r").status == "Running", "a thread reads its own transaction"
        # A query that waited for this transaction would never get an answer.
        other = others.submit(store.runs.require, "r").result(timeout=60)
        assert other.status == "Queued", "and others what is committed"
        assert others.submit(store.listing.runs, RunFilter(), limit=5).result(timeout=60)[1] == 1
    assert store.runs.require("r").status == "Running"
    assert store.listing.runs(RunFilter(), limit=5)[1] == 2
    store.clear()
    assert store.runs.get("r") is None
    assert store.listing.runs(RunFilter(), limit=5)[1] == 0
    store.close()


def test_a_database_with_another_schema_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    Database(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    before = path.read_bytes()
    with pytest.raises(
        ValueError, match=r"store\.db has schema 2, and this local AzureML knows 1\..* emulator reset"
    ):
        Database(path)
    assert path.read_bytes() == before
