"""Rows, tables, lists and texts that azureml-core logs, and series in them. Pure.

Rules can name these series of numbers.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aml_train.core.tables import MOST_COLUMNS, MOST_ROWS, MOST_TABLES, Table, TableKind, text
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


#: Bytes of a file that is shown as a table.
MOST_BYTES: Final = 1 << 20
_ARTIFACT: Final = "aml://artifactId/"


def file_of(metric: Logged, job: str) -> str | None:
    """Return the file of *job* that has the metric; None for none, or another run's."""
    if metric.kind in INLINE or not metric.rows:
        return None
    place = metric.rows[0].data.get(metric.name)
    if not isinstance(place, str) or not place.startswith(_ARTIFACT):
        return None
    path = place.removeprefix(_ARTIFACT)
    if metric.kind == "azureml.v1.image":
        # azureml-core: "v1 image artifacts have the following incorrect form: aml://artifactId/{path}".
        return path
    origin = f"ExperimentRun/dcid.{job}/"
    if not path.startswith(origin):
        return None
    inner = path.removeprefix(origin)
    return inner.removeprefix("outputs/") if metric.kind.startswith("azureml.v1.") else inner


def is_json(metric: Logged) -> bool:
    """Return whether the file of a metric may be a table."""
    return _word(metric) in _SHAPES


def tables_of(found: LoggedSet, job: str, contents: Mapping[str, bytes | None]) -> tuple[tuple[Table, ...], int]:
    """Return what was logged as tables, the first ones, and how many more there are.

    Args:
        found: what was logged.
        job: the job's name.
        contents: the files that were read, by path; None for one that is not there.
    """
    shown = [table for metric in found.metrics if (table := _table(metric, job, contents)) is not None]
    return tuple(shown[:MOST_TABLES]), max(0, len(shown) - MOST_TABLES) + len(found.left)


def _table(metric: Logged, job: str, contents: Mapping[str, bytes | None]) -> Table | None:
    if not metric.rows or not metric.columns:
        return None
    if metric.kind == TABLE:
        rows = [[row.data.get(column) for column in metric.columns] for row in metric.rows]
        return _cut(metric.name, "table", list(metric.columns), rows, note=_unread(metric))
    if metric.kind in INLINE:
        return _list(metric) or _texts(metric)
    return _file(metric, job, contents)


def _unread(metric: Logged) -> str:
    return "" if metric.whole else f"only the first {len(metric.rows)} rows were read"


def _cut(name: str, kind: TableKind, head: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> Table:
    return Table(
        name=name,
        kind=kind,
        head=tuple(text(title) for title in head[:MOST_COLUMNS]),
        rows=tuple(tuple(text(cell) for cell in row[:MOST_COLUMNS]) for row in rows[:MOST_ROWS]),
        total=len(rows),
        columns=len(head),
        note=note,
    )


def _list(metric: Logged) -> Table | None:
    """Return the summary of a list of numbers; None where it is none."""
    type_ = metric.columns.get(metric.name, "")
    try:
        values = [number(row.data.get(metric.name), type_) for row in metric.rows]
    except ValueError:
        return None
    if metric.kind != LIST and len(values) == 1:
        return None
    finite = [value for value in values if not math.isnan(value)]
    odd = len(values) - len(finite)
    note = "; ".join(part for part in (f"{odd} of them NaN" if odd else "", _unread(metric)) if part)
    low, high = (text(min(finite)), text(max(finite))) if finite else ("NaN", "NaN")
    return Table(
        name=metric.name,
        kind="list",
        head=("values", "min", "max", "last"),
        rows=((str(len(values)), low, high, text(values[-1])),),
        total=1,
        columns=4,
        note=note,
    )


def _texts(metric: Logged) -> Table:
    values = [row.data.get(metric.name) for row in metric.rows]
    if len(values) == 1:
        return Table(name=metric.name, kind="text", rows=((text(values[0]),),))
    return _cut(metric.name, "table", [metric.name], [[value] for value in values], note=_unread(metric))


def _file(metric: Logged, job: str, contents: Mapping[str, bytes | None]) -> Table:
    path = file_of(metric, job)
    if path is None:
        return Table(name=metric.name, kind="file", rows=((text(metric.rows[0].data.get(metric.name)),),))
    plain = Table(name=metric.name, kind="file", rows=((text(path),),))
    if not is_json(metric) or path not in contents:
        return plain
    note = "" if len(metric.rows) == 1 else f"the first of {len(metric.rows)} that were logged"
    try:
        return _shaped(metric, contents[path], note)
    except ValueError as error:
        return Table(name=metric.name, kind="file", rows=plain.rows, note=str(error))


def _shaped(metric: Logged, content: bytes | None, note: str) -> Table:
    """Return the table in a file.

    Raises:
        ValueError: there is none; the message says why.
    """
    word = _word(metric)
    if content is None:
        raise ValueError("the file is not there")
    if len(content) > MOST_BYTES:
        raise ValueError(f"the file has more than {MOST_BYTES >> 20} MiB")
    try:
        data = json.loads(content)["data"]
        kind, head, rows = _SHAPES[word](data)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise ValueError(f"the file is no {word.replace('_', ' ')}") from error
    return _cut(metric.name, kind, head, rows, note=note)


def _word(metric: Logged) -> str:
    return metric.kind.rpartition(".")[2]


_Shape = tuple[TableKind, Sequence[str], Sequence[Sequence[Any]]]


def _matrix(data: Mapping[str, Any]) -> _Shape:
    """Rows are the actual classes, columns the predicted ones, as in scikit-learn."""
    labels, matrix = list(data["class_labels"]), list(data["matrix"])
    if len(matrix) != len(labels) or any(not isinstance(row, list) or len(row) != len(labels) for row in matrix):
        raise ValueError("not square")
    rows = [[label, *row] for label, row in zip(labels, matrix, strict=True)]
    return "matrix", ["actual ╲ predicted", *(text(label) for label in labels)], rows


def _accuracy(data: Mapping[str, Any]) -> _Shape:
    rows = [
        [label, threshold, *counts[:4]]
        for label, table in zip(data["class_labels"], data["probability_tables"], strict=True)
        for threshold, counts in zip(data["probability_thresholds"], table, strict=True)
    ]
    return "table", ("class", "threshold", "TP", "FP", "TN", "FN"), rows


def _residuals(data: Mapping[str, Any]) -> _Shape:
    edges, counts = data["bin_edges"], data["bin_counts"]
    rows = [[low, high, count] for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)]
    return "table", ("from", "to", "residuals"), rows


def _predictions(data: Mapping[str, Any]) -> _Shape:
    edges = data["bin_edges"]
    columns = (edges[:-1], edges[1:], data["bin_averages"], data["bin_errors"], data["bin_counts"])
    return "table", ("from", "to", "average", "error", "count"), [list(row) for row in zip(*columns, strict=True)]


_SHAPES: Final[Mapping[str, Callable[[Mapping[str, Any]], _Shape]]] = {
    "confusion_matrix": _matrix,
    "accuracy_table": _accuracy,
    "residuals": _residuals,
    "predictions": _predictions,
}
