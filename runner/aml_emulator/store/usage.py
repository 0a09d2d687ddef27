"""System metrics of jobs in bounded intervals, apart from metrics that runs log.

Azure aggregates them in intervals of a minute, and has mean, minimum, maximum and sum of each
(https://learn.microsoft.com/azure/azure-monitor/reference/supported-metrics/microsoft-machinelearningservices-workspaces-metrics).
Here the intervals of a short job are shorter, and those of a job of more than twelve hours longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aml_emulator.reading import whole
from aml_emulator.store.database import Database

STEPS: Final = (1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400)
"""Lengths of intervals in seconds; each is a multiple of the one before."""

MOST: Final = 750
"""Intervals of a node: twelve hours and a half at Azure's minute."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A value that held from one reading to the next; *device* is a GPU's number."""

    key: str
    value: float
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class UsageSummary:
    """A system metric of a node or of one of its GPUs, over all that is known.

    Attributes:
        total: the sum of value times seconds.
        seconds: how long it is known for.
    """

    key: str
    node: int
    device: str
    mean: float
    peak: float
    total: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class UsageCurve:
    """A system metric of a node over time.

    Attributes:
        points: for each stretch of time the middle, in seconds since the epoch, and the mean.
    """

    key: str
    node: int
    device: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class UsageInterval:
    """A system metric of a node or GPU in an interval, which begins *at*."""

    run_id: str
    node: int
    device: str
    key: str
    at: int
    seconds: float
    integral: float
    low: float
    high: float


class UsageStore:
    """Reads and writes system metrics."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def last(self, run_id: str, node: int) -> str | None:
        """Return the last reading of a node, as it was added; None before the first."""
        row = self._db.row("SELECT last FROM usage_nodes WHERE run_id = ? AND node = ?", (run_id, node))
        return None if row is None else str(row["last"])

    def add(
        self, run_id: str, node: int, measures: Sequence[Measure], *, since: float, until: float, last: str
    ) -> None:
        """Add what held from *since* to *until*, and the reading at that time."""
        with self._db.transaction():
            known = self._db.row("SELECT first, step FROM usage_nodes WHERE run_id = ? AND node = ?", (run_id, node))
            first, step = (int(since), STEPS[0]) if known is None else (int(known["first"]), int(known["step"]))
            wanted = step_for(first, until, least=step)
            if wanted != step:
                self._coarsen(run_id, node, wanted)
            self._db.execute(
                "INSERT INTO usage_nodes (run_id, node, first, step, last) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (run_id, node) DO UPDATE SET step = excluded.step, last = excluded.last",
                (run_id, node, first, wanted, last),
            )
            self._db.execute_many(
                "INSERT INTO usage (run_id, node, device, key, at, seconds, integral, low, high)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, node, device, key, at) DO UPDATE SET"
                " seconds = seconds + excluded.seconds, integral = integral + excluded.integral,"
                " low = min(low, excluded.low), high = max(high, excluded.high)",
                [
                    (run_id, node, one.device, one.key, at, seconds, one.value * seconds, one.value, one.value)
                    for at, seconds in spread(since, until, wanted)
                    for one in measures
                ],
            )

    def _coarsen(self, run_id: str, node: int, step: int) -> None:
        """Join the intervals of a node to longer ones."""
        rows = self._db.rows(
            "SELECT device, key, at / ? * ? AS at, sum(seconds) AS seconds, sum(integral) AS integral, min(low) AS low,"
            " max(high) AS high FROM usage WHERE run_id = ? AND node = ? GROUP BY device, key, at / ?",
            (step, step, run_id, node, step),
        )
        self._db.execute("DELETE FROM usage WHERE run_id = ? AND node = ?", (run_id, node))
        self._db.execute_many(
            "INSERT INTO usage (run_id, node, device, key, at, seconds, integral, low, high)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(run_id, node, *tuple(row)) for row in rows],
        )

    def summaries(self, run_id: str) -> list[UsageSummary]:
        """Return mean and peak of each system metric of a run, by node and GPU."""
        rows = self._db.rows(
            "SELECT key, node, device, sum(integral) AS total, sum(seconds) AS seconds, max(high) AS peak FROM usage"
            " WHERE run_id = ? GROUP BY node, device, key",
            (run_id,),
        )
        found = [
            UsageSummary(
                key=row["key"],
                node=row["node"],
                device=row["device"],
                mean=row["total"] / row["seconds"],
                peak=row["peak"],
                total=row["total"],
                seconds=row["seconds"],
            )
            for row in rows
        ]
        return sorted(found, key=lambda one: (one.node, _number(one.device), one.key))

    def curves(self, run_id: str, keys: Sequence[str], *, nodes: int, points: int = MOST) -> list[UsageCurve]:
        """Return system metrics of a run's first nodes over time.

        Args:
            points: about so many of each curve at most: intervals are joined to longer ones.
        """
        known = self._db.rows(
            "SELECT step, first, (SELECT max(at) FROM usage AS u WHERE u.run_id = n.run_id AND u.node = n.node"
            " AND u.device = '' AND u.key = ?) AS last FROM usage_nodes AS n WHERE run_id = ? AND node < ?",
            (keys[0], run_id, nodes),
        )
        if not known:
            return []
        step = max(int(row["step"]) for row in known)
        longest = max((row["last"] or row["first"]) - row["first"] for row in known)
        stretch = step * max(1, -(-(longest // step + 1) // points))
        marks = ",".join("?" * len(keys))
        rows = self._db.rows(
            "SELECT key, node, device, avg(at) AS at, sum(integral) / sum(seconds) AS mean FROM usage"  # noqa: S608 - marks
            f" WHERE run_id = ? AND node < ? AND key IN ({marks}) GROUP BY node, device, key, at / ?",
            (run_id, nodes, *keys, stretch),
        )
        found: dict[tuple[int, str, str], list[tuple[float, float]]] = {}
        for row in rows:
            curve = found.setdefault((row["node"], row["device"], row["key"]), [])
            curve.append((row["at"] + step / 2, row["mean"]))
        return [
            UsageCurve(key=key, node=node, device=device, points=tuple(curve))
            for (node, device, key), curve in sorted(
                found.items(), key=lambda item: (item[0][0], _number(item[0][1]))
            )
        ]

    def intervals(
        self, keys: Sequence[str], *, grain: int, since: float, until: float, runs: Sequence[str] | None
    ) -> list[UsageInterval]:
        """Return system metrics in intervals of *grain* seconds that begin in a time span.

        Those that are kept in longer intervals have these.

        Args:
            runs: the ids of the runs; None for all of them.
        """
        marks = ",".join("?" * len(keys))
        chosen = "" if runs is None else f" AND run_id IN ({','.join('?' * len(runs))})"
        rows = self._db.rows(
            "SELECT run_id, node, device, key, at / ? * ? AS at, sum(seconds) AS seconds,"  # noqa: S608 - marks
            " sum(integral) AS integral, min(low) AS low, max(high) AS high FROM usage"
            f" WHERE key IN ({marks}) AND at >= ? AND at < ?{chosen} GROUP BY run_id, node, device, key, at / ?",
            (grain, grain, *keys, int(since // grain) * grain, until, *(runs or ()), grain),
        )
        return [UsageInterval(**dict(row)) for row in rows]


def _number(device: str) -> int:
    """Return the place of a device in lists: the node itself comes first."""
    number = whole(device)
    return -1 if number is None else number


def step_for(first: int, until: float, *, least: int) -> int:
    """Return the length of intervals of which `MOST` reach from *first* to *until*."""
    return next((step for step in STEPS if step >= least and (until - first) / step < MOST - 1), STEPS[-1])


def spread(since: float, until: float, step: int) -> Iterator[tuple[int, float]]:
    """Yield the intervals between two times: the beginning of each, and its seconds."""
    at = int(since // step) * step
    while at < until:
        seconds = min(until, at + step) - max(since, at)
        if seconds > 0:
            yield at, seconds
        at += step
