"""The parallel coordinates of trials or runs, for the template's SVG.

Pure; lengths are pixels. Each parameter has an axis and the metric the last one; each trial is a line through its values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aml_emulator.page.charts import Tick, labels, text, ticks

APART: Final = 150.0
LEFT: Final = 70.0
RIGHT: Final = 60.0
TOP: Final = 34.0
HEIGHT: Final = 300.0
BOTTOM: Final = 280.0

AXES: Final = 12
"""At most so many hyperparameters are drawn; the table has all."""

LABELS: Final = 16
"""At most so many choices of an axis are labelled."""

LONG: Final = 14
"""A longer label is cut."""

BANDS: Final = 5
"""Lines are drawn in so many shades, by the rank of their metric."""

LARGEST_POWER: Final = 308.0
"""Of ten, as a double."""

Value = str | float | int | bool


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial's line.

    Attributes:
        values: by the names of the hyperparameters.
        score: the best value of the primary metric; None without one.
        kind: of its line, in place of the band of its rank.
    """

    title: str
    values: Mapping[str, Value]
    score: float | None
    best: bool = False
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The kind of an axis.

    Attributes:
        choices: what may be chosen, in its order; None for numbers.
        logarithmic: whether powers are equally far apart.
    """

    name: str
    choices: tuple[Value, ...] | None = None
    logarithmic: bool = False


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A drawn axis."""

    name: str
    label: str
    x: float
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A drawn trial.

    *kind* is ``best``, ``none`` without a metric, or the band of its rank from 0.
    """

    path: str
    kind: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """The drawing.

    Attributes:
        left_out: how many hyperparameters are not drawn.
    """

    axes: tuple[Axis, ...]
    lines: tuple[Line, ...]
    width: float
    left_out: int
    summary: str

    height, top, bottom = HEIGHT, TOP, BOTTOM


def draw_parallel(
    scales: Sequence[Scale], metric: str, trials: Sequence[Trial], *, maximize: bool, noun: str = "trials"
) -> Parallel:
    """Return the drawing of trials.

    Args:
        scales: of the hyperparameters.
        metric: the primary metric's name.
        maximize: whether higher scores are better.
        noun: what the trials are called.
    """
    shown = scales[:AXES]
    columns = [[trial.values.get(scale.name) for trial in trials] for scale in shown]
    columns.append([trial.score for trial in trials])
    axes, heights = [], []
    for number, (scale, column) in enumerate(zip([*shown, Scale(name=metric)], columns, strict=True)):
        place, marks = _axis(scale, column)
        x = LEFT + number * APART
        axes.append(Axis(name=scale.name, label=_cut(scale.name), x=x, ticks=marks))
        heights.append([None if value is None else place(value) for value in column])
    bands = _bands(trials, maximize=maximize)
    lines = [
        Line(
            path=_path([(axis.x, column[number]) for axis, column in zip(axes, heights, strict=True)]),
            kind=trial.kind or ("best" if trial.best else bands[number]),
            title=trial.title,
        )
        for number, trial in enumerate(trials)
    ]
    # The best one is drawn last, on top of the others.
    lines.sort(key=lambda line: line.kind == "best")
    return Parallel(
        axes=tuple(axes),
        lines=tuple(line for line in lines if line.path),
        width=LEFT + (len(axes) - 1) * APART + RIGHT,
        left_out=max(0, len(scales) - AXES),
        summary=_summary(trials, metric, noun),
    )


def _axis(scale: Scale, column: Sequence[Value | None]) -> tuple[Callable[[Value], float | None], tuple[Tick, ...]]:
    """Return the height of each value on an axis, and its labels."""
    if scale.choices is not None:
        return _chosen(scale.choices)
    numbers = [number for value in column if (number := _number(value)) is not None]
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    if scale.logarithmic and low > 0:
        powers = ticks(math.log10(low), math.log10(high))
        marks = [10.0 ** min(power, LARGEST_POWER) for power in powers]
        return _measured(powers[0], powers[-1], math.log10), _ticks(powers, marks)
    marks = ticks(low, high)
    return _measured(marks[0], marks[-1], float), _ticks(marks, marks)


def _chosen(choices: tuple[Value, ...]) -> tuple[Callable[[Value], float | None], tuple[Tick, ...]]:
    places = {_key(choice): _height((number + 0.5) / len(choices)) for number, choice in enumerate(choices)}
    every = -(-len(choices) // LABELS)
    marks = tuple(Tick(at=places[_key(choice)], label=_cut(_shown(choice))) for choice in choices[::every])
    return (lambda value: places.get(_key(value))), marks


def _measured(low: float, high: float, scaled: Callable[[float], float]) -> Callable[[Value], float | None]:
    # Halves first: the difference of two large numbers may be infinite.
    span = high / 2 - low / 2

    def place(value: Value) -> float | None:
        number = _number(value)
        return None if number is None else _height((scaled(number) / 2 - low / 2) / span)

    return place


def _ticks(places: Sequence[float], marks: Sequence[float]) -> tuple[Tick, ...]:
    low, span = places[0], places[-1] / 2 - places[0] / 2
    return tuple(
        Tick(at=_height((place / 2 - low / 2) / span), label=label)
        for place, label in zip(places, labels(marks), strict=True)
    )


def _height(share: float) -> float:
    return round(BOTTOM - min(1.0, max(0.0, share)) * (BOTTOM - TOP), 1)


def _key(value: Value) -> str:
    """Return the key of a choice: 1, True and "1" are three."""
    return f"{type(value).__name__}:{value}"


def _number(value: Value | None) -> float | None:
    """Return a finite number; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _bands(trials: Sequence[Trial], *, maximize: bool) -> list[str]:
    """Return the shade of each trial by its rank, ``0`` for the best fifth."""
    scores = {number: score for number, trial in enumerate(trials) if (score := _number(trial.score)) is not None}
    order = sorted(scores, key=lambda number: scores[number], reverse=maximize)
    ranks = {number: str(place * BANDS // len(order)) for place, number in enumerate(order)}
    return [ranks.get(number, "none") for number in range(len(trials))]


def _path(points: Sequence[tuple[float, float | None]]) -> str:
    """Return the line through the points that there are; a missing one interrupts it."""
    parts: list[str] = []
    drawing = False
    for x, y in points:
        if y is not None:
            parts.append(f"{'L' if drawing else 'M'}{x:g} {y:g}")
        drawing = y is not None
    return "".join(parts) if len(parts) > 1 else ""


def _summary(trials: Sequence[Trial], metric: str, noun: str) -> str:
    best = next((trial for trial in trials if trial.best), None)
    said = f"{len(trials)} {noun}"
    if best is None or best.score is None:
        return f"{said}."
    values = ", ".join(f"{name} {_shown(value)}" for name, value in best.values.items())
    return f"{said}; the best has {metric} {text(best.score)} with {values}."


def _shown(value: Value) -> str:
    number = _number(value)
    return str(value) if number is None else text(number)


def _cut(label: str) -> str:
    return label if len(label) <= LONG else f"{label[: LONG - 1]}…"
