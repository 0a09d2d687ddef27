"""azureml-core's texts, tables, confusion matrices and files, for a run's page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from azure.core.exceptions import ResourceNotFoundError

from aml_emulator.context import Context
from aml_emulator.store import MetricRow, Run

NAMES = 20
"""Of which the values are shown."""

ROWS = 20
"""Of one table, and columns."""

CHARACTERS = 200
"""Of one value."""

FILE_BYTES = 1024 * 1024
"""The most that is read of a confusion matrix."""

_ARTIFACT = "aml://artifactId/"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One name of a run's logged values.

    *path* is a file of the run, *value* the one value of a text; otherwise there are *rows* below *head*, of *total* and of *columns*.

    Of a confusion matrix, *labelled*, the first column has the actual classes. The file of a *picture* was logged as one.
    """

    name: str
    value: str = ""
    path: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    total: int = 1
    columns: int = 0
    labelled: bool = False
    picture: bool = False


def logged_of(context: Context, run: Run) -> tuple[list[Shown], int]:
    """Return what is shown, and how many other names there are."""
    names = context.store.v1.row_names(run.id)
    found = []
    for name in names[:NAMES]:
        rows, total = context.store.v1.first_rows(run.id, name, limit=ROWS)
        found.append(_shown(context, run, name, rows, total))
    return found, max(0, len(names) - NAMES)


def _shown(context: Context, run: Run, name: str, rows: Sequence[MetricRow], total: int) -> Shown:
    path = _path(context, run, name, rows[0])
    if path:
        grid = _matrix(context, run, path) if str(rows[0].kind).endswith(".confusion_matrix") else None
        if grid is not None:
            return _cut(name, ["actual ╲ predicted", *grid[0]], grid[1], len(grid[1]), path=path, labelled=True)
        return Shown(name=name, path=path, picture=str(rows[0].kind).endswith(".image"))
    columns = list(dict.fromkeys(column for row in rows for column in row.columns))
    values = [[(row.data or {}).get(column) for column in columns] for row in rows]
    if columns == [name] and total == 1:
        return Shown(name=name, value=_text(values[0][0]))
    return _cut(name, columns, values, total)


def _cut(
    name: str,
    head: Sequence[Any],
    rows: Sequence[Sequence[Any]],
    total: int,
    *,
    path: str = "",
    labelled: bool = False,
) -> Shown:
    return Shown(
        name=name,
        path=path,
        head=tuple(_text(title) for title in head[:ROWS]),
        rows=tuple(tuple(_text(cell) for cell in row[:ROWS]) for row in rows[:ROWS]),
        total=total,
        columns=len(head),
        labelled=labelled,
    )


def _path(context: Context, run: Run, name: str, row: MetricRow) -> str:
    """Return the file of the run that holds a value, empty for none of this run."""
    place = (row.data or {}).get(name)
    own = f"{_ARTIFACT}{context.files_of(run).prefix}/"
    return place.removeprefix(own) if isinstance(place, str) and place.startswith(own) else ""


def _matrix(context: Context, run: Run, path: str) -> tuple[list[str], list[list[Any]]] | None:
    """Return labels and rows of a confusion matrix, or None for another shape."""
    folder = context.files_of(run)
    try:
        content = context.blobs.read_range(folder.container, folder.name_of(path), 0, FILE_BYTES + 1)
        data = json.loads(content)["data"] if len(content) <= FILE_BYTES else {}
        labels, matrix = [str(label) for label in data["class_labels"]], [list(row) for row in data["matrix"]]
    except (ResourceNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if len(matrix) != len(labels) or any(len(row) != len(labels) for row in matrix):
        return None
    return labels, [[label, *row] for label, row in zip(labels, matrix, strict=True)]


def _text(value: Any) -> str:
    """Return a value of JSON as a short line."""
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    line = f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())
    return line if len(line) <= CHARACTERS else line[: CHARACTERS - 1] + "…"
