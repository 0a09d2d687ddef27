"""Experiments and runs. A job is a submitted run; MLflow creates other runs."""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from aml_emulator.store.database import Database, decoded

TERMINAL = frozenset({"Completed", "Failed", "Canceled"})
"""Statuses that are never left again."""

RUN_ORDER = {
    "NotStarted": 0,
    "Starting": 1,
    "Queued": 2,
    "Preparing": 3,
    "Running": 4,
    "CancelRequested": 5,
    "Finalizing": 6,
}
"""Statuses before the end, in the order in which a run passes through them."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A group of runs. Times here and below are seconds since the epoch."""

    id: str
    name: str
    created: float
    stage: str
    tags: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run, as stored.

    Attributes:
        job: the ``properties`` of the job as submitted; None for a run that MLflow made.
        spec: JSON of the executor's RunSpec; None as *job*.
        outputs: by name, ``{"container", "prefix", "kind", "stored"}``.
    """

    id: str
    uuid: str
    number: int
    experiment_id: str
    experiment: str
    parent_id: str | None
    display_name: str
    description: str | None
    status: str
    created: float
    started: float | None
    ended: float | None
    modified: float
    tags: Mapping[str, str]
    properties: Mapping[str, str]
    archived: bool
    deleted: bool
    job: Mapping[str, Any] | None
    spec: str | None
    outputs: Mapping[str, Mapping[str, Any]]
    error_code: str | None
    error_message: str | None
    exit_code: int | None

    @property
    def terminal(self) -> bool:
        """Whether the run has ended."""
        return self.status in TERMINAL


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file of a run. *size* is None until known; *log* marks a followable log."""

    path: str
    size: int | None
    created: float
    log: bool


