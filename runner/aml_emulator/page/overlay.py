"""The layout of one metric's curves of several runs, for the template's SVG.

Pure; lengths are view box units, those of a single curve's chart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aml_emulator.page.charts import (
    BOTTOM,
    DOTS,
    HEIGHT,
    LEFT,
    LONG,
    RIGHT,
    TOP,
    WIDTH,
    Tick,
    curve_path,
    labels,
    text,
    ticks,
    widened,
)
from aml_emulator.store import Series

SMOOTHEST: Final = 0.99
DECADES: Final = 6
"""A logarithmic axis labels at most about so many powers of ten."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """A run's curve: *number* is the run's place in the comparison, from 0."""

    number: int
    title: str
    series: Series


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A drawn curve.

    Attributes:
        path: as an SVG path; empty if there is nothing to draw.
        raw: the curve before it was smoothed, empty without smoothing.
        dots: the points themselves, where they are few.
    """

    number: int
    title: str
    path: str
    raw: str
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """The curves of one metric.

    Attributes:
        summary: the chart in a sentence, for those who do not see it.
        notes: what is not drawn, and why.
    """

    key: str
    x_label: str
    curves: tuple[Curve, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    summary: str
    notes: tuple[str, ...]

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM


def smoothed(series: Series, weight: float) -> Series:
    """Return a curve's exponential moving average.

    Args:
        weight: of what came before, from 0 for the curve itself to below 1. The first values are not pulled towards 0.
    """
    if weight <= 0:
        return series
    points, mean, total = [], 0.0, 0.0
    for x, y in series.points:
        mean, total = mean * weight + y * (1 - weight), total * weight + (1 - weight)
        points.append((x, mean / total))
    return replace(series, points=tuple(point for point in points if math.isfinite(point[1])))


def draw_overlay(key: str, given: Sequence[Given], *, logarithmic: bool = False, smoothing: float = 0.0) -> Overlay:
    """Return the chart of a metric.

    Args:
        given: the curves; their positions are of one kind.
        logarithmic: whether powers of ten are equally far apart; values that are not above 0 are not drawn then.
        smoothing: the weight of `smoothed`.
    """
    before = [positive(one.series) if logarithmic else one.series for one in given]
    shown = [(one, smoothed(series, smoothing)) for one, series in zip(given, before, strict=True)]
    xs = [x for _, series in shown for x, _ in series.points] or [0.0]
    ys = [y for _, series in shown for _, y in series.points]
    x_low, x_high = widened(min(xs), max(xs))
    marks, place = _vertical(ys, logarithmic=logarithmic)

    def across(x: float) -> float:
        return round(LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT), 2)

    by_step = all(one.series.by_step for one in given)
    inside = [at for at in ticks(x_low, x_high, whole=by_step) if x_low <= at <= x_high]

    def path(series: Series, odd: Sequence[float]) -> tuple[tuple[tuple[float, float], ...], str]:
        placed = tuple((across(x), place(y)) for x, y in series.points)
        return placed, curve_path(placed, sorted(across(x) for x in odd))

    curves = []
    for (one, series), unsmoothed in zip(shown, before, strict=True):
        odd = [x for x, _ in one.series.odd] + [x for x, y in one.series.points if logarithmic and y <= 0]
        # Positions outside the axes interrupt nothing.
        gaps = [x for x in odd if x_low <= x <= x_high]
        points, line = path(series, gaps)
        raw = ""
        if smoothing > 0:
            low, high = (min(ys), max(ys)) if ys else (0.0, 0.0)
            # The axis is that of the smoothed curves; peaks beyond it are cut off.
            cut = replace(unsmoothed, points=tuple((x, min(max(y, low), high)) for x, y in unsmoothed.points))
            raw = path(cut, gaps)[1]
        curves.append(
            Curve(
                number=one.number,
                title=one.title,
                path=line,
                raw=raw,
                dots=points if len(points) <= DOTS and not smoothing else (),
            )
        )
    return Overlay(
        key=key,
        x_label="step" if by_step else "seconds after the first value",
        curves=tuple(curves),
        x_ticks=tuple(Tick(at=across(at), label=label) for at, label in zip(inside, labels(inside), strict=True)),
        y_ticks=tuple(
            Tick(at=place(at), label=label, squeezed=LEFT - 10 if len(label) > LONG else None)
            for at, label in zip(marks, labels(marks), strict=True)
        ),
        summary=_summary(given),
        notes=tuple(_notes(given, logarithmic=logarithmic)),
    )


def positive(series: Series) -> Series:
    """Return a curve without the values that are not above 0."""
    return replace(series, points=tuple(point for point in series.points if point[1] > 0))


def _vertical(ys: Sequence[float], *, logarithmic: bool) -> tuple[list[float], Callable[[float], float]]:
    """Return the labelled values of the vertical axis, and what places a value on it."""
    low, high = (min(ys), max(ys)) if ys else (0.1 if logarithmic else 0.0, 1.0)
    if logarithmic:
        marks = _powers(low, high)
        bottom, top = math.log10(marks[0]), math.log10(marks[-1])

        def place(y: float) -> float:
            return _down((math.log10(y) - bottom) / (top - bottom))

        return marks, place
    marks = ticks(low, high)
    # Halves first: the difference of two large numbers may be infinite.
    span = marks[-1] / 2 - marks[0] / 2
    return marks, lambda y: _down((y / 2 - marks[0] / 2) / span)


def _down(part: float) -> float:
    return round(HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM), 2)


def _powers(low: float, high: float) -> list[float]:
    """Return labelled values around positive numbers, both included."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    last = max(last, first + 1)
    every = max(1, -(-(last - first) // DECADES))
    powers = [*range(first, last, every), last]
    # The ends of the range of doubles.
    return [
        math.ldexp(1, -1074) if power < -323 else 1.7976931348623157e308 if power > 308 else 10.0**power
        for power in powers
    ]


def _summary(given: Sequence[Given]) -> str:
    parts = [
        f"{one.title} from {text(points[0][1])} to {text(points[-1][1])},"
        f" lowest {text(min(y for _, y in points))}, highest {text(max(y for _, y in points))}"
        for one in given
        if (points := one.series.points)
    ]
    return "; ".join(parts) + "." if parts else "No run has a finite value."


def _notes(given: Sequence[Given], *, logarithmic: bool) -> Iterator[str]:
    for one in given:
        low = sum(1 for _, y in one.series.points if y <= 0) if logarithmic else 0
        if one.series.odd_count:
            yield f"{one.title}: {one.series.odd_count} values are no finite numbers."
        if low:
            yield f"{one.title}: {low} values are not above 0, and have no place on a logarithmic axis."
    if any(one.series.thinned for one in given):
        yield "Thinned: of each stretch of a long curve, the lowest and the highest value are drawn."
