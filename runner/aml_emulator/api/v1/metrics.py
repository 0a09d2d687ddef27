"""The metric service of azureml-core, ``/metric/v2.0``.

A number that is logged under a separate name is a value of that metric, as MLflow's are. Text, rows, tables and
values in artifacts have no such place, and are stored as they came.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from aml_emulator.api.routing import Call, Route
from aml_emulator.api.run_shapes import run_of
from aml_emulator.api.shapes import iso
from aml_emulator.context import Context
from aml_emulator.domain import InvalidError, NotFoundError
from aml_emulator.schema import OBJECT, TEXT, WHOLE, WORD, WORDS, Fields, ListOf
from aml_emulator.store import LIST, Metric, MetricRow, Run

SCALAR = "azureml.v1.scalar"
NUMBERS = frozenset({"double", "float", "int", "long"})
PAGE = 1000


VALUE = Fields({"data": OBJECT, "metricId": WORD, "createdUtc": WORD, "step": WHOLE})
VALUES = Fields(
    {"name": TEXT, "columns": WORDS, "properties": Fields({"uxMetricType": WORD}), "value": ListOf(VALUE)}
)


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of metrics."""
    metrics = Metrics(context)
    base = "/metric/v2.0{WS}/runs/{run}"
    return (
        Route(method="POST", path=f"{base}/batch", handler=metrics.log),
        Route(method="POST", path=f"{base}/list", handler=metrics.list),
        Route(method="POST", path=f"{base}/full", handler=metrics.full),
    )


class Metrics:
    """Answers for metrics."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def log(self, call: Call) -> dict[str, Any]:
        """Add values; one that was sent before, by its id, counts once."""
        run = run_of(self._context, call)
        rows = [
            row
            for metric in call.json(Fields({"values": ListOf(VALUES)}), not_finite=True).get("values") or ()
            for row in _rows(metric)
        ]
        store = self._context.store
        with store.transaction():
            numbers = [row for row in store.v1.add_rows(run.id, map(_kept, rows)) if row.data is None]
            values = {row.metric_id: (row.data or {}).get(row.name, math.nan) for row in rows}
            count = {name: len(self._numbers(run, name)) for name in {row.name for row in numbers}}
            metrics = []
            for row in numbers:
                # As on the axis of AzureML's charts: without steps, values are counted.
                step = count[row.name] if row.step is None else row.step
                count[row.name] += 1
                fraction, timestamp = math.modf(_moment(row.created).timestamp() * 1000)
                value = float(values[row.metric_id])
                metrics.append(
                    Metric(key=row.name, value=value, timestamp=int(timestamp), step=step, fraction=fraction)
                )
            store.metrics.log(run.id, metrics)
            # azureml-core sends several batches at a time: one that was logged first may arrive last.
            for name in {row.name for row in numbers if row.step is None}:
                store.metrics.recount(run.id, name)
        return {"errors": []}

    def list(self, call: Call) -> dict[str, Any]:
        """Return the names of a run's metrics, and of what columns each is."""
        run = run_of(self._context, call)
        numbers = [metric.key for metric in self._context.store.metrics.latest(run.id)]
        names = dict.fromkeys([*numbers, *self._context.store.v1.row_names(run.id)])
        return {
            "value": [
                {
                    "metricKey": {"name": name, "metricNamespace": None, "labels": None, "labelFilters": []},
                    **self._described(run, name),
                }
                for name in names
            ],
            "continuationToken": None,
        }

    def full(self, call: Call) -> dict[str, Any]:
        """Return every value of a metric, in the order in which they were logged."""
        run = run_of(self._context, call)
        body = call.json(Fields({"metricName": WORD, "startTime": WORD, "endTime": WORD}))
        name = str(body.get("metricName") or "")
        described = self._described(run, name)
        begin, end = body.get("startTime"), body.get("endTime")
        values = [
            value
            for value in self._values(run, name)
            if not (begin and _moment(value["createdUtc"]) < _moment(begin))
            and not (end and _moment(value["createdUtc"]) > _moment(end))
        ]
        return {
            "dataContainerId": f"dcid.{run.id}",
            "name": name,
            **described,
            "continuationToken": None,
            "value": values,
        }

    def _described(self, run: Run, name: str) -> dict[str, Any]:
        """Return the columns of a metric, and what it is.

        Raises:
            ServiceError: 404 where nothing was logged under this name.
        """
        rows = self._context.store.v1.rows(run.id, name)
        if rows:
            columns = {key: type_ for row in rows for key, type_ in row.columns.items()}
            return {"columns": columns, "properties": {"uxMetricType": rows[0].kind, "dataLocation": None}}
        if not self._numbers(run, name):
            raise NotFoundError(f"metric '{name}' of run '{run.id}'")
        kind = LIST if name in self._context.store.v1.lists(run.id) else SCALAR
        return {"columns": {name: "Double"}, "properties": {"uxMetricType": kind, "dataLocation": None}}

    def _values(self, run: Run, name: str) -> Sequence[dict[str, Any]]:
        rows: list[dict[str, Any]] = [
            {
                "metricId": row.metric_id,
                "createdUtc": row.created,
                "step": row.step or 0,
                "data": {key: _shown(value) for key, value in (row.data or {}).items()},
            }
            for row in self._context.store.v1.rows(run.id, name)
        ]
        if rows and name not in rows[0]["data"]:
            return rows
        numbers = [
            {
                "metricId": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{run.uuid}/{name}/{number}")),
                "createdUtc": iso(metric.timestamp / 1000),
                "step": metric.step,
                "data": {name: _shown(metric.value)},
            }
            for number, metric in enumerate(self._numbers(run, name))
        ]
        return sorted([*rows, *numbers], key=lambda value: _moment(value["createdUtc"])) if rows else numbers

    def _numbers(self, run: Run, name: str) -> Sequence[Metric]:
        """Return a metric's numbers in the order of logging, not of arrival."""
        found: list[Metric] = []
        after: int | None = 0
        while after is not None:
            page, after = self._context.store.metrics.history(run.id, name, limit=PAGE, after=after)
            found += page
        return sorted(found, key=lambda metric: metric.timestamp + metric.fraction)


