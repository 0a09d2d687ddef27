"""System metrics on a run's page: a line, charts, mean and peak of each node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from aml_emulator.context import Context
from aml_emulator.domain import MEGABYTE, SystemMetric
from aml_emulator.page.charts import BOTTOM, HEIGHT, LEFT, LONG, RIGHT, TOP, WIDTH, Tick, labels, text, ticks
from aml_emulator.page.view import size
from aml_emulator.store import Run, UsageCurve, UsageSummary

LINES: Final = 8
"""Curves in one chart; the stylesheet has so many kinds of lines."""

POINTS: Final = 480
"""Points of all nodes' curves of a metric together."""

NODES: Final = 100
"""Rows of the table of nodes, and of the table of GPUs."""

_UNITS: Final[Mapping[str, str]] = {
    SystemMetric.CPU: "% of the processors",
    SystemMetric.MEMORY_USED: "MiB",
    SystemMetric.GPU: "% of a GPU",
    SystemMetric.GPU_MEMORY_USED: "MiB",
    SystemMetric.DISK_READ: "MiB a second",
    SystemMetric.DISK_WRITTEN: "MiB a second",
    SystemMetric.RECEIVED: "MiB a second",
    SystemMetric.SENT: "MiB a second",
}
"""The metrics that have charts, in their order."""

_ALWAYS: Final = (SystemMetric.CPU, SystemMetric.MEMORY_USED, SystemMetric.GPU, SystemMetric.GPU_MEMORY_USED)
"""Charts that are drawn even if nothing was used."""

