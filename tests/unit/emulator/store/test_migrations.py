"""Databases of earlier versions: migrated to what a new one has, copied before, and refused if no migration fits."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from aml_emulator.store import database
from aml_emulator.store.database import LISTING, SCHEMA_VERSION, Database, copy_before_migration
from scripts.fixtures.formats import structure_of
from tests.support.upgrades import unpack


def _structure(path: Path) -> dict[str, object]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return structure_of(connection)


@pytest.mark.parametrize("schema", range(1, SCHEMA_VERSION))
def test_a_migrated_database_has_the_structure_of_a_new_one(schema: int, tmp_path: Path) -> None:
    Database(tmp_path / "new.db").close()
    unpack(schema, tmp_path)
    path = tmp_path / "data" / "store.db"
    Database(path).close()
    assert _structure(path) == _structure(tmp_path / "new.db")
    copy = copy_before_migration(path, schema)
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM runs").fetchone()[0] > 0
    # Opened again, there is nothing to migrate and nothing to copy.
    copy.unlink()
    Database(path).close()
    assert not copy.exists()


def test_the_same_number_with_another_meaning_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    unpack(4, tmp_path)
    path = tmp_path / "data" / "store.db"
    # As a branch wrote it, before another one had taken its number.
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in LISTING.split(";\n"):
            connection.execute(statement)
        connection.execute("PRAGMA user_version=5")
    before = _structure(path)
    with pytest.raises(
        ValueError, match=r"schema 5 of a version between two releases.*duplicate column name"
    ) as caught:
        Database(path)
    assert "aml-train emulator reset" in str(caught.value)
    assert _structure(path) == before
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (5,)


def test_a_full_disk_during_a_migration_is_no_other_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack(SCHEMA_VERSION - 1, tmp_path)

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count=1")
        connection.execute("CREATE TABLE large AS SELECT randomblob(1000000) AS data")

    monkeypatch.setattr(database, "MIGRATIONS", {**database.MIGRATIONS, SCHEMA_VERSION - 1: fail})
    with pytest.raises(sqlite3.OperationalError, match="full"):
        Database(tmp_path / "data" / "store.db")
