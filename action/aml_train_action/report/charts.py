"""Charts of metrics over steps, in Mermaid's xychart-beta, which GitHub renders. Pure."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Final

from aml_train.core.series import GREATEST, by_step
from aml_train_action.report.markdown import label

_POINTS: Final = 60


def chart(
    metric: str,
    history: Sequence[tuple[int, float]],
    limits: Sequence[float] = (),
    baseline: Sequence[tuple[int, float]] = (),
) -> str:
    """Return a chart of one metric, each limit as a level line; nothing where there are not two steps to draw.

    The points of an xychart stand at equal distances: the history is drawn through linear interpolation between its steps. The second
    line is the *baseline*, over the same steps; where it has ended before, it stays at its last value.
    """
    points = by_step(history)
    if len(points) < 2:
        return ""
    steps, values = list(points), list(points.values())
    before = by_step(baseline)
    count = min(_POINTS, steps[-1] - steps[0] + 1, max(len(steps), len(before)) * 4)
    places = [steps[0] + (steps[-1] - steps[0]) * i / (count - 1) for i in range(count)]
    drawn = [_at(steps, values, place) for place in places]
    compared = [_at(list(before), list(before.values()), place) for place in places] if len(before) > 1 else []
    shown = [limit for limit in dict.fromkeys(limits) if math.isfinite(limit) and abs(limit) < GREATEST]
    low, high = min(*drawn, *compared, *shown, drawn[0]), max(*drawn, *compared, *shown, drawn[0])
    pad = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    name = label(metric)
    lines = [
        "```mermaid",
        "xychart-beta",
        f'    title "{name}"',
        f'    x-axis "step" {steps[0]} --> {steps[-1]}',
        f'    y-axis "{name}" {_number(low - pad)} --> {_number(high + pad)}',
        f"    line [{', '.join(map(_number, drawn))}]",
        *([f"    line [{', '.join(map(_number, compared))}]"] if compared else []),
        *(f"    line [{', '.join([_number(limit)] * count)}]" for limit in shown),
        "```",
    ]
    return "\n".join(lines)


def _at(steps: Sequence[int], values: Sequence[float], where: float) -> float:
    index = min(max(bisect.bisect_left(steps, where), 1), len(steps) - 1)
    left, right = steps[index - 1], steps[index]
    share = min(max((where - left) / (right - left), 0.0), 1.0)
    return values[index - 1] * (1 - share) + values[index] * share


def _number(value: float) -> str:
    """Return *value* in plain decimal: the grammar of xychart knows no exponents."""
    if value == 0:
        return "0"
    digits = max(0, min(300, 5 - math.floor(math.log10(abs(value)))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
