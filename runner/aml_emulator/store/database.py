"""The emulator's SQLite database: its schema and transactions."""

from __future__ import annotations

import errno
import json
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from azure.core.exceptions import AzureError, HttpResponseError

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_disk_full(error: Exception) -> bool:
    """Return whether an error says that there is no room."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def is_storage_fault(error: Exception) -> bool:
    """Return whether the database, the disk or Blob storage failed.

    The same may succeed later: when the disk has room, for example.
    """
    if isinstance(error, HttpResponseError):
        return error.status_code is None or error.status_code >= 500
    if isinstance(error, OSError):
        return error.errno in _NO_ROOM | {errno.EIO}
    return isinstance(error, sqlite3.OperationalError | AzureError)


SCHEMA_VERSION = 1

SCHEMA = """
CREATE TABLE experiments (
    id TEXT PRIMARY KEY,                 -- GUID; MLflow's experiment_id and run history's experimentId
    name TEXT NOT NULL UNIQUE,
    created REAL NOT NULL,               -- all times: seconds since the epoch
    stage TEXT NOT NULL DEFAULT 'active',
    tags TEXT NOT NULL DEFAULT '{}'
);
CREATE TABLE runs (                      -- one job is one run of history is one run of MLflow
    id TEXT PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    number INTEGER NOT NULL,
    experiment_id TEXT NOT NULL REFERENCES experiments(id),
    parent_id TEXT REFERENCES runs(id) ON DELETE CASCADE,
    display_name TEXT NOT NULL,
    description TEXT,
    status TEXT NOT NULL,
    created REAL NOT NULL,
    started REAL,
    ended REAL,
    modified REAL NOT NULL,
    tags TEXT NOT NULL DEFAULT '{}',
    properties TEXT NOT NULL DEFAULT '{}',
    archived INTEGER NOT NULL DEFAULT 0,
    deleted INTEGER NOT NULL DEFAULT 0,
    job TEXT,                            -- the job as submitted (JSON); NULL: a run made by MLflow itself
    spec TEXT,                           -- what the executor got (JSON), to adopt the run after a restart
    outputs TEXT NOT NULL DEFAULT '{}',  -- by name: {"container", "prefix", "kind", "stored"}
    error_code TEXT,
    error_message TEXT,
    exit_code INTEGER
);
CREATE INDEX runs_by_experiment ON runs(experiment_id, created);
CREATE INDEX runs_by_creation ON runs(created);
CREATE TABLE artifacts (
    run_id TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    size INTEGER,                        -- NULL: made known before its contents were uploaded
    created REAL NOT NULL,
    log INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, path)
) WITHOUT ROWID;
CREATE TABLE metrics (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value REAL,                          -- NULL: NaN, which SQLite does not keep
    timestamp INTEGER NOT NULL,          -- milliseconds since the epoch, with a fraction where one is known
    step INTEGER NOT NULL
);
CREATE INDEX metrics_by_key ON metrics(run_id, key, id);
CREATE TABLE params (
    run_id TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run_id, key)
) WITHOUT ROWID;
CREATE TABLE containers (                -- of assets: what is true of all versions of a name
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    properties TEXT NOT NULL,
    created REAL NOT NULL,
    modified REAL NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE versions (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    properties TEXT NOT NULL,
    stage TEXT,
    hash TEXT,
    created REAL NOT NULL,
    modified REAL NOT NULL,
    UNIQUE (kind, name, version),
    FOREIGN KEY (kind, name) REFERENCES containers(kind, name) ON DELETE CASCADE
);
CREATE INDEX versions_by_hash ON versions(kind, hash) WHERE hash IS NOT NULL;
CREATE TABLE computes (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    created REAL NOT NULL,
    modified REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE operations (                -- long-running ones, which clients poll
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    created REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE datastores (
    name TEXT PRIMARY KEY COLLATE NOCASE,
    container TEXT NOT NULL,
    properties TEXT NOT NULL,
    secret TEXT NOT NULL,                -- as it was given (JSON)
    created REAL NOT NULL,
    modified REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE run_definitions (           -- of runs that azureml-core submitted
    run_id TEXT PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE,
    body TEXT NOT NULL                   -- its RunConfiguration (JSON)
) WITHOUT ROWID;
CREATE TABLE metric_rows (               -- every value that azureml-core logged; numbers are in metrics, and only their ids here
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    metric_id TEXT NOT NULL,             -- the client's, by which a value that is sent twice counts once
    name TEXT NOT NULL,
    kind TEXT,                           -- uxMetricType; NULL: a number
    columns TEXT,                        -- types by column (JSON)
    created TEXT NOT NULL,
    step INTEGER,
    data TEXT,                           -- values by column (JSON)
    UNIQUE (run_id, metric_id)
);
CREATE INDEX metric_rows_by_name ON metric_rows(run_id, name, id) WHERE data IS NOT NULL;
CREATE INDEX runs_by_parent ON runs(parent_id) WHERE parent_id IS NOT NULL;
"""

DATA_TABLES = (
    "metric_rows",
    "run_definitions",
    "operations",
    "versions",
    "containers",
    "params",
    "metrics",
    "artifacts",
    "runs",
    "experiments",
    "computes",
    "datastores",
)
"""Every table, children first."""


def decoded(row: sqlite3.Row, *columns: str) -> dict[str, Any]:
    """Return a row by column, with the JSON of these *columns* read; NULL stays None."""
    values = dict(row)
    return values | {name: json.loads(values[name]) for name in columns if values[name] is not None}


class Database:
    """One connection that writes, used by one thread at a time, and others that read.

    A thread reads its own transaction, and otherwise what was committed.

    Args:
        path: the file, or ``:memory:``, which has no second connection.

    Raises:
        ValueError: a version of the emulator with another schema wrote the file.
    """

    def __init__(self, path: Path | str) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._writer: int | None = None
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        try:
            self._prepare(str(path))
        except BaseException:
            self._connection.close()
            raise
        # Appending and popping are atomic.
        self._readers: deque[sqlite3.Connection] = deque()
        self._address = None if str(path) == ":memory:" else f"{Path(path).absolute().as_uri()}?mode=ro"

    def _prepare(self, path: str) -> None:
        version = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
        # A new database has nothing to lose: its writes do not wait for the disk.
        self._connection.execute(f"PRAGMA synchronous={'OFF' if version == 0 else 'NORMAL'}")
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA foreign_keys=ON")
        if version not in (0, SCHEMA_VERSION):
            raise ValueError(
                f"{path} has schema {version}, and this local AzureML knows {SCHEMA_VERSION}. Start it with the version of"
                " aml-train that wrote it, or begin with nothing: aml-train emulator reset."
            )
        if version == 0:
            with self.transaction():
                for statement in SCHEMA.split(";\n"):
                    self._connection.execute(statement)  # one by one: a script would end the transaction
                self._connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        self._connection.execute("PRAGMA synchronous=NORMAL")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction; an error undoes it. May be nested."""
        with self._lock:
            if self._depth == 0:
                self._connection.execute("BEGIN IMMEDIATE")
                self._writer = threading.get_ident()
            self._depth += 1
            try:
                yield
                if self._depth == 1:
                    self._connection.execute("COMMIT")
            except BaseException:
                # On a full disk SQLite has ended the transaction itself, or failed to end it.
                if self._depth == 1 and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._writer = None

    def execute(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run one statement that changes rows and return how many it changed."""
        with self._lock:
            return self._connection.execute(statement, values).rowcount

    def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run one statement for each of *rows*, in one transaction."""
        with self.transaction():
            self._connection.executemany(statement, rows)

    def rows(self, query: str, values: Sequence[object] = ()) -> list[sqlite3.Row]:
        """Return all rows of a query."""
        # No other thread makes this comparison true or false.
        if self._address is None or self._writer == threading.get_ident():
            with self._lock:
                return self._connection.execute(query, values).fetchall()
        # No query waits for the lock: the write-ahead log keeps reads and writes apart.
        try:
            reader = self._readers.pop()
        except IndexError:
            reader = sqlite3.connect(self._address, uri=True, check_same_thread=False, isolation_level=None)
            reader.row_factory = sqlite3.Row
        try:
            return reader.execute(query, values).fetchall()
        finally:
            self._readers.append(reader)

    def row(self, query: str, values: Sequence[object] = ()) -> sqlite3.Row | None:
        """Return the first row of a query, or None."""
        return next(iter(self.rows(query, values)), None)

    def number(self, query: str, values: Sequence[object] = ()) -> int:
        """Return the one number that a query counts."""
        return int(self.rows(query, values)[0][0])

    def put(self, statement: str, values: Sequence[object]) -> sqlite3.Row:
        """Insert or replace one row and return it as it is stored now."""
        with self._lock:
            row: sqlite3.Row = self._connection.execute(f"{statement} RETURNING *", values).fetchall()[0]
            return row

    def clear(self) -> None:
        """Delete every row of every table."""
        with self.transaction():
            for table in DATA_TABLES:
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names from the constant above

    def close(self) -> None:
        """Write the log back into the file and close it."""
        while self._readers:
            self._readers.pop().close()
        with self._lock:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()
