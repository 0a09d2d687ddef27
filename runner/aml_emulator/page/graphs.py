"""The layout of a pipeline's graph, for the template's SVG.

Pure; lengths are pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

BOX_WIDTH: Final = 190.0
BOX_HEIGHT: Final = 46.0
ACROSS: Final = 24.0
DOWN: Final = 54.0
MARGIN: Final = 8.0

PER_ROW: Final = 6
"""A layer of more boxes has several rows."""

DRAWN: Final = 300
"""At most so many nodes are drawn; the table has all of them."""

LABEL: Final = 24
"""A longer name is cut."""

SAID: Final = 30
"""A longer second line is cut."""

TURNS: Final = 2
"""How often the boxes of a layer are put below those that they need."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A node of a graph.

    Attributes:
        links: what it reads: a node, that node's output, and the input.
        status: in the words of runs, or that it has not begun.
        run: the id of its run; empty if it has none yet.
        label: what is shown instead of its name; *address* leads to its page.
    """

    name: str
    kind: str
    links: tuple[tuple[str, str, str], ...] = ()
    status: str = ""
    run: str = ""
    reused: bool = False
    label: str = ""
    address: str = ""


@dataclass(frozen=True, kw_only=True)
class Box:
    """A drawn node; *x* and *y* are its upper left corner."""

    step: Step
    label: str
    said: str
    x: float
    y: float

    width, height = BOX_WIDTH, BOX_HEIGHT


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A line from one node to another, its arrow, and what is passed."""

    path: str
    arrow: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A drawn graph.

    Attributes:
        left_out: how many nodes are not drawn.
    """

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float
    left_out: int

    @property
    def summary(self) -> str:
        """The graph in a sentence."""
        return f"{len(self.boxes)} nodes and {len(self.edges)} connections."


def draw_graph(steps: Sequence[Step]) -> Drawing:
    """Return the drawing of a graph.

    Args:
        steps: its nodes, each after those that it reads.
    """
    drawn = {step.name: step for step in steps[:DRAWN]}
    passed = {(source, name): outputs for name, step in drawn.items() for source, outputs in _sources(step, drawn)}
    layers, lanes = _layers(list(drawn), list(passed))
    places = _places(layers, set(drawn))
    boxes = {
        name: Box(
            step=step, label=_cut(step.label or name), said=_said(step), x=places[name][0][0], y=places[name][0][1]
        )
        for name, step in drawn.items()
    }
    edges = tuple(
        _edge(
            boxes[source], boxes[target], [place for lane in lanes[source, target] for place in places[lane]], outputs
        )
        for (source, target), outputs in passed.items()
    )
    return Drawing(
        boxes=tuple(boxes.values()),
        edges=edges,
        width=max((x for rows in places.values() for x, _ in rows), default=0.0) + BOX_WIDTH + MARGIN,
        height=max((y for rows in places.values() for _, y in rows), default=0.0) + BOX_HEIGHT + MARGIN,
        left_out=max(0, len(steps) - DRAWN),
    )


def _sources(step: Step, drawn: Mapping[str, Step]) -> list[tuple[str, list[str]]]:
    """Return the drawn nodes that a node reads, and the outputs that it reads of each."""
    found: dict[str, list[str]] = {}
    for source, output, given in step.links:
        if source in drawn:
            found.setdefault(source, []).append(output if output == given else f"{output} as {given}")
    return list(found.items())


_Pair = tuple[str, str]


def _layers(names: Sequence[str], pairs: Sequence[_Pair]) -> tuple[list[list[str]], dict[_Pair, list[str]]]:
    """Return what is in each layer, and the lanes of each connection.

    A node is below all that it reads. A lane leads a connection through a layer between its ends: it is a place between boxes, so that no line is behind a box.
    """
    above: dict[str, list[str]] = {name: [] for name in names}
    for source, target in pairs:
        above[target].append(source)
    depth: dict[str, int] = {}
    for name in names:
        depth[name] = 1 + max((depth[source] for source in above[name]), default=-1)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, level in depth.items():
        layers[level].append(name)
    lanes: dict[_Pair, list[str]] = {}
    over: dict[str, list[str]] = {}
    under: dict[str, list[str]] = {}
    for source, target in pairs:
        levels = range(depth[source] + 1, depth[target])
        lanes[source, target] = [f"{source}→{target}:{level}" for level in levels]
        for level, lane in zip(levels, lanes[source, target], strict=True):
            layers[level].append(lane)
        way = [source, *lanes[source, target], target]
        for upper, lower in pairwise(way):
            over.setdefault(lower, []).append(upper)
            under.setdefault(upper, []).append(lower)
    for _ in range(TURNS):
        for number in range(1, len(layers)):
            layers[number] = _ordered(layers[number], layers[number - 1], over)
        for number in range(len(layers) - 2, -1, -1):
            layers[number] = _ordered(layers[number], layers[number + 1], under)
    return layers, lanes


def _ordered(layer: Sequence[str], next_to: Sequence[str], near: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a layer in the order of the middle of what each of it is connected to."""
    at = {name: place / max(1, len(row) - 1) for row in (layer, next_to) for place, name in enumerate(row)}

    def middle(name: str) -> float:
        places = [at[other] for other in near.get(name, ())]
        return sum(places) / len(places) if places else at[name]

    return sorted(layer, key=middle)


