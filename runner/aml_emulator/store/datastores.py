"""Datastores that clients registered, and changes to the workspace's own two."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aml_emulator.store.database import Database, decoded


@dataclass(frozen=True, kw_only=True)
class Datastore:
    """A datastore.

    Attributes:
        name: as paths name it; one name whatever the case of its letters.
        container: the container, file share or file system that it stands for; it need not exist.
        properties: ARM's, without the secret.
        secret: ARM's ``secrets`` as they were given: a key, a SAS, or nothing.
        created, modified: seconds since the epoch.
    """

    name: str
    container: str
    properties: Mapping[str, Any]
    secret: Mapping[str, Any] = field(repr=False)
    created: float
    modified: float

    @property
    def kind(self) -> str:
        """ARM's ``datastoreType``."""
        return str(self.properties.get("datastoreType") or "AzureBlob")

    @property
    def account(self) -> str | None:
        """The storage account, None for the workspace's account."""
        account = self.properties.get("accountName")
        return None if account is None else str(account)


class DatastoreStore:
    """Reads and writes datastores."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._db = database
        self._clock = clock

    def put(
        self, name: str, *, container: str, properties: Mapping[str, Any], secret: Mapping[str, Any]
    ) -> Datastore:
        """Create or replace a datastore."""
        now = self._clock()
        row = self._db.put(
            "INSERT INTO datastores (name, container, properties, secret, created, modified) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET container = excluded.container, properties = excluded.properties,"
            " secret = excluded.secret, modified = excluded.modified",
            (name, container, json.dumps(dict(properties)), json.dumps(dict(secret)), now, now),
        )
        return _datastore(row)

    def get(self, name: str) -> Datastore | None:
        """Return the datastore, or None."""
        row = self._db.row("SELECT * FROM datastores WHERE name = ?", (name,))
        return None if row is None else _datastore(row)

    def all(self) -> list[Datastore]:
        """Return all that are stored, the oldest first."""
        return [_datastore(row) for row in self._db.rows("SELECT * FROM datastores ORDER BY created, name")]

    def delete(self, name: str) -> bool:
        """Forget a datastore; returns whether it was there."""
        return bool(self._db.execute("DELETE FROM datastores WHERE name = ?", (name,)))


def _datastore(row: sqlite3.Row) -> Datastore:
    return Datastore(**decoded(row, "properties", "secret"))
