"""State of azureml-core alone: run configurations, and values that are no numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aml_emulator.store.database import Database, decoded

LIST = "azureml.v1.list"


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One value that azureml-core logged: a text, a table's row, an artifact's place.

    Attributes:
        metric_id: the client's id of the value.
        kind: the client's word for what it is, for example ``azureml.v1.table``.
        columns: the type of each column.
        created: ISO 8601, as the client sent it.
        data: the values by column; None for a number, which is among the run's metrics, and of which *kind* is kept where it is in a list.
    """

    metric_id: str
    name: str
    kind: str | None
    columns: Mapping[str, str]
    created: str
    step: int | None
    data: Mapping[str, Any] | None


class V1Store:
    """Reads and writes what belongs to azureml-core alone."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def put_definition(self, run_id: str, body: Mapping[str, Any]) -> None:
        """Keep the RunConfiguration that a run was submitted with."""
        self._db.execute(
            "INSERT INTO run_definitions (run_id, body) VALUES (?, ?) ON CONFLICT (run_id) DO NOTHING",
            (run_id, json.dumps(dict(body))),
        )

    def definition(self, run_id: str) -> dict[str, Any] | None:
        """Return the RunConfiguration of a run; None if another client submitted it."""
        row = self._db.row("SELECT body FROM run_definitions WHERE run_id = ?", (run_id,))
        return None if row is None else dict(json.loads(row["body"]))

    def add_rows(self, run_id: str, rows: Iterable[MetricRow]) -> list[MetricRow]:
        """Keep values, and return those that were not known by their ids."""
        new = []
        with self._db.transaction():
            for row in rows:
                added = self._db.execute(
                    "INSERT INTO metric_rows (run_id, metric_id, name, kind, columns, created, step, data)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, metric_id) DO NOTHING",
                    (
                        run_id,
                        row.metric_id,
                        row.name,
                        row.kind if row.data is not None or row.kind == LIST else None,
                        None if row.data is None else json.dumps(dict(row.columns)),
                        row.created,
                        row.step,
                        None if row.data is None else json.dumps(dict(row.data)),
                    ),
                )
                new += [row] if added else []
        return new

    def copy(self, source: str, target: str) -> None:
        """Give a run the values of another one."""
        self._db.execute(
            "INSERT INTO metric_rows (run_id, metric_id, name, kind, columns, created, step, data)"
            " SELECT ?, metric_id, name, kind, columns, created, step, data FROM metric_rows WHERE run_id = ? ORDER BY id",
            (target, source),
        )

    def row_names(self, run_id: str) -> list[str]:
        """Return the names of a run's logged values that are no numbers, oldest first."""
        rows = self._db.rows(
            "SELECT name FROM metric_rows WHERE run_id = ? AND data IS NOT NULL GROUP BY name ORDER BY min(id)",
            (run_id,),
        )
        return [str(row["name"]) for row in rows]

    def rows(self, run_id: str, name: str) -> list[MetricRow]:
        """Return the values logged under a name, without numbers, oldest first."""
        # azureml-core sends several batches at a time: one that was logged first may arrive last.
        rows = self._db.rows(
            "SELECT metric_id, name, kind, columns, created, step, data FROM metric_rows"
            " WHERE run_id = ? AND name = ? AND data IS NOT NULL ORDER BY created, id",
            (run_id, name),
        )
        return [MetricRow(**decoded(row, "columns", "data")) for row in rows]

    def lists(self, run_id: str) -> set[str]:
        """Return the names under which lists of numbers were logged."""
        rows = self._db.rows(
            "SELECT DISTINCT name FROM metric_rows WHERE run_id = ? AND data IS NULL AND kind = ?", (run_id, LIST)
        )
        return {str(row["name"]) for row in rows}
