"""Turn what azureml-core logged into tables for people. Pure.

The shapes of matrices, accuracy tables, residuals and predictions are those of azureml-core's own documentation (``Run.log_confusion_matrix``,
``log_accuracy_table``, ``log_residuals``, ``log_predictions``). Other shapes are shown as files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aml_train.core.tables import MOST_COLUMNS, MOST_ROWS, MOST_TABLES, Table, TableKind, text, thinned
from aml_train.gate.logged import INLINE, LIST, TABLE, Logged, LoggedSet, number

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
    steps = [row.step or 0 for row in metric.rows]
    places = steps if any(steps) else range(len(values))
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
        course=thinned(sorted(zip(places, values, strict=True), key=lambda point: point[0])),
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
