"""Curves of metrics over steps: drawn in letters for a terminal. A leaf; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

History = Sequence[tuple[int, float]]
"""(step, value), in any order; of one step, the last one counts."""

#: Beyond this, neither SVG nor a difference of two values makes sense.
GREATEST: Final = 1e300
_ROWS: Final = 8
_COLUMNS: Final = 64
_FEWEST: Final = 24
_SIGNS: Final = ("●", "○")
_BOTH: Final = "◉"


def by_step(history: History) -> dict[int, float]:
    """Return the points of *history* that can be drawn.

    One finite value a step, in order.
    """
    kept = {step: value for step, value in history if math.isfinite(value) and abs(value) < GREATEST}
    return dict(sorted(kept.items()))


def columns_of(points: Mapping[int, float], first: int, last: int, count: int) -> list[list[float]]:
    """Return the values of each of *count* columns: of its steps, or between them.

    No step is left out, so that the lowest and the highest value are among them.

    Args:
        points: step → value, in the order of the steps; see :func:`by_step`.
        first, last: the steps of the first and the last column.
        count: two at least.
    """
    found: list[list[float]] = [[] for _ in range(count)]
    before: tuple[int, float] | None = None
    for step, value in points.items():
        column = round((step - first) / (last - first) * (count - 1))
        if before is not None:
            start, begun = before
            for between in range(start + 1, column):
                share = (between - start) / (column - start)
                found[between].append(begun * (1 - share) + value * share)
        found[column].append(value)
        before = column, value
    return found


def plot(left: History, right: History) -> list[str]:
    """Return both curves as lines of text on one scale.

    Empty if neither has two steps.

    The left curve is drawn with ``●``, the right one with ``○``, and ``◉`` if both are there.
    """
    sides = (by_step(left), by_step(right))
    if max(map(len, sides)) < 2:
        return []
    first, last = min(step for side in sides for step in side), max(step for side in sides for step in side)
    columns = min(_COLUMNS, max(_FEWEST, last - first + 1))
    known = [value for side in sides for value in side.values()]
    low, high = min(known), max(known)
    rows = [[" "] * columns for _ in range(_ROWS)]
    for sign, side in zip(_SIGNS, sides, strict=True):
        for column, values in enumerate(columns_of(side, first, last, columns)):
            for row in {_row(value, low, high) for value in values}:
                rows[row][column] = sign if rows[row][column] == " " else _BOTH
    labels = [""] * _ROWS
    labels[_row(high, low, high)], labels[_row(low, low, high)] = f"{high:.6g}", f"{low:.6g}"
    width = max(map(len, labels))
    lines = [f"{label.rjust(width)} ┤{''.join(row)}".rstrip() for label, row in zip(labels, rows, strict=True)]
    begin, end = str(first), str(last)
    ends = f"{begin}{end.rjust(max(columns - len(begin), len(end) + 1))}"
    return [*lines, f"{' ' * width} └{'─' * columns}", f"{' ' * width}  {ends}"]


def _row(value: float, low: float, high: float) -> int:
    """Return the row from above.

    No difference overflows: values are below :data:`GREATEST`.
    """
    return _ROWS // 2 if high == low else round((high - value) / (high - low) * (_ROWS - 1))