_Key = tuple[int, str]
_Summaries = Mapping[_Key, Mapping[str, UsageSummary]]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One node's or GPU's curve, as an SVG path of the kind *number*."""

    path: str
    number: int
    title: str


@dataclass(frozen=True, kw_only=True)
class UsageChart:
    """The chart of one system metric.

    Attributes:
        summary: the chart in a sentence, for those who do not see it.
        left_out: how many curves are not drawn.
    """

    key: str
    unit: str
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    x_label: str
    summary: str
    left_out: int

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM


@dataclass(frozen=True, kw_only=True)
class Monitoring:
    """The use of a machine by a run.

    Attributes:
        line: in short.
        nodes: a row for each node; *gpus* for each GPU. Their first cell is the name.
        left_out: how many nodes and GPUs have no row.
    """

    line: str
    charts: tuple[UsageChart, ...]
    nodes: tuple[tuple[str, ...], ...]
    gpus: tuple[tuple[str, ...], ...]
    left_out: int


def monitoring_of(context: Context, run: Run) -> Monitoring | None:
    """Return what is shown of a run's use, None if it was never sampled."""
    summaries = context.store.usage.summaries(run.id)
    if not summaries:
        return None
    found: dict[_Key, dict[str, UsageSummary]] = {}
    for one in summaries:
        found.setdefault((one.node, one.device), {})[one.key] = one
    drawn = min(LINES, len({node for node, _ in found}))
    curves = context.store.usage.curves(run.id, tuple(_UNITS), nodes=LINES, points=POINTS // drawn)
    many = {
        key: sum(1 for one in summaries if one.key == key)
        for key in _UNITS
        if key in _ALWAYS or any(one.key == key and one.peak > 0 for one in summaries)
    }
    nodes = [key for key in found if not key[1]]
    gpus = [key for key in found if key[1]]
    by_key = {key: [one for one in curves if one.key == key] for key in many}
    return Monitoring(
        line=usage_line(found),
        charts=tuple(_chart(key, by_key[key], many[key]) for key in many if by_key[key]),
        nodes=tuple(_node_row(key, found[key]) for key in nodes[:NODES]),
        gpus=tuple(_gpu_row(key, found[key]) for key in gpus[:NODES]),
        left_out=max(0, len(nodes) - NODES) + max(0, len(gpus) - NODES),
    )


def usage_line(found: _Summaries) -> str:
    """Return a run's use in short.

    For example ``CPU 35 % of 2 cores, memory at most 412.0 MiB of 23.4 GiB``.
    """
    nodes = [found[key] for key in found if not key[1]]
    gpus = [found[key] for key in found if key[1]]
    used, capacity = (
        sum(one[key].mean for one in nodes if key in one)
        for key in (SystemMetric.CPU_USED, SystemMetric.CPU_CAPACITY)
    )
    parts = []
    if capacity:
        where = f" on {len(nodes)} nodes" if len(nodes) > 1 else ""
        cores = text(capacity / 1000)
        parts.append(f"CPU {100 * used / capacity:.0f} % of {cores} core{'' if cores == '1' else 's'}{where}")
    parts += _memory("memory", nodes, SystemMetric.MEMORY_USED, SystemMetric.MEMORY_CAPACITY, each=" of a node")
    busy = [one[SystemMetric.GPU].mean for one in gpus if SystemMetric.GPU in one]
    if busy:
        which = "GPU" if len(busy) == 1 else f"{len(busy)} GPUs"
        parts.append(f"{which} {sum(busy) / len(busy):.0f} %")
    parts += _memory(
        "GPU memory", gpus, SystemMetric.GPU_MEMORY_USED, SystemMetric.GPU_MEMORY_CAPACITY, each=" of a GPU"
    )
    return ", ".join(parts)


def _memory(name: str, found: Sequence[Mapping[str, UsageSummary]], used: str, all_: str, *, each: str) -> list[str]:
    known = [one for one in found if used in one]
    if not known:
        return []
    most = max(known, key=lambda one: one[used].peak)
    limit = f" of {_bytes(most[all_].peak)}" if all_ in most else ""
    return [f"{name} at most {_bytes(most[used].peak)}{limit}{each if len(known) > 1 else ''}"]


def _node_row(key: _Key, found: Mapping[str, UsageSummary]) -> tuple[str, ...]:
    """Return a node's name, and mean, peak or sum of each metric."""
    return (
        _name(key),
        *_pair(found.get(SystemMetric.CPU), lambda value: f"{value:.0f} %"),
        *_pair(found.get(SystemMetric.MEMORY_USED), _bytes),
        *(
            _bytes(found[one].total) if one in found else "—"
            for one in (SystemMetric.DISK_READ, SystemMetric.DISK_WRITTEN, SystemMetric.RECEIVED, SystemMetric.SENT)
        ),
    )


def _gpu_row(key: _Key, found: Mapping[str, UsageSummary]) -> tuple[str, ...]:
    return (
        _name(key),
        *_pair(found.get(SystemMetric.GPU), lambda value: f"{value:.0f} %"),
        *_pair(found.get(SystemMetric.GPU_MEMORY_USED), _bytes),
    )


def _pair(found: UsageSummary | None, shown: Callable[[float], str]) -> tuple[str, str]:
    return ("—", "—") if found is None else (shown(found.mean), shown(found.peak))


def _bytes(megabytes: float) -> str:
    return size(round(megabytes * MEGABYTE))


def _name(key: _Key) -> str:
    """Return a node or a GPU as the studio addresses it: ``node-0/3``."""
    node, device = key
    return f"node-{node}" + (f"/{device}" if device else "")


def _chart(key: str, curves: Sequence[UsageCurve], many: int) -> UsageChart:
    drawn = curves[:LINES]
    first = min(one.points[0][0] for one in drawn)
    span = max(max(one.points[-1][0] for one in drawn) - first, 1.0)
    unit, length = next(one for one in _TIMES if span >= 3 * one[1] or one[1] == 1.0)
    highest = max(value for one in drawn for _, value in one.points)
    y_ticks = ticks(0.0, 100.0 if _UNITS[key].startswith("%") else highest or 1.0)
    x_ticks = [at for at in ticks(0.0, span / length) if at <= span / length]

    def across(seconds: float) -> float:
        return round(LEFT + seconds / span * (WIDTH - LEFT - RIGHT), 2)

    def down(value: float) -> float:
        # Rounding of the engine's counters may exceed all processors by a little.
        share = min(1.0, value / y_ticks[-1])
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 2)

    lines = []
    for number, curve in enumerate(drawn):
        placed = [f"{across(at - first):g} {down(value):g}" for at, value in curve.points]
        # One point is a line of no length, which round ends make a dot.
        path = f"M{placed[0]}L" + "L".join(placed[1:] or placed)
        lines.append(Line(path=path, number=number, title=_name((curve.node, curve.device))))
    return UsageChart(
        key=key,
        unit=_UNITS[key],
        lines=tuple(lines),
        x_ticks=tuple(
            Tick(at=across(at * length), label=label) for at, label in zip(x_ticks, labels(x_ticks), strict=True)
        ),
        y_ticks=tuple(
            Tick(at=down(at), label=label, squeezed=LEFT - 10 if len(label) > LONG else None)
            for at, label in zip(y_ticks, labels(y_ticks), strict=True)
        ),
        x_label=f"{unit} after the start",
        summary=_summary(drawn, _UNITS[key]),
        left_out=many - len(drawn),
    )


_TIMES: Final = (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))


def _summary(curves: Sequence[UsageCurve], unit: str) -> str:
    parts = []
    for key, group in groupby(curves, key=lambda one: (one.node, one.device)):
        values = [value for one in group for _, value in one.points]
        parts.append(f"{_name(key)} from {text(min(values))} to {text(max(values))}")
    return f"In {unit}: {'; '.join(parts)}."
