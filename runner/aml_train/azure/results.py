"""Durations and metrics of listed jobs, and the order of a list. Reads only."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from aml_train.azure.browse import JobRow
from aml_train.azure.workspace import AzureRest
from aml_train.core.errors import InvalidError, ServiceError

#: Jobs whose results are read at the same time, with two requests each.
_AT_ONCE: Final = 8
_TEXTS: Final[dict[str, Callable[[JobRow], str]]] = {
    "name": lambda row: row.name,
    "status": lambda row: row.status.value,
    "experiment": lambda row: row.experiment,
    "compute": lambda row: row.compute,
}
#: What lists are sorted by, besides metrics.
SORT_KEYS: Final = ("created", "duration", *_TEXTS)


def read_results(
    rest: AzureRest, rows: Sequence[JobRow], *, now: datetime.datetime
) -> tuple[list[JobRow], tuple[str, int]]:
    """Return the jobs with their durations and metrics, as far as they can be read.

    Args:
        rest: the workspace.
        rows: the jobs.
        now: the time, for how long a running job has run.

    Returns:
        the jobs in their order; why results of some could not be read, and of how many.
    """

    def read(row: JobRow) -> JobRow | ServiceError:
        if row.status.waiting:
            return row  # it has logged nothing yet
        try:
            return _with_results(rest, row, now)
        except ServiceError as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="results") as pool:
        read_rows = list(pool.map(read, rows))
    problems = [one.message for one in read_rows if isinstance(one, ServiceError)]
    found = [given if isinstance(one, ServiceError) else one for given, one in zip(rows, read_rows, strict=True)]
    return found, (problems[0] if problems else "", len(problems))


def _with_results(rest: AzureRest, row: JobRow, now: datetime.datetime) -> JobRow:
    view = rest.details(row.name)
    ended = view.ended or (None if row.status.terminal else now)
    seconds = max(0.0, (ended - view.started).total_seconds()) if view.started and ended else None
    return replace(row, seconds=seconds, metrics=dict(rest.last_metrics(row.name)))


def sort_rows(rows: Sequence[JobRow], key: str, *, reverse: bool = False) -> list[JobRow]:
    """Return the jobs in order; those without a value come last.

    Times and numbers are in descending order, texts in ascending order; *reverse* turns both round.

    Args:
        rows: the jobs, the newest first.
        key: one of :data:`SORT_KEYS`, or the name of a metric.
        reverse: the other direction.

    Raises:
        InvalidError: none of the jobs logged such a metric.
    """
    if key == "created":
        return list(reversed(rows)) if reverse else list(rows)
    if key in _TEXTS:
        text = _TEXTS[key]
        return sorted(rows, key=lambda row: text(row).lower(), reverse=reverse)
    values = {row.name: row.seconds if key == "duration" else row.metrics.get(key) for row in rows}
    if key != "duration" and rows and not any(value is not None for value in values.values()):
        logged = sorted({name for row in rows for name in row.metrics})
        known = f" Metrics of these jobs are {', '.join(logged[:20])}." if logged else ""
        raise InvalidError(f"--sort {key}: none of the jobs logged it.", hint=f"Or {', '.join(SORT_KEYS)}.{known}")

    def order(row: JobRow) -> tuple[bool, float]:
        value = values[row.name]
        # NaN is in no order with numbers: it is as good as no value.
        if value is None or math.isnan(value):
            return True, 0.0
        return False, value if reverse else -value

    return sorted(rows, key=order)
