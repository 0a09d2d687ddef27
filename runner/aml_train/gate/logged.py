"""Rows, tables, lists and texts that azureml-core logs, and series in them. Pure.

Rules can name these series of numbers.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aml_train.gate.history import MetricPoint

#: Words of azureml-core 1.61 (``azureml/core/_metrics.py``).
SCALAR: Final = "azureml.v1.scalar"
LIST: Final = "azureml.v1.list"
TABLE: Final = "azureml.v1.table"
INLINE: Final = frozenset({SCALAR, LIST, TABLE})
NUMBERS: Final = frozenset({"double", "float", "int", "long"})
_ODD: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True, kw_only=True, slots=True)
class LoggedRow:
    """One value or row: *data* by column, as in JSON.

    *created* is ISO 8601; *step* is None if none was given.
    """

    data: Mapping[str, Any]
    created: str = ""
    step: int | None = None


@dataclass(frozen=True, kw_only=True)
class Logged:
    """Everything that was logged under one name.

    Attributes:
        name: what it was logged as.
        kind: the service's word for what it is, such as ``azureml.v1.table``.
        columns: the service's word for the type of each column, in their order.
        rows: in the order in which they were logged.
        whole: whether these are all rows; there may be more than anybody reads.
    """

    name: str
    kind: str
    columns: Mapping[str, str] = field(default_factory=dict)
    rows: Sequence[LoggedRow] = ()
    whole: bool = True


@dataclass(frozen=True, kw_only=True)
class LoggedSet:
    """The values a job logged that are not MLflow's numbers.

    *left* are names of which nothing was read, because there were too many.
    """

    metrics: tuple[Logged, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The series of numbers in the logged values, and why others are none.

    Both by the name that a rule gives them.
    """

    series: Mapping[str, Sequence[MetricPoint]]
    problems: Mapping[str, str]


def in_order(rows: Iterable[LoggedRow]) -> list[LoggedRow]:
    """Return rows by the time at which they were logged.

    azureml-core sends batches in parallel, and any may arrive first.
    """
    return sorted(rows, key=lambda row: _moment(row.created))


def may_mean(wanted: str, name: str) -> bool:
    """Return whether a rule over *wanted* may mean *name*, or one of its columns."""
    return wanted == name or wanted.startswith(f"{name}.")


def columns_of(found: LoggedSet) -> Columns:
    """Return the series of numbers in what was logged.

    A list and a value that is no metric of MLflow's keep their name. A column of a table or of rows is ``NAME.COLUMN``. A column is a
    series only if each of its rows is a number, and if all rows were read: nothing is judged by a part of itself.
    """
    series: dict[str, Sequence[MetricPoint]] = {}
    problems: dict[str, str] = {}
    seen: set[str] = set()
    for metric in found.metrics:
        if metric.kind not in INLINE:
            problems[metric.name] = "it is in a file of the job; `file` and `pointer` judge a number in it"
            continue
        for column, type_ in metric.columns.items():
            name = f"{metric.name}.{column}" if metric.kind == TABLE else metric.name
            if name in seen:
                series.pop(name, None)
                problems[name] = "two columns of what was logged have this name"
                continue
            seen.add(name)
            try:
                series[name] = _series(metric, column, type_)
            except ValueError as error:
                problems[name] = str(error)
        if metric.kind == TABLE and metric.name not in seen:
            names = ", ".join(f"{metric.name}.{column}" for column in list(metric.columns)[:8])
            problems[metric.name] = f"it is a table, whose columns are {names}"
    for name in found.left:
        problems[name] = "the job logged too much to read all of it"
    # A table may be called as the column of another one is: the name means the column.
    return Columns(series=series, problems={name: why for name, why in problems.items() if name not in series})


def problem_of(name: str, columns: Columns) -> str | None:
    """Return why *name* is no series, if more is known than that it is missing."""
    if name in columns.problems:
        return columns.problems[name]
    # A column that is not there: of which table could it have been?
    table = next((known for known in columns.problems if may_mean(name, known)), None)
    return None if table is None else f"of {table}: {columns.problems[table]}"


def number(value: Any, type_: str) -> float:
    """Return a value of a column of *type_* as a float.

    Raises:
        ValueError: it is no number, or a whole one that a float would round.
    """
    if isinstance(value, str) and value in _ODD and type_.lower() in NUMBERS:
        return _ODD[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("is missing" if value is None else "is no number")  # noqa: TRY004 - of the content
    try:
        found = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if isinstance(value, int) and int(found) != value:
        raise ValueError(f"is a whole number that as a float is {int(found)}")
    return found


def _series(metric: Logged, column: str, type_: str) -> list[MetricPoint]:
    if not metric.whole:
        raise ValueError(f"it has more than the {len(metric.rows)} values that are read")
    # A table has no steps: its rows are counted, as in AzureML's charts.
    stepped = metric.kind != TABLE and any(row.step for row in metric.rows)
    points = []
    for place, row in enumerate(metric.rows):
        try:
            value = number(row.data.get(column), type_)
        except ValueError as error:
            raise ValueError(f"its value {place + 1} of {len(metric.rows)} {error}") from error
        step = (row.step or 0) if stepped else place
        points.append(MetricPoint(step=step, value=value, timestamp=int(_moment(row.created) * 1000)))
    return points


def _moment(text: str) -> float:
    """Return seconds since 1970; 0 for an invalid time, which keeps the order."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp()
