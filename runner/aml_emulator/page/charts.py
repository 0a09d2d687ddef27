"""The layout of a chart, for the templates' SVG. Pure; lengths are view box units."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aml_emulator.store.browse import LARGEST, Series

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
class Given:
    """A curve to draw: *number* is its run's place in the comparison, from 0."""

    number: int
    title: str
    series: Series


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A label of an axis: its position, its text, and a long text's squeezed length."""

    at: float
    label: str
    squeezed: float | None = None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A drawn curve.

    Attributes:
        path: as an SVG path; empty without finite values.
        dots: the points themselves, where they are few.
    """

    number: int
    title: str
    path: str
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One metric's chart, with a curve for each run.

    Attributes:
        summary: the chart in a sentence, for those who do not see it.
        notes: what is not drawn.
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


def draw(key: str, given: Sequence[Given]) -> Chart:
    """Return the chart of a metric; the positions of all curves are of one kind."""
    by_step = all(one.series.by_step for one in given)
    xs = [x for one in given for x, _ in (*one.series.points, *one.series.odd)]
    ys = [y for one in given for _, y in one.series.points]
    x_low, x_high = widened(min(xs), max(xs))
    y_ticks = ticks(min(ys, default=0.0), max(ys, default=1.0))
    y_low = y_ticks[0]
    # Halves first: the difference of two large numbers may be infinite.
    y_span = y_ticks[-1] / 2 - y_low / 2

    def across(x: float) -> float:
        return round(LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT), 2)

    def down(y: float) -> float:
        return round(HEIGHT - BOTTOM - (y / 2 - y_low / 2) / y_span * (HEIGHT - TOP - BOTTOM), 2)

    def curve(one: Given) -> Curve:
        placed = tuple((across(x), down(y)) for x, y in one.series.points)
        gaps = sorted(across(x) for x, _ in one.series.odd)
        dots = placed if len(placed) <= DOTS else ()
        return Curve(number=one.number, title=one.title, path=curve_path(placed, gaps), dots=dots)

    inside = [at for at in ticks(x_low, x_high, whole=by_step) if x_low <= at <= x_high]
    return Chart(
        key=key,
        x_label="step" if by_step else "seconds after the first value",
        curves=tuple(curve(one) for one in given),
        x_ticks=tuple(Tick(at=across(at), label=label) for at, label in zip(inside, labels(inside), strict=True)),
        y_ticks=tuple(
            Tick(at=down(at), label=label, squeezed=LEFT - 10 if len(label) > LONG else None)
            for at, label in zip(y_ticks, labels(y_ticks), strict=True)
        ),
        summary=" ".join(_summary(one) for one in given),
        notes=tuple(_notes(given)),
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


def _summary(one: Given) -> str:
    series = one.series
    many = f"{one.title}: {series.count} value" + ("s" if series.count != 1 else "")
    if not series.points:
        return f"{many}, none of them a finite number."
    values = [y for _, y in series.points]
    return f"{many}, from {text(values[0])} to {text(values[-1])}, lowest {text(min(values))}, highest {text(max(values))}."


def _notes(given: Sequence[Given]) -> Iterator[str]:
    for one in given:
        series, unit = one.series, "step" if one.series.by_step else "second"
        if series.odd_count:
            shown = [f"{text(value)} at {unit} {text(x)}" for x, value in series.odd[:ODD_SHOWN]]
            more = series.odd_count - len(shown)
            said = ", ".join(shown) + (f", and {more} more" if more > 0 else "")
            yield f"No finite numbers of {one.title}: {said}."
    if any(one.series.thinned for one in given):
        yield "Thinned: of each stretch of a long curve, the lowest and the highest value are drawn."
