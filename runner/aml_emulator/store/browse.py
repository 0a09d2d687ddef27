"""Queries of the page: pages of assets, and metrics thinned to drawable curves."""

from __future__ import annotations

from dataclasses import dataclass

from aml_emulator.store.database import Database
from aml_emulator.store.metrics import number_of

DRAWN = 600
"""A curve of more points than these is thinned: of each stretch its lowest and its highest are kept."""

ODD = 200
"""At most so many values that are no finite numbers are listed one by one."""

LARGEST = 1.7976931348623157e308
"""The largest finite double; larger ones are infinite."""


@dataclass(frozen=True, kw_only=True)
class AssetLine:
    """A name in a list of assets: its number of versions, and the newest one."""

    name: str
    versions: int
    newest: str
    created: float


@dataclass(frozen=True, kw_only=True)
class MetricSummary:
    """A metric's number of values, and its last value with the step."""

    key: str
    count: int
    last: float
    step: int


@dataclass(frozen=True, kw_only=True)
class Series:
    """A metric's values for drawing.

    Attributes:
        by_step: whether positions are steps; else they are seconds after the first value.
        points: finite values by position, in order; thinned where there are too many.
        odd: positions of NaN and infinite values, the first of them.
        count: of all values.
        odd_count: of those that are no finite numbers.
    """

    key: str
    by_step: bool
    points: tuple[tuple[float, float], ...]
    odd: tuple[tuple[float, float], ...]
    count: int
    odd_count: int

    @property
    def thinned(self) -> bool:
        """Whether not every finite value is among the points."""
        return len(self.points) < self.count - self.odd_count


class Browse:
    """Reads what the page shows."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def assets(self, kind: str, *, limit: int, offset: int = 0) -> tuple[list[AssetLine], int]:
        """Return a page of asset names, last changed first, and their number in all."""
        total = self._db.number("SELECT count(DISTINCT name) FROM versions WHERE kind = ?", (kind,))
        rows = self._db.rows(
            "SELECT name, count(*) AS versions, version AS newest, created, max(id) AS last FROM versions"
            " WHERE kind = ? GROUP BY name ORDER BY last DESC LIMIT ? OFFSET ?",
            (kind, limit, offset),
        )
        found = [
            AssetLine(name=row["name"], versions=row["versions"], newest=row["newest"], created=row["created"])
            for row in rows
        ]
        return found, total

    def metrics(self, run_id: str) -> list[MetricSummary]:
        """Return a summary of each of a run's metrics, by key, without reading all values."""
        rows = self._db.rows(
            "SELECT g.key, g.n, m.value, m.step FROM"
            " (SELECT key, count(*) AS n, max(id) AS last FROM metrics WHERE run_id = ? GROUP BY key) AS g"
            " JOIN metrics AS m ON m.id = g.last ORDER BY g.key",
            (run_id,),
        )
        return [MetricSummary(key=row["key"], count=row["n"], last=number_of(row), step=row["step"]) for row in rows]

    def series(self, run_id: str, key: str, *, by_time: bool = False) -> Series | None:
        """Return a metric for drawing, or None if the run has no such metric.

        Positions are steps, unless all values have the same one, as they have where a script gives none; then time
        distinguishes them.

        Args:
            by_time: whether positions are times in any case.
        """
        span = self._db.row(
            "SELECT count(*) AS n, min(step) AS low, max(step) AS high, min(timestamp) AS since, max(timestamp) AS till,"
            " count(*) FILTER (WHERE value IS NULL OR abs(value) > ?) AS odd"
            " FROM metrics WHERE run_id = ? AND key = ?",
            (LARGEST, run_id, key),
        )
        if span is None or not span["n"]:
            return None
        by_step = not by_time and (span["low"] != span["high"] or span["n"] == 1)
        column, low, high = (
            ("step", span["low"], span["high"]) if by_step else ("timestamp", span["since"], span["till"])
        )
        finite = "run_id = ? AND key = ? AND abs(value) <= ?"
        if span["n"] - span["odd"] <= DRAWN:
            rows = self._db.rows(
                f"SELECT {column} AS x, value FROM metrics WHERE {finite} ORDER BY x, id",  # noqa: S608 - one of two
                (run_id, key, LARGEST),
            )
        else:
            # With min() and max() SQLite takes the other columns from the row of the extreme:
            # https://www.sqlite.org/lang_select.html#bareagg
            stretch = f"CAST(({column} - ?) * 1.0 / ? AS INTEGER)"
            halves = [
                f"SELECT {column} AS x, {extreme}(value) AS value FROM metrics WHERE {finite} GROUP BY {stretch}"  # noqa: S608
                for extreme in ("min", "max")
            ]
            values = (run_id, key, LARGEST, low, (high - low + 1) / (DRAWN // 2))
            rows = self._db.rows(f"{halves[0]} UNION {halves[1]} ORDER BY x", (*values, *values))
        odd = self._db.rows(
            f"SELECT {column} AS x, value FROM metrics WHERE run_id = ? AND key = ?"  # noqa: S608 - one of two
            " AND (value IS NULL OR abs(value) > ?) ORDER BY x, id LIMIT ?",
            (run_id, key, LARGEST, ODD),
        )
        if not rows and not odd:
            return None  # the run was deleted meanwhile

        def position(x: int) -> float:
            return float(x) if by_step else (x - span["since"]) / 1000

        return Series(
            key=key,
            by_step=by_step,
            points=tuple((position(row["x"]), float(row["value"])) for row in rows),
            odd=tuple((position(row["x"]), number_of(row)) for row in odd),
            count=span["n"],
            odd_count=span["odd"],
        )
