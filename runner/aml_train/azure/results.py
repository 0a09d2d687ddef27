"""Durations and metrics of listed jobs, and the order of a list. Reads only."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
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


#: Jobs that are read to be sorted by anything but their creation: metrics take a request for each.
_MOST_SORTED: Final = 500
Results = Callable[[Sequence[JobRow]], tuple[list[JobRow], tuple[str, int]]]
"""Reads durations and metrics of jobs, as :func:`read_results` does."""


@dataclass(frozen=True, kw_only=True)
class JobOrder:
    """The order of a list of jobs, and how much of it is wanted.

    Attributes:
        key: one of :data:`SORT_KEYS`, or the name of a metric.
        reverse: the other direction.
        most: at most so many jobs; None for all.
        results: whether durations and metrics are read.
    """

    key: str = "created"
    reverse: bool = False
    most: int | None = None
    results: bool = True

    @property
    def by_results(self) -> bool:
        """Whether the order depends on durations or metrics."""
        return self.key == "duration" or self.key not in SORT_KEYS


def select_rows(found: Iterator[JobRow], order: JobOrder, read: Results) -> tuple[list[JobRow], list[str]]:
    """Return the first jobs in order, with their results; and remarks for people.

    Args:
        found: the wanted jobs, the newest first.
        order: their order.
        read: reads the results.

    Raises:
        InvalidError: the order depends on results that are not read, or on a metric that no job logged.
        ServiceError: the service refuses or does not answer.
    """
    if order.by_results and not order.results:
        raise InvalidError(f"The order by {order.key} needs the jobs' results, which are not read.")
    notes: list[str] = []
    newest = order.key == "created" and not order.reverse
    rows = list(itertools.islice(found, order.most if newest else _MOST_SORTED))
    if not newest and next(found, None) is not None:
        notes.append(f"only the newest {_MOST_SORTED} of these jobs are sorted.")
    if not order.by_results:
        rows = sort_rows(rows, order.key, reverse=order.reverse)[: order.most]
    if order.results:
        rows, (problem, count) = read(rows)
        if count:
            notes.append(f"the results of {count} of the jobs could not be read: {problem}")
    return (sort_rows(rows, order.key, reverse=order.reverse)[: order.most] if order.by_results else rows), notes


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
