"""The layout of a chart, for the templates' SVG. Pure; lengths are view box units."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass

from aml_emulator.store import LARGEST, Series

WIDTH, HEIGHT = 400.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 16.0, 14.0, 42.0
TICKS = 5
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
DOTS = 60
"""A curve of at most so many points shows each as a dot."""

LONG = 8
"""Longer labels of the vertical axis are squeezed, so that they stay inside."""

EXTREME = 1e290
FINEST = 1e-9
"""Ranges beyond or narrower than these, the latter as a share of the values, are labelled at their ends alone."""

ODD_SHOWN = 6
"""At most so many positions of odd values are written as text."""


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A label of an axis: its position, its text, and a long text's squeezed length."""

    at: float
    label: str
    squeezed: float | None = None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A value that is no finite number, at the edge: ``nan``, ``up`` or ``down``."""

    x: float
    y: float
    kind: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One metric's chart.

    Attributes:
        path: the curve, as an SVG path; empty without finite values.
        dots: the points themselves, where they are few.
        summary: the chart in a sentence, for those who do not see it.
        extremes: its lowest and highest value in short, or empty.
        odd: what there is to say of NaN and infinite values, or empty.
    """

    key: str
    x_label: str
    path: str
    dots: tuple[tuple[float, float], ...]
    marks: tuple[Mark, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    summary: str
    extremes: str
    odd: str
    thinned: bool
    count: int

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM


def draw(series: Series) -> Chart:
    """Return the chart of a metric."""
    xs = [x for x, _ in series.points] + [x for x, _ in series.odd]
    ys = [y for _, y in series.points]
    x_low, x_high = widened(min(xs), max(xs))
    y_ticks = ticks(min(ys, default=0.0), max(ys, default=1.0))
    y_low, y_high = y_ticks[0], y_ticks[-1]
    # Halves first: the difference of two large numbers may be infinite.
    y_span = y_high / 2 - y_low / 2

    def across(x: float) -> float:
        return round(LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT), 2)

    def down(y: float) -> float:
        return round(HEIGHT - BOTTOM - (y / 2 - y_low / 2) / y_span * (HEIGHT - TOP - BOTTOM), 2)

    placed = tuple((across(x), down(y)) for x, y in series.points)
    unit = "step" if series.by_step else "second"
    whole = series.by_step
    inside = [at for at in ticks(x_low, x_high, whole=whole) if x_low <= at <= x_high]
    return Chart(
        key=series.key,
        x_label="step" if series.by_step else "seconds after the first value",
        path=curve_path(placed, sorted(across(x) for x, _ in series.odd)),
        dots=placed if len(placed) <= DOTS else (),
        marks=tuple(_mark(across(x), value, f"{unit} {text(x)}") for x, value in series.odd),
        x_ticks=tuple(Tick(at=across(at), label=label) for at, label in zip(inside, labels(inside), strict=True)),
        y_ticks=tuple(
            Tick(at=down(at), label=label, squeezed=LEFT - 10 if len(label) > LONG else None)
            for at, label in zip(y_ticks, labels(y_ticks), strict=True)
        ),
        summary=_summary(series, unit),
        extremes=f"lowest {text(min(ys))}, highest {text(max(ys))}" if ys else "",
        odd=_odd(series, unit),
        thinned=series.thinned,
        count=series.count,
    )


def ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Return round numbers around *low* and *high*, in order, but for rounding.

    Args:
        low: finite.
        high: finite, not below *low*.
        whole: whether only integers make sense.
    """
    low, high = widened(low, high)
    largest, span = max(abs(low), abs(high)), high - low
    if largest > EXTREME or span < largest * FINEST or span < 1 / EXTREME:
        # If doubles run out of digits or of range, there are no round numbers in between.
        return [low, high]
    raw = span / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((power * factor for factor in STEPS if power * factor >= raw * 0.999), power * 10)
    if whole:
        step = max(1.0, math.ceil(step))
    return [number * step for number in range(math.floor(low / step), math.ceil(high / step) + 1)]


def labels(values: Sequence[float]) -> list[str]:
    """Return the numbers of an axis with as few digits as distinguish them."""
    found: list[str] = []
    for digits in range(3, 17):
        found = [text(value, digits=digits) for value in values]
        if len(set(found)) == len(found):
            break
    return found


def text(value: float, *, digits: int = 4) -> str:
    """Return a number with at most so many significant digits, or its name.

    Small integers are whole; NaN and infinities have names.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.{digits}g}"


def widened(low: float, high: float) -> tuple[float, float]:
    """Return a range that is not empty, and finite."""
    if high > low:
        return low, high
    margin = abs(low) * 0.1 or 1.0
    return max(low - margin, -LARGEST), min(low + margin, LARGEST)


def curve_path(points: Sequence[tuple[float, float]], gaps: Sequence[float]) -> str:
    """Return the curve through *points*, interrupted at the positions in *gaps*."""
    parts: list[str] = []
    alone = False
    for number, (x, y) in enumerate(points):
        before = points[number - 1][0] if number else -math.inf
        at = bisect.bisect_right(gaps, before)
        begins = number == 0 or (at < len(gaps) and gaps[at] < x)
        if begins and alone:
            # A point without a neighbour is a line of no length, which round ends make a dot.
            parts.append(parts[-1].replace("M", "L"))
        parts.append(f"{'M' if begins else 'L'}{x:g} {y:g}")
        alone = begins
    if alone:
        parts.append(parts[-1].replace("M", "L"))
    return " ".join(parts)


def _mark(x: float, value: float, where: str) -> Mark:
    if math.isnan(value):
        return Mark(x=x, y=HEIGHT - BOTTOM, kind="nan", title=f"NaN at {where}")
    if value > 0:
        return Mark(x=x, y=TOP, kind="up", title=f"∞ at {where}")
    return Mark(x=x, y=HEIGHT - BOTTOM, kind="down", title=f"-∞ at {where}")


def _summary(series: Series, unit: str) -> str:
    many = f"{series.count} value" + ("s" if series.count != 1 else "")
    if not series.points:
        return f"{many}, none of them a finite number."
    lowest = min(series.points, key=lambda point: point[1])
    highest = max(series.points, key=lambda point: point[1])
    first, last = series.points[0], series.points[-1]
    said = f"{many}, from {text(first[1])} at {unit} {text(first[0])} to {text(last[1])} at {unit} {text(last[0])};"
    return (
        f"{said} lowest {text(lowest[1])} at {unit} {text(lowest[0])},"
        f" highest {text(highest[1])} at {unit} {text(highest[0])}."
    )


def _odd(series: Series, unit: str) -> str:
    if not series.odd_count:
        return ""
    shown = [f"{text(value)} at {unit} {text(x)}" for x, value in series.odd[:ODD_SHOWN]]
    more = series.odd_count - len(shown)
    return "No finite numbers: " + ", ".join(shown) + (f", and {more} more" if more > 0 else "") + "."
