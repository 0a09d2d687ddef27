"""Mermaid diagrams, which GitHub's Markdown draws: a pipeline, and metrics over steps. Pure."""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Sequence
from typing import Final

from aml_train.core.events import GraphNode
from aml_train.core.text import harmless
from aml_train.report.series import GREATEST, by_step

_NOT_A_LABEL: Final = re.compile(r"[^A-Za-z0-9 _./()-]")
#: Points of a chart.
_POINTS: Final = 60


def label(text: str) -> str:
    """Return *text* as a label of a Mermaid diagram, inside double quotes."""
    return _NOT_A_LABEL.sub("_", harmless(text))[:80] or "_"


_COLOURS: Final = {"Completed": "#1a7f37", "Failed": "#cf222e", "Canceled": "#6e7781", "not run": "#8c959f"}


def flowchart(nodes: Sequence[GraphNode]) -> str:
    """Return a pipeline as a Mermaid diagram, its nodes coloured by their results."""
    ids = {node.name: f"n{number}" for number, node in enumerate(nodes)}
    lines = ["```mermaid", "flowchart LR"]
    for node in nodes:
        status = node.status or "not run"
        ours = node.environment.partition(" ")[0] in ("", "image")
        shape = f'["{label(node.name)}"]' if ours else f'(["{label(node.name)}"])'
        kind = status if status in _COLOURS else "Running"
        lines.append(f"  {ids[node.name]}{shape}:::{kind.replace(' ', '')}")
    for node in nodes:
        for need in node.needs:
            # A node that needs a pipeline component needs the nodes within it.
            sources = [need] if need in ids else [name for name in ids if name.startswith(f"{need}/")]
            lines += [f"  {ids[source]} --> {ids[node.name]}" for source in sources]
    for status, colour in {**_COLOURS, "Running": "#0969da"}.items():
        lines.append(f"  classDef {status.replace(' ', '')} fill:{colour},color:#fff,stroke:{colour}")
    return "\n".join([*lines, "```"])


def chart(
    metric: str,
    history: Sequence[tuple[int, float]],
    limits: Sequence[float] = (),
    baseline: Sequence[tuple[int, float]] = (),
) -> str:
    """Return a chart of a metric with its limits as lines; empty below two steps.

    An xychart has points at equal distances: values between steps are interpolated linearly. The second line is the *baseline* over the
    same steps; after its end it keeps its last value.
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
