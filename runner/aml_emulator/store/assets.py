"""Versioned assets, computes, and long-running operations."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.reading import whole
from aml_emulator.store.database import Database, decoded

_VERSION_LENGTH: Final = 255


@dataclass(frozen=True, kw_only=True)
class AssetContainer:
    """The common part of all versions of a name. Times are seconds since the epoch."""

    kind: str
    name: str
    properties: Mapping[str, Any]
    created: float
    modified: float


@dataclass(frozen=True, kw_only=True)
class AssetVersion:
    """A version of an asset; *properties* as in ARM, *hash* of the uploaded files."""

    kind: str
    name: str
    version: str
    properties: Mapping[str, Any]
    stage: str | None
    hash: str | None
    created: float
    modified: float


@dataclass(frozen=True, kw_only=True)
class Compute:
    """A compute target; *body* has ARM's ``location``, ``tags`` and ``properties``."""

    name: str
    body: Mapping[str, Any]
    created: float
    modified: float


class AssetStore:
    """Reads and writes assets, computes and operations; *kind* is ARM's plural."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._db = database
        self._clock = clock

    # Assets

    def put_container(self, kind: str, name: str, properties: Mapping[str, Any]) -> AssetContainer:
        """Create or replace what is common to all versions of a name."""
        now = self._clock()
        row = self._db.put(
            "INSERT INTO containers (kind, name, properties, created, modified) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (kind, name) DO UPDATE SET properties = excluded.properties, modified = excluded.modified",
            (kind, name, json.dumps(dict(properties)), now, now),
        )
        return _container(row)

    def container(self, kind: str, name: str) -> AssetContainer | None:
        """Return the container, or None."""
        row = self._db.row("SELECT * FROM containers WHERE kind = ? AND name = ?", (kind, name))
        return None if row is None else _container(row)

    def containers(self, kind: str) -> list[AssetContainer]:
        """Return all containers of a kind by name."""
        rows = self._db.rows("SELECT * FROM containers WHERE kind = ? ORDER BY name", (kind,))
        return [_container(row) for row in rows]

    def put(
        self, kind: str, name: str, version: str, properties: Mapping[str, Any], *, hash_: str | None = None
    ) -> AssetVersion:
        """Create or replace a version, with its container if that is new."""
        now = self._clock()
        with self._db.transaction():
            if self.container(kind, name) is None:
                self.put_container(kind, name, {})
            row = self._db.put(
                "INSERT INTO versions (kind, name, version, properties, stage, hash, created, modified)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (kind, name, version) DO UPDATE SET"
                " properties = excluded.properties, stage = excluded.stage, hash = coalesce(excluded.hash, hash),"
                " modified = excluded.modified",
                (kind, name, version, json.dumps(dict(properties)), properties.get("stage"), hash_, now, now),
            )
        return _version(row)

    def version(self, kind: str, name: str, version: str) -> AssetVersion | None:
        """Return one version, or None."""
        row = self._db.row(
            "SELECT * FROM versions WHERE kind = ? AND name = ? AND version = ?", (kind, name, version)
        )
        return None if row is None else _version(row)

    def versions(self, kind: str, name: str) -> list[AssetVersion]:
        """Return all versions of a name, newest first."""
        rows = self._db.rows("SELECT * FROM versions WHERE kind = ? AND name = ? ORDER BY id DESC", (kind, name))
        return [_version(row) for row in rows]

    def all_versions(self, kind: str) -> list[AssetVersion]:
        """Return all versions of all names of a kind."""
        return [_version(row) for row in self._db.rows("SELECT * FROM versions WHERE kind = ? ORDER BY id", (kind,))]

    def by_hash(self, kind: str, hash_: str) -> list[AssetVersion]:
        """Return all versions of whatever name with that hash, newest first."""
        rows = self._db.rows("SELECT * FROM versions WHERE kind = ? AND hash = ? ORDER BY id DESC", (kind, hash_))
        return [_version(row) for row in rows]

    def next_version(self, kind: str, name: str) -> str:
        """Return one more than the highest version that is a number, or ``1``."""
        return next_number(self.versions(kind, name))

    def delete_version(self, kind: str, name: str, version: str) -> bool:
        """Delete one version; returns whether it was there."""
        return bool(
            self._db.execute(
                "DELETE FROM versions WHERE kind = ? AND name = ? AND version = ?", (kind, name, version)
            )
        )

    def delete(self, kind: str, name: str) -> bool:
        """Delete a name with all its versions; returns whether it was there."""
        return bool(self._db.execute("DELETE FROM containers WHERE kind = ? AND name = ?", (kind, name)))

    def count(self) -> dict[str, int]:
        """Return how many versions there are of each kind."""
        rows = self._db.rows("SELECT kind, count(*) AS n FROM versions GROUP BY kind")
        return {str(row["kind"]): int(row["n"]) for row in rows}

    # Computes

    def put_compute(self, name: str, body: Mapping[str, Any]) -> Compute:
        """Create or replace a compute target."""
        now = self._clock()
        row = self._db.put(
            "INSERT INTO computes (name, body, created, modified) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET body = excluded.body, modified = excluded.modified",
            (name, json.dumps(dict(body)), now, now),
        )
        return _compute(row)

    def compute(self, name: str) -> Compute | None:
        """Return the compute target, or None."""
        row = self._db.row("SELECT * FROM computes WHERE name = ?", (name,))
        return None if row is None else _compute(row)

    def computes(self) -> list[Compute]:
        """Return all compute targets by name."""
        return [_compute(row) for row in self._db.rows("SELECT * FROM computes ORDER BY name")]

    def delete_compute(self, name: str) -> bool:
        """Delete a compute target; returns whether it was there."""
        return bool(self._db.execute("DELETE FROM computes WHERE name = ?", (name,)))

    # Long-running operations

    def start_operation(self, kind: str, target: str) -> str:
        """Remember an operation that a client will ask for, and return its id, a GUID."""
        operation = str(uuid.uuid4())
        self._db.execute(
            "INSERT INTO operations (id, kind, target, created) VALUES (?, ?, ?, ?)",
            (operation, kind, target, self._clock()),
        )
        return operation

    def operation(self, operation_id: str) -> tuple[str, str, float] | None:
        """Return kind, target and time of creation of an operation, or None."""
        row = self._db.row("SELECT kind, target, created FROM operations WHERE id = ?", (operation_id,))
        return None if row is None else (str(row["kind"]), str(row["target"]), float(row["created"]))


def next_number(versions: Iterable[AssetVersion]) -> str:
    """Return one more than the highest of these versions that is a number, or ``1``."""
    numbers = [number for item in versions if (number := whole(item.version, most=_VERSION_LENGTH)) is not None]
    return str(max(numbers, default=0) + 1)


def _container(row: sqlite3.Row) -> AssetContainer:
    return AssetContainer(**decoded(row, "properties"))


def _version(row: sqlite3.Row) -> AssetVersion:
    values = decoded(row, "properties")
    del values["id"]
    return AssetVersion(**values)


def _compute(row: sqlite3.Row) -> Compute:
    return Compute(**decoded(row, "body"))
