"""Metrics and parameters of runs, with the rules of MLflow's tracking service."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from aml_emulator.store.database import Database


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One value of a metric; *value* may be NaN or infinite.

    *timestamp* is in milliseconds since the epoch, *fraction* the part of one beyond it.
    """

    key: str
    value: float
    timestamp: int
    step: int
    fraction: float = 0.0


class ParameterConflictError(ValueError):
    """A parameter that has another value already; parameters are never changed."""


class MetricStore:
    """Reads and writes metrics and parameters."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._logged: list[Callable[[str], None]] = []

    def on_log(self, logged: Callable[[str], None]) -> None:
        """Have *logged* called with each run's id when its values are stored."""
        self._logged.append(logged)

    def log(self, run_id: str, metrics: Iterable[Metric]) -> None:
        """Add values to the histories of metrics."""
        self._db.execute_many(
            "INSERT INTO metrics (run_id, key, value, timestamp, step) VALUES (?, ?, ?, ?, ?)",
            [
                (
                    run_id,
                    metric.key,
                    None if math.isnan(metric.value) else metric.value,
                    metric.timestamp + metric.fraction,
                    metric.step,
                )
                for metric in metrics
            ],
        )
        for listener in self._logged:
            listener(run_id)

    def recount(self, run_id: str, key: str) -> None:
        """Number a metric's values again by their timestamps, if its steps only count."""
        rows = self._db.rows(
            "SELECT id, step FROM metrics WHERE run_id = ? AND key = ? ORDER BY timestamp, id", (run_id, key)
        )
        if sorted(int(row["step"]) for row in rows) != list(range(len(rows))):
            return
        self._db.execute_many(
            "UPDATE metrics SET step = ? WHERE id = ?",
            [(number, int(row["id"])) for number, row in enumerate(rows) if int(row["step"]) != number],
        )

    def latest(self, run_id: str) -> list[Metric]:
        """Return each metric's value at its highest step, the last one, by key."""
        rows = self._db.rows(
            "SELECT key, value, timestamp, step FROM (SELECT *, row_number() OVER"
            " (PARTITION BY key ORDER BY step DESC, timestamp DESC, id DESC) AS place FROM metrics WHERE run_id = ?)"
            " WHERE place = 1 ORDER BY key",
            (run_id,),
        )
        return [_metric(row) for row in rows]

    def history(self, run_id: str, key: str, *, limit: int, after: int = 0) -> tuple[list[Metric], int | None]:
        """Return a page of a metric's values in the order in which they were logged.

        Args:
            after: where the previous page ended; 0 for the first one.

        Returns:
            the values, and where this page ended, or None if nothing follows.
        """
        rows = self._db.rows(
            "SELECT * FROM metrics WHERE run_id = ? AND key = ? AND id > ? ORDER BY id LIMIT ?",
            (run_id, key, after, limit + 1),
        )
        page = [_metric(row) for row in rows[:limit]]
        return page, (int(rows[limit - 1]["id"]) if len(rows) > limit else None)

    def copy(self, source: str, target: str) -> None:
        """Give a run the values and parameters of another one."""
        self._db.execute(
            "INSERT INTO metrics (run_id, key, value, timestamp, step)"
            " SELECT ?, key, value, timestamp, step FROM metrics WHERE run_id = ? ORDER BY id",
            (target, source),
        )
        self._db.execute(
            "INSERT INTO params (run_id, key, value) SELECT ?, key, value FROM params WHERE run_id = ?",
            (target, source),
        )

    def set_params(self, run_id: str, params: Sequence[tuple[str, str]]) -> None:
        """Set parameters once and for all.

        Raises:
            ParameterConflictError: one of them has another value; then none is set.
        """
        if not params:
            return
        with self._db.transaction():
            known = dict(self.params(run_id))
            for key, value in params:
                if known.setdefault(key, value) != value:
                    raise ParameterConflictError(
                        f"Parameter '{key}' of run {run_id} was logged with '{known[key]}' and cannot become '{value}'"
                    )
            self._db.execute_many(
                "INSERT INTO params (run_id, key, value) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [(run_id, key, value) for key, value in params],
            )

    def params(self, run_id: str) -> list[tuple[str, str]]:
        """Return the run's parameters by key."""
        rows = self._db.rows("SELECT key, value FROM params WHERE run_id = ? ORDER BY key", (run_id,))
        return [(str(row["key"]), str(row["value"])) for row in rows]


def _metric(row: sqlite3.Row) -> Metric:
    """Return the value in a row of the table of metrics."""
    fraction, whole = math.modf(row["timestamp"])
    return Metric(key=row["key"], value=number_of(row), timestamp=int(whole), step=row["step"], fraction=fraction)


def number_of(row: sqlite3.Row) -> float:
    """Return the number in a row's ``value``; NULL stands for NaN."""
    return math.nan if row["value"] is None else row["value"]
