"""The list of runs: any columns, conditions and order, in SQL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aml_emulator.store.conditions import (
    COMPUTE,
    METRICS,
    OF_JOB,
    OF_RUN,
    PARAMS,
    STAGE,
    TAGS,
    Field,
    RunFilter,
    order_of,
    where_of,
)
from aml_emulator.store.database import Queries

BRANCHES: Final = 200
"""At most so many branches are offered to filter by."""

KEYS: Final = 100
"""At most so many names of metrics or parameters are offered as columns."""


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """A run in a list; *job* distinguishes jobs from MLflow's runs.

    Times are seconds since the epoch.
    """

    id: str
    display_name: str
    experiment: str
    status: str
    created: float
    started: float | None
    ended: float | None
    job: bool
    parent_id: str | None
    branch: str | None = None
    gate: str | None = None
    compute: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelLine:
    """A version of a model that was registered from a run."""

    name: str
    version: str
    stage: str


class Listing:
    """Reads lists of runs. Deleted and archived ones are left out."""

    def __init__(self, database: Queries) -> None:
        self._db = database

    def runs(
        self,
        wanted: RunFilter,
        *,
        limit: int,
        offset: int = 0,
        order: Field | None = None,
        descending: bool = False,
        now: float = 0.0,
    ) -> tuple[list[RunLine], int]:
        """Return a page of runs and their number in all.

        Args:
            order: newest first without one. Runs without the value come last in both directions, NaN before them.
            now: the time, for the duration of runs that have not ended.
        """
        conditions, values = where_of(wanted, now)
        source = "FROM runs AS r"
        where = " WHERE " + " AND ".join(conditions)
        total = self._db.number(f"SELECT count(*) {source}{where}", values)
        joined, terms, given = order_of(order, descending=descending, now=now)
        # First the ids of the page alone: what is sorted stays small.
        rows = self._db.rows(
            f"SELECT r.id {source}{joined}{where} ORDER BY {terms} LIMIT ? OFFSET ?", [*given, *values, limit, offset]
        )
        return self._lines([str(row["id"]) for row in rows]), total

    def _lines(self, run_ids: Sequence[str]) -> list[RunLine]:
        rows = self._db.rows(
            "SELECT r.id, r.display_name, e.name AS experiment, r.status, r.created, r.started, r.ended,"
            f" r.job IS NOT NULL AS job, r.parent_id, r.branch, r.gate, {COMPUTE} AS compute"
            " FROM runs AS r JOIN experiments AS e ON e.id = r.experiment_id"
            f" WHERE r.id IN ({','.join('?' * len(run_ids))})",
            run_ids,
        )
        found = {row["id"]: RunLine(**{**dict(row), "job": bool(row["job"])}) for row in rows}
        return [found[run_id] for run_id in run_ids if run_id in found]

    def values(self, run_ids: Sequence[str], fields: Sequence[Field]) -> Mapping[str, Mapping[Field, float | str]]:
        """Return metrics, parameters and tags of some runs, as far as they have them."""
        found: dict[str, dict[Field, float | str]] = {run_id: {} for run_id in run_ids}
        runs = ",".join("?" * len(run_ids))
        queries = {
            METRICS: "SELECT run_id, key, value FROM latest_metrics WHERE key IN ({keys}) AND run_id IN ({runs})",
            PARAMS: "SELECT run_id, key, value FROM params WHERE key IN ({keys}) AND run_id IN ({runs})",
            TAGS: "SELECT r.id AS run_id, t.key, t.value FROM runs AS r, json_each(r.tags) AS t"
            " WHERE t.key IN ({keys}) AND r.id IN ({runs})",
        }
        for group, query in queries.items():
            keys = [one.key for one in fields if one.group == group]
            if not keys or not run_ids:
                continue
            for row in self._db.rows(query.format(keys=",".join("?" * len(keys)), runs=runs), [*keys, *run_ids]):
                value = row["value"]
                # A metric without a value is NaN, which SQLite does not keep.
                shown = float(math.nan if value is None else value) if group == METRICS else str(value or "")
                found[row["run_id"]][Field(group=group, key=row["key"])] = shown
        return found

    def models(self, run_ids: Sequence[str]) -> Mapping[str, Sequence[ModelLine]]:
        """Return the models that were registered from some runs, the newest first."""
        found: dict[str, list[ModelLine]] = {run_id: [] for run_id in run_ids}
        marks = ",".join("?" * len(run_ids))
        owners = " UNION ".join(
            f"SELECT id, json_extract(properties, '{path}') AS owner FROM versions WHERE {condition} IN ({marks})"
            for path, condition in (("$.jobName", OF_RUN), ('$.tags."aml-train.job"', OF_JOB))
        )
        rows = self._db.rows(
            f"SELECT o.owner, v.name, v.version, {STAGE} AS stage FROM ({owners}) AS o"
            " JOIN versions AS v ON v.id = o.id ORDER BY v.id DESC",
            [*run_ids, *run_ids],
        )
        for row in rows:
            found[row["owner"]].append(
                ModelLine(name=row["name"], version=row["version"], stage=str(row["stage"] or ""))
            )
        return found

    def experiments(self) -> list[str]:
        """Return the names of all experiments."""
        return [str(row["name"]) for row in self._db.rows("SELECT name FROM experiments ORDER BY lower(name), name")]

    def statuses(self) -> Mapping[str, int]:
        """Return the number of runs in each status."""
        rows = self._db.rows(
            "SELECT status, count(*) AS n FROM runs WHERE deleted = 0 AND archived = 0 GROUP BY status ORDER BY status"
        )
        return {str(row["status"]): int(row["n"]) for row in rows}

    def branches(self) -> list[str]:
        """Return the branches that jobs were submitted from, those of the newest jobs."""
        rows = self._db.rows(
            "SELECT branch FROM runs WHERE deleted = 0 AND archived = 0 AND branch IS NOT NULL"
            " GROUP BY branch ORDER BY max(created) DESC LIMIT ?",
            (BRANCHES,),
        )
        return sorted(str(row["branch"]) for row in rows)

    def metric_keys(self) -> list[str]:
        """Return the names of metrics, the first of them."""
        return self._keys("latest_metrics")

    def param_keys(self) -> list[str]:
        """Return the names of parameters, the first of them."""
        return self._keys("params")

    def _keys(self, table: str) -> list[str]:
        """Return the first keys of a table, each found by one look into its index."""
        rows = self._db.rows(
            f"WITH RECURSIVE found(key) AS (SELECT min(key) FROM {table} UNION ALL"
            f" SELECT (SELECT min(key) FROM {table} WHERE key > found.key) FROM found WHERE found.key IS NOT NULL)"
            " SELECT key FROM found WHERE key IS NOT NULL LIMIT ?",
            (KEYS,),
        )
        return [str(row["key"]) for row in rows]
