"""Pieces of GitHub's Markdown: foreign text without markup, tables, charts. Pure."""

from __future__ import annotations

import bisect
import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from aml_train.core.events import GraphNode, NodeChanged
from aml_train.core.text import harmless, lines_of
from aml_train.report.series import GREATEST, by_step
from aml_train.report.values import Table

#: Every sign of ASCII that Markdown, HTML or GitHub (links, mentions, issue numbers) may give a meaning.
_SIGNS: Final = re.compile(r"[!-/:-@\[-`{-~]")
_NOT_A_LABEL: Final = re.compile(r"[^A-Za-z0-9 _./()-]")
#: Points of a chart.
_POINTS: Final = 60


def escape(text: str, *, most: int = 500) -> str:
    """Return *text* as one line of Markdown that shows it literally, cut if long."""
    line = " ".join(lines_of(text))
    if len(line) > most:
        line = line[:most] + "…"
    return _SIGNS.sub(lambda match: f"&#{ord(match[0])};", line)


def code(text: str, *, most: int = 500) -> str:
    """Return *text* in the type of code, also inside a table."""
    return f"<code>{escape(text, most=most)}</code>"


def block(text: str, *, most: int) -> str:
    """Return several lines literally, as a block of HTML; a long text keeps its end."""
    lines = "\n".join(lines_of(text))
    shown = "…" + lines[-most:] if len(lines) > most else lines
    # As entities, so that the whole block is one line of Markdown: an empty line could end it.
    return "<pre>" + html.escape(shown, quote=True).replace("\n", "&#10;") + "</pre>"


def label(text: str) -> str:
    """Return *text* as a label of a Mermaid diagram, inside double quotes."""
    return _NOT_A_LABEL.sub("_", harmless(text))[:80] or "_"


_COLOURS: Final = {"Completed": "#1a7f37", "Failed": "#cf222e", "Canceled": "#6e7781", "not run": "#8c959f"}


def flowchart(graph: Sequence[GraphNode], seen: Mapping[str, NodeChanged]) -> str:
    """Return a pipeline as a Mermaid diagram, its nodes coloured by their results.

    Args:
        graph: the nodes and what they need.
        seen: the last status of each.
    """
    ids = {node.name: f"n{number}" for number, node in enumerate(graph)}
    lines = ["```mermaid", "flowchart LR"]
    for node in graph:
        status = seen[node.name].status if node.name in seen else "not run"
        shape = (
            f'["{label(node.name)}"]' if node.environment.split(" ")[0] == "image" else f'(["{label(node.name)}"])'
        )
        kind = status if status in _COLOURS else "Running"
        lines.append(f"  {ids[node.name]}{shape}:::{kind.replace(' ', '')}")
    for node in graph:
        for need in node.needs:
            # A node that needs a pipeline component needs the nodes within it.
            sources = [need] if need in ids else [name for name in ids if name.startswith(f"{need}/")]
            lines += [f"  {ids[source]} --> {ids[node.name]}" for source in sources]
    for status, colour in {**_COLOURS, "Running": "#0969da"}.items():
        lines.append(f"  classDef {status.replace(' ', '')} fill:{colour},color:#fff,stroke:{colour}")
    return "\n".join([*lines, "```"])


# Logged tables


def logged_tables(tables: Sequence[Table]) -> list[str]:
    """Return the tables as Markdown: texts in one, lists in one, then the others."""
    kept = [one for one in tables if one.rows]
    texts = [one for one in kept if one.kind in ("text", "file")]
    lists = [one for one in kept if one.kind == "list"]
    found = []
    if texts:
        rows = [[code(one.name, most=200), escape(one.rows[0][0]), escape(one.more)] for one in texts]
        found.append(_markdown_table(("logged", "value", ""), rows, numbers=False))
    if lists:
        rows = [[code(one.name, most=200), *map(escape, one.rows[0]), escape(one.more)] for one in lists]
        found.append(_markdown_table(("list", *lists[0].head, ""), rows, numbers=True))
    found += [_logged_table(one) for one in kept if one.kind in ("table", "matrix")]
    return found


def _logged_table(table: Table) -> str:
    """Return a table with its name; the first column of a matrix holds the labels."""
    rows = [
        [f"<b>{escape(row[0])}</b>", *map(escape, row[1:])] if table.kind == "matrix" else list(map(escape, row))
        for row in table.rows
    ]
    more = f"\n{escape(table.more)}\n" if table.more else ""
    title = "Confusion matrix " if table.kind == "matrix" else "Table "
    return f"{title}{code(table.name, most=200)}\n\n{_markdown_table(table.head, rows, numbers=table.kind == 'matrix')}{more}"


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool) -> str:
    rule = "|".join("---:" if numbers and place else "---" for place in range(len(head)))
    lines = [f"| {' | '.join(map(escape, head))} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


# Charts: Mermaid's xychart-beta, which GitHub renders


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
