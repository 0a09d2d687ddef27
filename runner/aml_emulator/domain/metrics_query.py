"""Queries of system metrics, in the language of Azure Monitor's metrics.

https://learn.microsoft.com/rest/api/monitor/metrics/list: names, a time span, an interval, aggregations, and a filter over dimensions,
which divides the answer by each dimension that it names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.domain.usage import AMOUNTS, SystemMetric
from aml_emulator.store import Store, UsageInterval

GRAINS: Final[Mapping[str, int]] = {
    "PT1M": 60,
    "PT5M": 300,
    "PT15M": 900,
    "PT30M": 1800,
    "PT1H": 3600,
    "PT6H": 21_600,
    "PT12H": 43_200,
    "P1D": 86_400,
}
"""Intervals of Azure Monitor, in seconds."""

AGGREGATIONS: Final = ("average", "minimum", "maximum", "total")
"""The aggregations of these metrics; Azure lists no other ones for them."""

DIMENSIONS: Final = ("runid", "instanceid", "deviceid")
_OTHER_DIMENSIONS: Final = frozenset({"computename", "region", "scenario", "nodeid", "clustername", "rootrunid"})

MINUTE: Final = 60
"""Azure's samples are of a minute: sums are per minute."""

MOST_SERIES: Final = 1000
"""Series in one answer."""

_CLAUSE: Final = re.compile(r"\s*(\w+)\s+eq\s+'([^']*)'\s*(?:(and|or)\s|$)", re.IGNORECASE)
_DURATION: Final = re.compile(r"P(?=.)(?:(\d{1,4})D)?(?:T(?=.)(?:(\d{1,6})H)?(?:(\d{1,8})M)?)?")


@dataclass(frozen=True, kw_only=True)
class UsageQuery:
    """The parameters of a request for system metrics.

    Attributes:
        since, until: seconds since the epoch.
        grain: the interval in seconds.
        aggregations: of :data:`AGGREGATIONS`.
        wanted: for each dimension that divides the answer its values, empty for all.
    """

    metrics: tuple[SystemMetric, ...]
    since: float
    until: float
    grain: int
    aggregations: tuple[str, ...]
    wanted: Mapping[str, frozenset[str]]


@dataclass(frozen=True, kw_only=True)
class UsageSeries:
    """One series of an answer: dimensions, and aggregations by time."""

    dimensions: Mapping[str, str]
    points: Sequence[tuple[float, Mapping[str, float]]]


def usage_query(
    *, names: str, timespan: str, interval: str, aggregation: str, filter_: str, now: float
) -> UsageQuery:
    """Return the query of a request's parameters; empty ones have the defaults.

    Raises:
        InvalidError: one of them is wrong.
        NotSupportedError: a dimension that is not kept here.
    """
    known = {metric.lower(): metric for metric in SystemMetric}
    metrics = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name.lower() not in known:
            raise InvalidError(
                "Failed to find metric configuration for provider: Microsoft.MachineLearningServices, resource Type:"
                f" workspaces, metric: {name}, Valid metrics: {','.join(SystemMetric)}",
                code="BadRequest",
            )
        metrics.append(known[name.lower()])
    if not metrics:
        raise InvalidError("metricnames: name at least one metric.", code="BadRequest")
    grain = GRAINS.get((interval or "PT1M").upper())
    if grain is None:
        raise InvalidError(
            f"interval: '{interval}' is none of the supported time grains: {','.join(GRAINS)}", code="BadRequest"
        )
    since, until = _span(timespan, now)
    return UsageQuery(
        metrics=tuple(dict.fromkeys(metrics)),
        since=since,
        until=until,
        grain=grain,
        aggregations=_aggregations(aggregation),
        wanted=_dimensions(filter_),
    )


