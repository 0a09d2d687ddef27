"""The list of runs: filtered, sorted and in pages, in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aml_emulator.store.database import Database
from aml_emulator.store.metrics import number_of
from aml_emulator.store.runs import SELECT_RUNS, TERMINAL, Run, run_of_row

KEYS: Final = 200
"""At most so many branches or names of metrics are offered."""

_BRANCH: Final = "json_extract(r.tags, '$.\"aml-train.branch\"')"
_GATE: Final = "json_extract(r.tags, '$.\"aml-train.gate\"')"
_STAGE: Final = "coalesce(nullif(json_extract(properties, '$.tags.\"aml-train.stage\"'), ''), stage)"
_LATEST: Final = "SELECT value FROM metrics WHERE run_id = r.id AND key = ? ORDER BY id DESC LIMIT 1"

_ORDERS: Final[Mapping[str, str]] = {
    "name": "r.display_name",
    "status": "r.status",
    "experiment": "(SELECT name FROM experiments WHERE id = r.experiment_id)",
    "branch": _BRANCH,
    "gate": _GATE,
    "created": "r.created",
    # Of a run that has not ended it is the time until now.
    "duration": "(coalesce(r.ended, ?) - r.started)",
}


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Which runs are shown; an empty text stands for all.

    Attributes:
        status: a status, or ``active`` for every run that has not ended.
        text: a part of the run's id or display name.
        children: whether runs that belong to another one are shown, too.
    """

    experiment: str = ""
    status: str = ""
    branch: str = ""
    text: str = ""
    children: bool = True


@dataclass(frozen=True, kw_only=True)
class ModelLine:
    """A version of a model that was registered from a run."""

    name: str
    version: str
    stage: str


class Listing:
    """Reads lists of runs. Deleted and archived ones are left out."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def runs(
        self,
        wanted: RunFilter,
        *,
        limit: int,
        offset: int = 0,
        order: str = "",
        metric: str = "",
        descending: bool = False,
        now: float = 0.0,
    ) -> tuple[list[Run], int]:
        """Return a page of runs and their number in all.

        Args:
            order: a column; newest first without one. Runs without the value come last in both directions.
            metric: the order is that of the metric's last values.
            now: the time, for the duration of runs that have not ended.
        """
        where, values = _where(wanted)
        total = self._db.number(f"SELECT count(*) FROM runs AS r WHERE {where}", values)
        given: list[object] = [metric] if metric else [now] if order == "duration" else []
        term = f"({_LATEST})" if metric else _ORDERS.get(order, "NULL")
        rows = self._db.rows(
            f"{SELECT_RUNS} WHERE {where} ORDER BY {term} {'DESC' if descending else 'ASC'} NULLS LAST,"
            " r.created DESC, r.id LIMIT ? OFFSET ?",
            [*values, *given, limit, offset],
        )
        return [run_of_row(row) for row in rows], total

    def metric(self, run_ids: Sequence[str], key: str) -> Mapping[str, float]:
        """Return a metric's last value of each run that has it."""
        rows = self._db.rows(
            "SELECT run_id, value FROM metrics WHERE id IN (SELECT max(id) FROM metrics"
            f" WHERE key = ? AND run_id IN ({','.join('?' * len(run_ids))}) GROUP BY run_id)",
            [key, *run_ids],
        )
        return {str(row["run_id"]): number_of(row) for row in rows}

    def models(self, run_ids: Sequence[str]) -> Mapping[str, Sequence[ModelLine]]:
        """Return the models that were registered from some runs, the newest first.

        AzureML names the run that wrote a model, aml-train's tag the whole job.
        """
        found: dict[str, list[ModelLine]] = {run_id: [] for run_id in run_ids}
        rows = self._db.rows(
            "SELECT json_extract(properties, '$.jobName') AS run, json_extract(properties, '$.tags.\"aml-train.job\"') AS job,"
            f" name, version, {_STAGE} AS stage FROM versions WHERE kind = 'models' ORDER BY id DESC"
        )
        for row in rows:
            for owner in {row["run"], row["job"]} & found.keys():
                line = ModelLine(name=row["name"], version=row["version"], stage=str(row["stage"] or ""))
                found[owner].append(line)
        return found

    def statuses(self) -> Mapping[str, int]:
        """Return the number of runs in each status."""
        rows = self._db.rows(
            "SELECT status, count(*) AS n FROM runs WHERE deleted = 0 AND archived = 0 GROUP BY status ORDER BY status"
        )
        return {str(row["status"]): int(row["n"]) for row in rows}

    def branches(self) -> list[str]:
        """Return the branches that jobs were submitted from, those of the newest jobs."""
        rows = self._db.rows(
            f"SELECT {_BRANCH} AS branch FROM runs AS r WHERE deleted = 0 AND archived = 0 AND branch IS NOT NULL"
            " GROUP BY branch ORDER BY max(created) DESC LIMIT ?",
            (KEYS,),
        )
        return sorted(str(row["branch"]) for row in rows)

    def metric_keys(self) -> list[str]:
        """Return the names of metrics, the first of them."""
        rows = self._db.rows("SELECT DISTINCT key FROM metrics ORDER BY key LIMIT ?", (KEYS,))
        return [str(row["key"]) for row in rows]


def _where(wanted: RunFilter) -> tuple[str, list[object]]:
    """Return the conditions of a filter, and their values."""
    conditions, values = ["r.deleted = 0", "r.archived = 0"], list[object]()
    if wanted.experiment:
        conditions.append("r.experiment_id = (SELECT id FROM experiments WHERE name = ?)")
        values.append(wanted.experiment)
    if wanted.status == "active":
        conditions.append(f"r.status NOT IN ({','.join('?' * len(TERMINAL))})")
        values.extend(sorted(TERMINAL))
    elif wanted.status:
        conditions.append("r.status = ?")
        values.append(wanted.status)
    if wanted.branch:
        conditions.append(f"{_BRANCH} = ?")
        values.append(wanted.branch)
    if not wanted.children:
        conditions.append("r.parent_id IS NULL")
    if wanted.text:
        conditions.append("(instr(lower(r.id), lower(?)) OR instr(lower(r.display_name), lower(?)))")
        values += [wanted.text, wanted.text]
    return " AND ".join(conditions), values