def _places(layers: Sequence[Sequence[str]], boxes: AbstractSet[str]) -> dict[str, list[tuple[float, float]]]:
    """Return the corner of each box, and a lane's places in its rows.

    Rows are centred.
    """
    rows = [row for layer in layers for row in _rows(layer, boxes)]
    widest = max((_width(row, boxes) for row in rows), default=0.0)
    places: dict[str, list[tuple[float, float]]] = {}
    for number, row in enumerate(rows):
        x = MARGIN + (widest - _width(row, boxes)) / 2
        for name in row:
            places.setdefault(name, []).append((x, MARGIN + number * (BOX_HEIGHT + DOWN)))
            x += (BOX_WIDTH if name in boxes else 0.0) + ACROSS
    return places


def _rows(layer: Sequence[str], boxes: AbstractSet[str]) -> list[list[str]]:
    """Return the rows of a layer.

    If it has too many boxes for one row, the lanes pass each row at its end.
    """
    own = [name for name in layer if name in boxes]
    if len(own) <= PER_ROW:
        return [list(layer)]
    lanes = [name for name in layer if name not in boxes]
    return [[*own[start : start + PER_ROW], *lanes] for start in range(0, len(own), PER_ROW)]


def _width(row: Sequence[str], boxes: AbstractSet[str]) -> float:
    return sum(ACROSS + (BOX_WIDTH if name in boxes else 0.0) for name in row) - ACROSS


def _edge(source: Box, target: Box, lanes: Sequence[tuple[float, float]], outputs: Sequence[str]) -> Edge:
    x, y = source.x + BOX_WIDTH / 2, source.y + BOX_HEIGHT
    end, bottom = target.x + BOX_WIDTH / 2, target.y - 6
    parts = [f"M{x:g} {y:g}"]
    for lane_x, lane_y in lanes:
        parts.append(f"{_bend(x, y, lane_x, lane_y)}V{lane_y + BOX_HEIGHT:g}")
        x, y = lane_x, lane_y + BOX_HEIGHT
    parts.append(_bend(x, y, end, bottom))
    return Edge(
        path="".join(parts),
        arrow=f"M{end - 4:g} {bottom:g}h8l-4 6z",
        title=f"{_shown(source.step)} → {_shown(target.step)}: {', '.join(outputs)}",
    )


def _bend(x: float, y: float, to_x: float, to_y: float) -> str:
    half = min(DOWN, (to_y - y) / 2)
    return f"C{x:g} {y + half:g} {to_x:g} {to_y - half:g} {to_x:g} {to_y:g}"


def _said(step: Step) -> str:
    """Return the second line of a box."""
    kind = [] if step.kind == "command" else [step.kind]
    return _cut(" · ".join(part for part in (*kind, step.status, "reused" if step.reused else "") if part), SAID)


def _shown(step: Step) -> str:
    return step.label or step.name


def _cut(text: str, most: int = LABEL) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
