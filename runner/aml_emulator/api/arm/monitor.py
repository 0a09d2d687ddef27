"""System metrics of jobs, as Azure Monitor answers them for the workspace.

https://learn.microsoft.com/rest/api/monitor/metrics/list. Azure has no other interface to them: neither run history nor MLflow lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aml_emulator.api.routing import Call, Route
from aml_emulator.context import Context
from aml_emulator.domain import SystemMetric, UsageQuery, UsageSeries, find_usage, usage_query


def routes(context: Context) -> Sequence[Route]:
    """Return the route of metrics."""

    def metrics(call: Call) -> dict[str, Any]:
        """Return system metrics of jobs over a time span, divided as the filter says."""
        query = usage_query(
            names=call.option("metricnames"),
            timespan=call.option("timespan"),
            interval=call.option("interval"),
            aggregation=call.option("aggregation"),
            filter_=call.option("$filter"),
            now=context.clock(),
        )
        found = find_usage(context.store, query)
        resource = context.identity.workspace_arm_id
        return {
            "cost": 0,
            "timespan": f"{_moment(query.since)}/{_moment(query.until)}",
            "interval": (call.option("interval") or "PT1M").upper(),
            "namespace": "Microsoft.MachineLearningServices/workspaces",
            "resourceregion": context.identity.location,
            "value": [_metric(resource, metric, series, query) for metric, series in found.items()],
        }

    return (Route(method="GET", path="{WS}/providers/Microsoft.Insights/metrics", handler=metrics),)


def _metric(resource: str, metric: SystemMetric, found: Sequence[UsageSeries], query: UsageQuery) -> dict[str, Any]:
    return {
        "id": f"{resource}/providers/Microsoft.Insights/metrics/{metric}",
        "type": "Microsoft.Insights/metrics",
        "name": _name(metric),
        "unit": "Count",
        "timeseries": [
            {
                "metadatavalues": [{"name": _name(name), "value": value} for name, value in one.dimensions.items()],
                "data": [{"timeStamp": _moment(at), **values} for at, values in one.points],
            }
            for one in found
        ],
        "errorCode": "Success",
    }


def _name(text: str) -> Mapping[str, str]:
    return {"value": str(text), "localizedValue": str(text)}


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
