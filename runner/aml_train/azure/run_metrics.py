"""Read what azureml-core logged in its own forms, from the metrics of run history.

The requests are those of azureml-core 1.61's ``Run.get_metrics`` (``_restclient/metrics_client.py``, ``operations/metric_operations.py``): the
names, then the values of one name after the other. Jobs that log by MLflow have names of numbers alone: their values are not read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, Final
from urllib.parse import quote

from aml_train.azure.http import AzureHttp
from aml_train.core.answers import Answer, Pages, clean
from aml_train.gate import LIST, NUMBERS, SCALAR, TABLE, Logged, LoggedRow, LoggedSet, in_order, may_mean

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
    found: list[Answer] = []
    body: dict[str, Any] = {}
    pages: Pages | None = None
    for _ in range(_MOST_PAGES):
        page = _post(rest, job, "list", body, f"Listing what the job {job} logged")
        if page is None:
            return found
        found += page.each("value")
        token = page.optional_text("continuationToken")
        if not token:
            break
        pages = pages or Pages(page.fail, _MOST_PAGES + 1)
        body = {"continuationToken": pages.follow(token)}
    return found


def _values(rest: AzureHttp, job: str, item: Answer, *, most: int) -> Logged | None:
    """Return the values of one name, at most so many rows; None if it is gone."""
    name, rows, whole = _name(item), [], False
    body: dict[str, Any] = {"metricName": name}
    types = item.texts("columns")
    pages: Pages | None = None
    for _ in range(_MOST_PAGES):
        page = _post(rest, job, "full", body, f"Reading the metric {name}")
        if page is None:
            return None
        types |= page.texts("columns")
        rows += [_row(value) for value in page.each("value")]
        if len(rows) > most:
            break
        token = page.optional_text("continuationToken")
        if not token:
            whole = True
            break
        pages = pages or Pages(page.fail, _MOST_PAGES + 1)
        body = {"metricName": name, "continuationToken": pages.follow(token)}
    return Logged(name=name, kind=_kind(item), columns=types, rows=in_order(rows)[:most], whole=whole)


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


def _post(rest: AzureHttp, job: str, verb: str, body: object, what: str) -> Answer | None:
    """Send a question, which changes nothing; None for 404."""
    return rest.ask("POST", rest.metrics(f"/runs/{quote(job)}/{verb}"), what, body=body)
