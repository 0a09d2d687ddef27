"""The layout of charts for the template's SVG. Pure.

Lengths are units of the view box.

A chart has the curves of the job, of its baseline and of further jobs over steps, and the limits of the gate as lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.report.series import GREATEST, by_step
from aml_train.report.values import Curve

WIDTH: Final = 400.0
HEIGHT: Final = 230.0
LEFT: Final = 62.0
RIGHT: Final = 12.0
TOP: Final = 12.0
BOTTOM: Final = 36.0
COLOURS: Final = 6
"""Colours of lines; further lines begin again."""

_TICKS: Final = 5
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_DOTS: Final = 40
"""A curve of at most so many points shows each as a dot."""

_ROWS: Final = 24
"""Rows of the table that has the values of a chart."""

_DECADES: Final = 3.0
"""Positive values over more powers of ten than this are drawn on a logarithmic scale."""

_FINEST: Final = 1e-9
_LIMITS: Final = 4


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A label of an axis at a position."""

    at: float
    label: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """A drawn curve.

    Attributes:
        title: whose it is.
        role: ``job``, ``baseline`` or ``other``.
        colour: its number among :data:`COLOURS`.
        path: the curve, as an SVG path.
        dots: the points themselves, if they are few.
        last: the last value, for the legend.
    """

    title: str
    role: str
    colour: int
    path: str
    dots: tuple[tuple[float, float], ...]
    last: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A metric's chart.

    Attributes:
        head, rows: the values as a table, thinned, also for readers who do not see the chart.
        logarithmic: whether the vertical axis is.
    """

    metric: str
    lines: tuple[Line, ...]
    limits: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    logarithmic: bool
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM


def draw(curve: Curve) -> Chart | None:
    """Return the chart of a metric; None if no point can be drawn."""
    known = [(one, points) for one in curve.series if (points := by_step(one.points))]
    if not known:
        return None
    limits = [one for one in dict.fromkeys(curve.limits) if math.isfinite(one) and abs(one) < GREATEST][:_LIMITS]
    values = [value for _, points in known for value in points.values()] + limits
    steps = [step for _, points in known for step in points]
    logarithmic = is_logarithmic(values)
    x_low, x_high = _widened(min(steps), max(steps))
    y_ticks = decades(min(values), max(values)) if logarithmic else ticks(min(values), max(values))
    down = _Scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP, logarithmic=logarithmic)
    across = _Scale(x_low, x_high, LEFT, WIDTH - RIGHT)
    x_ticks = [one for one in ticks(x_low, x_high, whole=True) if x_low <= one <= x_high]
    lines = []
    for number, (one, points) in enumerate(known):
        placed = tuple((across(step), down(value)) for step, value in points.items())
        lines.append(
            Line(
                title=one.title,
                role=one.role,
                colour=number % COLOURS,
                path=_path(placed),
                dots=placed if len(placed) <= _DOTS else (),
                last=text(next(reversed(points.values()))),
            )
        )
    return Chart(
        metric=curve.metric,
        lines=tuple(lines),
        limits=tuple(Tick(at=down(one), label=text(one)) for one in limits),
        x_ticks=tuple(Tick(at=across(one), label=label) for one, label in zip(x_ticks, labels(x_ticks), strict=True)),
        y_ticks=tuple(Tick(at=down(one), label=label) for one, label in zip(y_ticks, labels(y_ticks), strict=True)),
        logarithmic=logarithmic,
        head=("step", *(one.title for one, _ in known)),
        rows=_table([points for _, points in known]),
    )


def is_logarithmic(values: Sequence[float]) -> bool:
    """Return whether *values* are drawn on a logarithmic scale."""
    low, high = min(values), max(values)
    return low > 1e-290 and math.log10(high) - math.log10(low) > _DECADES


def decades(low: float, high: float) -> list[float]:
    """Return powers of ten around two positive values; at most eight."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((last - first) / 7))
    last = first + math.ceil((last - first) / every) * every
    return [10.0**power for power in range(max(first, -300), min(last, 300) + 1, every)]


def ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Return round numbers around *low* and *high*, in order.

    Args:
        low: finite.
        high: finite, not below *low*.
        whole: whether only integers make sense.
    """
    low, high = _widened(low, high)
    largest, span = max(abs(low), abs(high)), high - low
    if not math.isfinite(span) or span < largest * _FINEST or span < 1e-290:
        # There are no round numbers in between: floats run out of digits, or of range.
        return [low, high]
    raw = span / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in _STEPS if power * factor >= raw * 0.999)
    if whole:
        step = max(1.0, float(math.ceil(step)))
    return [number * step for number in range(math.floor(low / step), math.ceil(high / step) + 1)]


def labels(values: Sequence[float]) -> list[str]:
    """Return the numbers of an axis with as few digits as distinguish them."""
    found: list[str] = []
    for digits in range(3, 17):
        found = [text(value, digits=digits) for value in values]
        if len(set(found)) == len(found):
            break
    return found


def text(value: float, *, digits: int = 5) -> str:
    """Return a number with at most so many significant digits; small integers whole."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.{digits}g}"


class _Scale:
    """Maps values to positions, on a linear or logarithmic scale."""

    def __init__(self, low: float, high: float, at_low: float, at_high: float, *, logarithmic: bool = False) -> None:
        self._logarithmic = logarithmic
        self._low, self._high = self._of(low), self._of(high)
        self._at_low, self._at_high = at_low, at_high

    def _of(self, value: float) -> float:
        return math.log10(value) if self._logarithmic else value

    def __call__(self, value: float) -> float:
        # Halves first: the difference of two large numbers may be infinite.
        span = self._high / 2 - self._low / 2
        share = (self._of(value) / 2 - self._low / 2) / span
        return round(self._at_low + share * (self._at_high - self._at_low), 1)


def _widened(low: float, high: float) -> tuple[float, float]:
    """Return a range that is not empty."""
    if high / 2 > low / 2:  # halves of the smallest numbers are zero
        return low, high
    margin = abs(low) * 0.1 or 1.0
    return low - margin, low + margin


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Return the line through *points*; a single point is a line of no length."""
    first, *others = points
    return f"M{first[0]:g} {first[1]:g}" + "".join(f"L{x:g} {y:g}" for x, y in others or [first])


def _table(lines: Sequence[Mapping[int, float]]) -> tuple[tuple[str, ...], ...]:
    steps = sorted({step for points in lines for step in points})
    if len(steps) > _ROWS:
        steps = [steps[round(place * (len(steps) - 1) / (_ROWS - 1))] for place in range(_ROWS)]
    return tuple((str(step), *(text(points[step]) if step in points else "" for points in lines)) for step in steps)