def find_usage(store: Store, query: UsageQuery) -> Mapping[SystemMetric, Sequence[UsageSeries]]:
    """Return the series of each metric, as far as something is known."""
    runs = query.wanted.get("runid")
    rows = store.usage.intervals(
        query.metrics, grain=query.grain, since=query.since, until=query.until, runs=sorted(runs) if runs else None
    )
    grouped: dict[SystemMetric, dict[tuple[str, ...], dict[int, list[UsageInterval]]]] = {
        metric: {} for metric in query.metrics
    }
    for row in rows:
        own = {"runid": row.run_id, "instanceid": f"node-{row.node}", "deviceid": row.device}
        if any(values and own[name] not in values for name, values in query.wanted.items()):
            continue
        key = tuple(own[name] for name in query.wanted)
        grouped[SystemMetric(row.key)].setdefault(key, {}).setdefault(row.at, []).append(row)
    return {
        metric: [
            UsageSeries(
                dimensions=dict(zip(query.wanted, key, strict=True)),
                points=[
                    (at, {name: _aggregate(name, metric, parts) for name in query.aggregations})
                    for at, parts in sorted(points.items())
                ],
            )
            for key, points in list(series.items())[:MOST_SERIES]
        ]
        for metric, series in grouped.items()
    }


def _aggregate(name: str, metric: SystemMetric, parts: Sequence[UsageInterval]) -> float:
    """Return an aggregation over the nodes and devices of an interval."""
    unit = MINUTE if metric in AMOUNTS else 1
    total = sum(one.integral for one in parts)
    match name:
        case "minimum":
            return unit * min(one.low for one in parts)
        case "maximum":
            return unit * max(one.high for one in parts)
        case "total":
            return unit * total / MINUTE
        case _:
            return unit * total / sum(one.seconds for one in parts)


def _aggregations(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(part.strip().lower() for part in (text or "Average").split(",") if part.strip()))
    wrong = [one for one in found if one not in AGGREGATIONS]
    if wrong or not found:
        raise InvalidError(
            f"aggregation: '{text}' is none of Average, Minimum, Maximum and Total, which these metrics have.",
            code="BadRequest",
        )
    return found


def _dimensions(text: str) -> dict[str, frozenset[str]]:
    """Return the values of each dimension in a filter; none stand for all."""
    found: dict[str, set[str]] = {}
    at, joined, before = 0, "and", ""
    while at < len(text.rstrip()):
        match = _CLAUSE.match(text, at)
        if match is None or not joined:
            raise InvalidError(
                f"$filter: '{text}' is not of the form A eq 'a1' or A eq 'a2' and B eq '*'", code="BadRequest"
            )
        name, value, word = match[1].lower(), match[2], (match[3] or "").lower()
        if name not in DIMENSIONS:
            if name in _OTHER_DIMENSIONS:
                raise NotSupportedError(f"the dimension '{match[1]}' of system metrics")
            raise InvalidError(f"$filter: these metrics have no dimension '{match[1]}'.", code="BadRequest")
        if (joined == "or") != (name in found) or (joined == "or" and name != before):
            raise InvalidError(
                "$filter: 'or' joins values of one dimension, 'and' joins dimensions.", code="BadRequest"
            )
        found.setdefault(name, set()).add(value)
        at, joined, before = match.end(), word, name
    if text.strip() and joined:
        raise InvalidError(f"$filter: '{text}' ends with '{joined}'", code="BadRequest")
    return {name: frozenset() if "*" in values else frozenset(values) for name, values in found.items()}


def _span(text: str, now: float) -> tuple[float, float]:
    """Return the beginning and end of a time span: two times, or a duration until now."""
    first, separator, last = (text or "PT1H").partition("/")
    if separator:
        since, until = _moment(first), _moment(last)
    else:
        match = _DURATION.fullmatch(first.upper())
        if match is None:
            raise _wrong_span(text)
        days, hours, minutes = (int(part or 0) for part in match.groups())
        since, until = now - 86_400 * days - 3600 * hours - 60 * minutes, now
    if since >= until:
        raise InvalidError(f"timespan: '{text}' ends before it begins.", code="BadRequest")
    return since, until


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise _wrong_span(text) from error


def _wrong_span(text: str) -> InvalidError:
    return InvalidError(
        f"timespan: '{text}' is neither two times in ISO 8601 with a '/' between them nor a duration.",
        code="BadRequest",
    )
