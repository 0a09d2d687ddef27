"""The metric service of azureml-core, ``/metric/v2.0``."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aml_emulator.api.routing import Answers, Call, Route
from aml_emulator.api.run_shapes import run_of
from aml_emulator.api.shapes import listed
from aml_emulator.context import Context
from aml_emulator.domain.errors import InvalidError
from aml_emulator.domain.metrics import SCALAR, kind_of_values, log_values, value_names, values_of
from aml_emulator.schema import OBJECT, TEXT, WHOLE, WORD, WORDS, Fields, ListOf
from aml_emulator.store.runs import Run
from aml_emulator.store.v1 import MetricRow

VALUE = Fields({"data": OBJECT, "metricId": WORD, "createdUtc": WORD, "step": WHOLE})
VALUES = Fields(
    {"name": TEXT, "columns": WORDS, "properties": Fields({"uxMetricType": WORD}), "value": ListOf(VALUE)}
)


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of metrics."""
    metrics = Metrics(context)
    base = "/metric/v2.0{WS}/runs/{run}"
    return (
        Route("POST", f"{base}/batch", metrics.log),
        Route("POST", f"{base}/list", metrics.list),
        Route("POST", f"{base}/full", metrics.full),
        Route("POST", f"{base}/lastvalues", metrics.last),
    )


class Metrics(Answers):
    """Answers for metrics."""

    def log(self, call: Call) -> dict[str, Any]:
        """Add values; one that was sent before, by its id, counts once."""
        given = call.json(Fields({"values": ListOf(VALUES)}), not_finite=True).get("values") or ()
        rows = [row for metric in given for row in _rows(metric)]
        with self._context.store.transaction():
            log_values(self._context, run_of(self._context, call), rows)
        return {"errors": []}

    def list(self, call: Call) -> dict[str, Any]:
        """Return the names of a run's metrics, and of what columns each is."""
        run = run_of(self._context, call)
        return listed(
            [
                {
                    "metricKey": {"name": name, "metricNamespace": None, "labels": None, "labelFilters": []},
                    **self._described(run, name),
                }
                for name in value_names(self._context, run)
            ]
        )

    def full(self, call: Call) -> dict[str, Any]:
        """Return every value of a metric, in the order in which they were logged."""
        run = run_of(self._context, call)
        body = call.json(Fields({"metricName": WORD, "startTime": WORD, "endTime": WORD}))
        name = str(body.get("metricName") or "")
        rows = values_of(self._context, run, name, since=body.get("startTime"), until=body.get("endTime"))
        return {**self._metric(run, name, rows), "continuationToken": None}

    def last(self, call: Call) -> dict[str, Any]:
        """Return the last value of every metric of a run."""
        run = run_of(self._context, call)
        found = []
        for name in value_names(self._context, run):
            rows = values_of(self._context, run, name, since=None, until=None)
            shown = self._metric(run, name, rows[-1:])
            found.append({**shown, "namespace": None, "standardSchemaId": None})
        return {"value": found}

    def _metric(self, run: Run, name: str, rows: Iterable[MetricRow]) -> dict[str, Any]:
        """Return a metric with these values."""
        return {
            "dataContainerId": f"dcid.{run.id}",
            "name": name,
            **self._described(run, name),
            "value": [
                {
                    "metricId": row.metric_id,
                    "createdUtc": row.created,
                    "step": row.step or 0,
                    "data": {key: _shown(value) for key, value in (row.data or {}).items()},
                }
                for row in rows
            ],
        }

    def _described(self, run: Run, name: str) -> dict[str, Any]:
        columns, kind = kind_of_values(self._context, run, name)
        return {"columns": columns, "properties": {"uxMetricType": kind, "dataLocation": None}}


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


def _shown(value: Any) -> Any:
    """Return a value as JSON: NaN and infinities by name, as the service answers."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
