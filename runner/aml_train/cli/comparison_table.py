"""A comparison as lines of text: columns as wide as they must be. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from aml_train.core.comparison import Comparison

_WIDEST: Final = 60


def table(
    comparison: Comparison, *, head: Sequence[str], shown: Callable[[str], str], most: int | None = None
) -> list[str]:
    """Return the rows as lines, numbers to the right.

    Args:
        comparison: the two sides.
        head: the titles of the four columns.
        shown: makes foreign text harmless.
        most: at most so many metrics; None for all. How many are left out is said.
    """
    rows = comparison.rows()
    metrics = [row for row in rows if row.kind == "metric"]
    left_out = 0 if most is None else max(0, len(metrics) - most)
    kept = [row for row in rows if row.kind != "metric"] + metrics[: len(metrics) - left_out]
    cells = [tuple(head)]
    cells += [tuple(cell(shown(text)) for text in (row.name, row.left, row.right, row.difference)) for row in kept]
    numbers = [False] + [row.kind == "metric" for row in kept]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    lines = []
    for line, number in zip(cells, numbers, strict=True):
        places = [
            text.rjust(width) if number and column in (1, 2) else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(places).rstrip())
    if left_out:
        lines.append(f"and {left_out} more metrics")
    return lines


def cell(text: str) -> str:
    """Return *text* on one line, cut in its middle where it is too wide: both ends of an address say something."""
    line = " ".join(text.split())
    if len(line) <= _WIDEST:
        return line
    return f"{line[: _WIDEST // 2]}…{line[1 - _WIDEST // 2 :]}"
