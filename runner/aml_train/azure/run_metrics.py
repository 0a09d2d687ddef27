"""Read what azureml-core logged in its own forms, from the metrics of run history.

The requests are those of azureml-core 1.61's ``Run.get_metrics`` (``_restclient/metrics_client.py``, ``operations/metric_operations.py``): the
names, then the values of one name after the other. Jobs that log by MLflow have names of numbers alone: their values are not read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from aml_train.azure.http import AzureHttp
from aml_train.core.answers import Answer, clean, pages_of
from aml_train.gate.logged import LIST, NUMBERS, SCALAR, TABLE, Logged, LoggedRow, LoggedSet, in_order, may_mean

#: Names of which values are read, and rows of all of them together: what a report can show, and what memory may hold.
_MOST_NAMES: Final = 50
_MOST_ROWS: Final = 100_000
_MOST_PAGES: Final = 200


def read_logged(rest: AzureHttp, job: str, *, known: Collection[str], first: Sequence[str]) -> LoggedSet:
    """See :meth:`aml_train.jobs.workspace.Workspace.logged`."""
    wanted = [item for item in _names(rest, job) if _is_wanted(item, known)]
    wanted.sort(key=lambda item: not any(may_mean(name, _name(item)) for name in first))
    left, metrics = _MOST_ROWS, []
    for item in wanted[:_MOST_NAMES]:
        metric = _values(rest, job, item, most=left)
        if metric is not None:
            metrics.append(metric)
            left -= len(metric.rows)
    return LoggedSet(metrics=tuple(metrics), left=tuple(_name(item) for item in wanted[_MOST_NAMES:]))


def _name(item: Answer) -> str:
    return item.optional_text("metricKey.name") or ""


def _kind(item: Answer) -> str:
    return item.optional_text("properties.uxMetricType") or SCALAR


def _is_wanted(item: Answer, known: Collection[str]) -> bool:
    """Return whether a name is more than numbers that MLflow knows already."""
    name = _name(item)
    if not name:
        return False
    types = {word.lower() for word in item.texts("columns").values()}
    return name not in known or _kind(item) in (LIST, TABLE) or not types <= NUMBERS


def _names(rest: AzureHttp, job: str) -> list[Answer]:
    pages = _pages(rest, job, "list", {}, f"Listing what the job {job} logged")
    return [item for page in pages for item in page.each("value")]


def _values(rest: AzureHttp, job: str, item: Answer, *, most: int) -> Logged | None:
    """Return the values of one name, at most so many rows; None if it is gone."""
    name, rows, last = _name(item), [], None
    types = item.texts("columns")
    for last in _pages(rest, job, "full", {"metricName": name}, f"Reading the metric {name}"):
        types |= last.texts("columns")
        rows += [_row(value) for value in last.each("value")]
        if len(rows) > most:
            break
    if last is None:
        return None
    whole = len(rows) <= most and not last.optional_text("continuationToken")
    return Logged(name=name, kind=_kind(item), columns=types, rows=in_order(rows)[:most], whole=whole)


def _pages(rest: AzureHttp, job: str, verb: str, body: Mapping[str, str], what: str) -> Iterator[Answer]:
    """Send a question, which changes nothing; yield its pages as far as they are read."""
    url = rest.metrics(f"/runs/{quote(job)}/{verb}")

    def ask(token: str | None) -> Answer | None:
        more = {} if token is None else {"continuationToken": token}
        return rest.ask("POST", url, what, body={**body, **more})

    return itertools.islice(pages_of(ask, "continuationToken", _MOST_PAGES + 1), _MOST_PAGES)


def _row(value: Answer) -> LoggedRow:
    return LoggedRow(
        data={key: _plain(cell.value) for key, cell in value.members("data")},
        created=value.optional_text("createdUtc") or "",
        step=value.whole("step"),
    )


def _plain(cell: Any) -> Any:
    """Return NaN by its name, so that two readings compare equal."""
    if isinstance(cell, str):
        return clean(cell)
    return "NaN" if isinstance(cell, float) and math.isnan(cell) else cell