def _rows(metric: Mapping[str, Any]) -> Iterable[MetricRow]:
    """Yield the values of one metric of a batch.

    Raises:
        ServiceError: 400 for what is none.
    """
    name = metric.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidError("A metric has a name.")
    columns = {str(key): str(type_) for key, type_ in (metric.get("columns") or {}).items()}
    kind = (metric.get("properties") or {}).get("uxMetricType") or SCALAR
    for value in metric.get("value") or ():
        data = value.get("data")
        if not isinstance(data, dict):
            raise InvalidError(f"A value of the metric '{name}' has no data.")
        yield MetricRow(
            metric_id=str(value.get("metricId") or uuid.uuid4()),
            name=name,
            kind=str(kind),
            columns=columns,
            created=str(value.get("createdUtc") or datetime.now(UTC).isoformat()),
            step=None if value.get("step") is None else int(value["step"]),
            data=data,
        )


def _kept(row: MetricRow) -> MetricRow:
    """Return a value as stored next to the numbers: a number without its value."""
    data = row.data or {}
    number = data.get(row.name)
    plain = (
        set(data) == {row.name} and row.kind in (SCALAR, LIST) and row.columns.get(row.name, "").lower() in NUMBERS
    )
    if not plain or isinstance(number, bool) or not isinstance(number, int | float) or _is_inexact(number):
        return row
    return replace(row, data=None)


def _is_inexact(number: float) -> bool:
    """Return whether an integer is not the same as a floating-point number."""
    return isinstance(number, int) and abs(number) > 2**53


def _shown(value: Any) -> Any:
    """Return a value as JSON: NaN and infinities by name, as the service answers."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _moment(text: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise InvalidError(f"Not a time: '{text}'") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