class RunStore:
    """Reads and writes experiments, runs and their artifacts."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._db = database
        self._clock = clock
        self._ended: list[Callable[[str], None]] = []

    def on_end(self, ended: Callable[[str], None]) -> None:
        """Have *ended* called with each run's id, in the thread that ends it."""
        self._ended.append(ended)

    # Experiments

    def experiment(self, name: str) -> Experiment | None:
        """Return the experiment of that name, if there is one."""
        row = self._db.row("SELECT * FROM experiments WHERE name = ?", (name,))
        return None if row is None else _experiment(row)

    def ensure_experiment(self, name: str) -> Experiment:
        """Return the experiment of that name, made if there is none."""
        with self._db.transaction():
            known = self.experiment(name)
            if known is not None:
                return known
            values = (str(uuid.uuid4()), name, self._clock())
            return _experiment(self._db.put("INSERT INTO experiments (id, name, created) VALUES (?, ?, ?)", values))

    def experiment_by_id(self, experiment_id: str) -> Experiment | None:
        """Return the experiment with that GUID, if there is one."""
        row = self._db.row("SELECT * FROM experiments WHERE id = ?", (experiment_id,))
        return None if row is None else _experiment(row)

    def experiments(self) -> list[Experiment]:
        """Return all experiments, newest first."""
        return [_experiment(row) for row in self._db.rows("SELECT * FROM experiments ORDER BY created DESC, name")]

    def rename_experiment(self, experiment_id: str, name: str) -> None:
        """Give an experiment another name."""
        self._db.execute("UPDATE experiments SET name = ? WHERE id = ?", (name, experiment_id))

    def move_experiment(self, experiment_id: str, stage: str) -> None:
        """Give an experiment another of MLflow's stages, ``active`` or ``deleted``."""
        self._db.execute("UPDATE experiments SET stage = ? WHERE id = ?", (stage, experiment_id))

    def tag_experiment(self, experiment_id: str, tags: Mapping[str, str]) -> None:
        """Set tags of an experiment, keeping its others."""
        self._db.execute(
            "UPDATE experiments SET tags = json_patch(tags, ?) WHERE id = ?", (json.dumps(dict(tags)), experiment_id)
        )

    # Runs

    def create(
        self,
        *,
        run_id: str,
        experiment_id: str,
        display_name: str,
        status: str,
        description: str | None = None,
        parent_id: str | None = None,
        tags: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        job: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Mapping[str, Any]] | None = None,
        started: float | None = None,
    ) -> Run:
        """Store a new run; raise `sqlite3.IntegrityError` if the id is taken."""
        now = self._clock()
        with self._db.transaction():
            number = self._db.number("SELECT count(*) + 1 FROM runs WHERE experiment_id = ?", (experiment_id,))
            self._db.execute(
                "INSERT INTO runs (id, uuid, number, experiment_id, parent_id, display_name, description, status,"
                " created, started, modified, tags, properties, job, outputs)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    run_id,
                    str(uuid.uuid4()),
                    number,
                    experiment_id,
                    parent_id,
                    display_name,
                    description,
                    status,
                    now,
                    started,
                    now,
                    json.dumps(dict(tags or {})),
                    json.dumps(dict(properties or {})),
                    None if job is None else json.dumps(dict(job)),
                    json.dumps({name: dict(value) for name, value in (outputs or {}).items()}),
                ),
            )
        return self.require(run_id)

    def get(self, run_id: str) -> Run | None:
        """Return the run, or None."""
        row = self._db.row(f"{SELECT_RUNS} WHERE r.id = ?", (run_id,))
        return None if row is None else run_of_row(row)

    def require(self, run_id: str) -> Run:
        """Return the run; raises KeyError if there is none."""
        run = self.get(run_id)
        if run is None:
            raise KeyError(run_id)
        return run

    def jobs(
        self,
        *,
        limit: int,
        after: tuple[float, str] | None = None,
        archived: bool | None = False,
        tag: str | None = None,
        kind: str | None = None,
    ) -> list[Run]:
        """Return submitted jobs but those of pipelines' nodes, newest first.

        Args:
            after: creation and id of the job that comes before the first one.
            archived: only those archived or not; None for both.
            tag: only those that have it, whatever its value.
            kind: only jobs of that type, in small letters.
        """
        condition = "" if archived is None else "AND r.archived = ?"
        values: list[object] = [] if archived is None else [int(archived)]
        if tag:
            condition += " AND EXISTS (SELECT 1 FROM json_each(r.tags) AS t WHERE t.key = ?)"
            values.append(tag)
        if kind is not None:
            condition += " AND lower(coalesce(json_extract(r.job, '$.jobType'), 'command')) = ?"
            values.append(kind)
        if after is not None:
            condition += " AND (r.created < ? OR (r.created = ? AND r.id > ?))"
            values += [after[0], after[0], after[1]]
        rows = self._db.rows(
            f"{SELECT_RUNS} WHERE r.job IS NOT NULL AND {_NO_NODE} {condition} ORDER BY r.created DESC, r.id LIMIT ?",
            [*values, limit],
        )
        return [run_of_row(row) for row in rows]

    def runs_of(self, experiment_ids: tuple[str, ...]) -> list[Run]:
        """Return all runs of these experiments, newest first."""
        marks = ",".join("?" * len(experiment_ids))
        rows = self._db.rows(
            f"{SELECT_RUNS} WHERE r.experiment_id IN ({marks}) ORDER BY r.created DESC, r.id", experiment_ids
        )
        return [run_of_row(row) for row in rows]

    def all(self) -> list[Run]:
        """Return every run, oldest first."""
        return [run_of_row(row) for row in self._db.rows(f"{SELECT_RUNS} ORDER BY r.created, r.id")]

    def delete(self, run_id: str) -> None:
        """Delete a run with its metrics, parameters, artifacts and children; blobs stay."""
        self._db.execute("DELETE FROM runs WHERE id = ?", (run_id,))

    def children(self, run_id: str) -> list[Run]:
        """Return the direct children of a run, oldest first."""
        return [
            run_of_row(row)
            for row in self._db.rows(f"{SELECT_RUNS} WHERE r.parent_id = ? ORDER BY r.created", (run_id,))
        ]

    def ancestors(self, run: Run) -> list[Run]:
        """Return the run's parent, its parent, and so on up to the root."""
        found: list[Run] = []
        while run.parent_id is not None and (parent := self.get(run.parent_id)) is not None:
            found.append(parent)
            run = parent
        return found

    def unfinished_jobs(self) -> list[Run]:
        """Return submitted jobs that have not ended, oldest first."""
        rows = self._db.rows(
            f"{SELECT_RUNS} WHERE job IS NOT NULL AND status NOT IN ('Completed', 'Failed', 'Canceled') ORDER BY r.created"
        )
        return [run_of_row(row) for row in rows]

    def count_by_status(self) -> dict[str, int]:
        """Return how many submitted jobs are in each status."""
        rows = self._db.rows("SELECT status, count(*) AS n FROM runs WHERE job IS NOT NULL GROUP BY status")
        return {str(row["status"]): int(row["n"]) for row in rows}

    def set_spec(self, run_id: str, spec: str) -> None:
        """Keep what the executor is given."""
        self._db.execute("UPDATE runs SET spec = ? WHERE id = ?", (spec, run_id))

    def advance(self, run_id: str, status: str) -> bool:
        """Advance a run to a later status before its end.

        An earlier status, or one after the end, changes nothing.

        Returns:
            whether the status was changed.
        """
        now = self._clock()
        with self._db.transaction():
            run = self.get(run_id)
            if run is None or run.terminal or RUN_ORDER[status] <= RUN_ORDER[run.status]:
                return False
            started = now if run.started is None and status == "Running" else run.started
            self._db.execute(
                "UPDATE runs SET status = ?, started = ?, modified = ? WHERE id = ?", (status, started, now, run_id)
            )
        return True

    def requeue(self, run_id: str, spec: str) -> bool:
        """Put a run whose nodes are gone back into the queue, with what the executor gets next.

        Returns:
            False for a run that is cancelled or has ended, which stays as it is.
        """
        changed = self._db.execute(
            "UPDATE runs SET status = 'Queued', spec = ?, modified = ? WHERE id = ?"
            " AND status NOT IN ('CancelRequested', 'Completed', 'Failed', 'Canceled')",
            (spec, self._clock(), run_id),
        )
        return bool(changed)

    def finish(
        self,
        run_id: str,
        status: str,
        *,
        code: str | None = None,
        message: str | None = None,
        exit_code: int | None = None,
        ended: float | None = None,
    ) -> bool:
        """End a run, unless it has ended; returns whether this did it."""
        now = self._clock()
        changed = self._db.execute(
            "UPDATE runs SET status = ?, ended = ?, modified = ?, error_code = ?, error_message = ?, exit_code = ?"
            " WHERE id = ? AND status NOT IN ('Completed', 'Failed', 'Canceled')",
            (status, ended or now, now, code, message, exit_code, run_id),
        )
        if changed:
            for listener in self._ended:
                listener(run_id)
        return bool(changed)

    def change(
        self,
        run_id: str,
        *,
        display_name: str | None = None,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
        archived: bool | None = None,
        deleted: bool | None = None,
    ) -> None:
        """Change a run's fields; None leaves a field, *tags* replaces them all."""
        self._db.execute(
            "UPDATE runs SET display_name = coalesce(?, display_name), description = coalesce(?, description),"
            " tags = coalesce(?, tags), archived = coalesce(?, archived), deleted = coalesce(?, deleted), modified = ?"
            " WHERE id = ?",
            (
                display_name,
                description,
                None if tags is None else json.dumps(dict(tags)),
                None if archived is None else int(archived),
                None if deleted is None else int(deleted),
                self._clock(),
                run_id,
            ),
        )

    def tag(
        self, run_id: str, tags: Mapping[str, str | None], *, properties: Mapping[str, str] | None = None
    ) -> None:
        """Set tags (None removes one) and properties of a run, keeping its others."""
        with self._db.transaction():
            run = self.require(run_id)
            merged = {key: value for key, value in {**run.tags, **tags}.items() if value is not None}
            self._db.execute(
                "UPDATE runs SET tags = ?, properties = ?, modified = ? WHERE id = ?",
                (json.dumps(merged), json.dumps({**run.properties, **(properties or {})}), self._clock(), run_id),
            )

    def output_stored(self, run_id: str, name: str) -> None:
        """Mark a named output as whole in storage."""
        with self._db.transaction():
            outputs = {key: dict(value) for key, value in self.require(run_id).outputs.items()}
            outputs[name]["stored"] = True
            self._db.execute("UPDATE runs SET outputs = ? WHERE id = ?", (json.dumps(outputs), run_id))

    def set_outputs(self, run_id: str, outputs: Mapping[str, Mapping[str, Any]]) -> None:
        """Record the places of a run's named outputs."""
        self._db.execute(
            "UPDATE runs SET outputs = ? WHERE id = ?",
            (json.dumps({name: dict(value) for name, value in outputs.items()}), run_id),
        )

    def completed_with(self, name: str, value: str) -> Run | None:
        """Return the newest completed run with a property of that value, or None."""
        row = self._db.row(
            f"{SELECT_RUNS} WHERE r.status = 'Completed' AND {_HAS_PROPERTY} ORDER BY r.created DESC LIMIT 1",
            (name, value),
        )
        return None if row is None else run_of_row(row)

    # Artifacts

    def add_artifact(self, run_id: str, path: str, *, size: int | None = None, log: bool = False) -> Artifact:
        """Make a file of the run known, or known better: a size, or that it is a log."""
        row = self._db.put(
            "INSERT INTO artifacts (run_id, path, size, created, log) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (run_id, path) DO UPDATE SET size = coalesce(excluded.size, size), log = max(excluded.log, log)",
            (run_id, path, size, self._clock(), int(log)),
        )
        return _artifact(row)

    def copy_artifacts(self, source: str, target: str) -> None:
        """Make the files of a run known as those of another one."""
        self._db.execute(
            "INSERT INTO artifacts (run_id, path, size, created, log)"
            " SELECT ?, path, size, created, log FROM artifacts WHERE run_id = ?",
            (target, source),
        )

    def artifacts(self, run_id: str, *, prefix: str = "", logs: bool = False) -> list[Artifact]:
        """Return the run's files below *prefix* by path; only logs if *logs*."""
        rows = self._db.rows(
            "SELECT * FROM artifacts WHERE run_id = ? AND substr(path, 1, length(?)) = ? AND log >= ? ORDER BY path",
            (run_id, prefix, prefix, int(logs)),
        )
        return [_artifact(row) for row in rows]

    def artifact(self, run_id: str, path: str) -> Artifact | None:
        """Return one file of the run, or None."""
        row = self._db.row("SELECT * FROM artifacts WHERE run_id = ? AND path = ?", (run_id, path))
        return None if row is None else _artifact(row)


_HAS_PROPERTY = "EXISTS (SELECT 1 FROM json_each(r.properties) AS p WHERE p.key = ? AND p.value = ?)"
_NO_NODE = (
    "NOT EXISTS (SELECT 1 FROM json_each(r.properties) AS p WHERE p.key IN ('azureml.nodeid', 'azureml.trial'))"
)

_COLUMNS = ", ".join("e.name AS experiment" if one.name == "experiment" else f"r.{one.name}" for one in fields(Run))
SELECT_RUNS = f"SELECT {_COLUMNS} FROM runs r JOIN experiments e ON e.id = r.experiment_id"  # noqa: S608 - names of fields


def _experiment(row: sqlite3.Row) -> Experiment:
    return Experiment(**decoded(row, "tags"))


def run_of_row(row: sqlite3.Row) -> Run:
    """Return the run of a row of :data:`SELECT_RUNS`."""
    flags = {name: bool(row[name]) for name in ("archived", "deleted")}
    return Run(**decoded(row, "tags", "properties", "outputs", "job") | flags)


def _artifact(row: sqlite3.Row) -> Artifact:
    return Artifact(path=row["path"], size=row["size"], created=row["created"], log=bool(row["log"]))
