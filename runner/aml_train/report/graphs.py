"""The layout of graphs for the template's SVG: nodes of a pipeline, lineages.

Pure; lengths are pixels. The items may come from elsewhere: names that do not exist and circles are drawn as far as they can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from aml_train.report.values import Node, Step

BOX_WIDTH: Final = 168.0
BOX_HEIGHT: Final = 44.0
_ACROSS: Final = 20.0
_DOWN: Final = 44.0
_MARGIN: Final = 6.0
_BULGE: Final = 60.0
"""The room on the right for edges that lead around boxes."""

_PER_ROW: Final = 4
"""A layer of more boxes has several rows."""

DRAWN: Final = 120
"""At most so many items are drawn; the table has all of them."""

_LABEL: Final = 23
_DEEPEST: Final = 12
"""Levels of a lineage that are shown; those of aml-train have five."""

_STATES: Final[Mapping[str, str]] = {
    "completed": "good",
    "verified": "good",
    "failed": "bad",
    "broken": "bad",
    "notresponding": "bad",
    "canceled": "warn",
    "unknown": "warn",
}


@dataclass(frozen=True, kw_only=True)
class Item:
    """A node of a graph: *needs* are the items before it."""

    name: str
    label: str
    note: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Box:
    """A drawn item; *x* and *y* are its upper left corner, *state* its colour."""

    item: Item
    label: str
    note: str
    state: str
    x: float
    y: float

    width, height = BOX_WIDTH, BOX_HEIGHT


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A drawn graph; *edges* are SVG paths, *left_out* counts what is not drawn."""

    boxes: tuple[Box, ...]
    edges: tuple[str, ...]
    width: float
    height: float
    left_out: int

    @property
    def summary(self) -> str:
        """The graph in a sentence."""
        return f"{len(self.boxes)} boxes and {len(self.edges)} connections."


def nodes_graph(nodes: Sequence[Node]) -> Graph | None:
    """Return the graph of a pipeline; None if nothing is known of its connections."""
    if not any(node.needs for node in nodes):
        return None
    names = [node.name for node in nodes]
    # A node that needs a pipeline component needs the nodes within it.
    inner = {name: [one for one in names if one.startswith(f"{name}/")] for node in nodes for name in node.needs}
    items = [
        Item(
            name=node.name,
            label=node.name,
            note=f"{node.status or 'not run'}{', reused' if node.reused else ''}",
            needs=tuple(one for need in node.needs for one in ([need] if need in names else inner[need])),
        )
        for node in nodes
    ]
    return draw_graph(items)


def shallow(step: Step, depth: int = _DEEPEST) -> Step:
    """Return a lineage without the steps below *depth* levels."""
    parts = tuple(shallow(part, depth - 1) for part in step.parts) if depth > 1 else ()
    return msgspec.structs.replace(step, parts=parts)


def lineage_graph(lineage: Step) -> Graph:
    """Return the graph of a lineage, from the model down to commit and data."""
    items: list[Item] = []

    def add(step: Step, above: str) -> None:
        name = str(len(items))
        needs = (above,) if above else ()
        items.append(Item(name=name, label=step.name, note=f"{step.kind}: {step.state}", needs=needs))
        for part in step.parts:
            add(part, name)

    add(lineage, "")
    return draw_graph(items)


def draw_graph(items: Sequence[Item]) -> Graph:
    """Return the drawing of a graph, each item below those that it needs."""
    drawn = {item.name: item for item in items[:DRAWN]}
    layers = _layers(drawn)
    rows = [layer[start : start + _PER_ROW] for layer in layers for start in range(0, len(layer), _PER_ROW)]
    widest = max((len(row) for row in rows), default=1)
    width = widest * (BOX_WIDTH + _ACROSS) - _ACROSS + 2 * _MARGIN
    boxes: dict[str, Box] = {}
    for number, row in enumerate(rows):
        begin = (width - (len(row) * (BOX_WIDTH + _ACROSS) - _ACROSS)) / 2
        for place, name in enumerate(row):
            boxes[name] = _box(
                drawn[name], begin + place * (BOX_WIDTH + _ACROSS), _MARGIN + number * (BOX_HEIGHT + _DOWN)
            )
    edges = tuple(
        _edge(boxes[need], boxes[name])
        for name, item in drawn.items()
        for need in dict.fromkeys(item.needs)
        if need in boxes and need != name
    )
    return Graph(
        boxes=tuple(boxes[name] for name in drawn),
        edges=edges,
        width=width + _BULGE,
        height=len(rows) * (BOX_HEIGHT + _DOWN) - _DOWN + 2 * _MARGIN,
        left_out=len(items) - len(drawn),
    )


def _layers(items: Mapping[str, Item]) -> list[list[str]]:
    """Return the names in layers, each below what it needs; circles are at the end."""
    left = {name: {need for need in item.needs if need in items and need != name} for name, item in items.items()}
    layers: list[list[str]] = []
    places: dict[str, int] = {}
    while left:
        ready = [name for name, needs in left.items() if needs <= places.keys()]
        layer = ready or list(left)
        if ready:
            layer.sort(key=lambda name: _middle([places[need] for need in left[name]]))
        for place, name in enumerate(layer):
            places[name] = place
            del left[name]
        layers.append(layer)
    return layers


def _middle(places: Sequence[int]) -> float:
    return sum(places) / len(places) if places else 0.0


def _box(item: Item, x: float, y: float) -> Box:
    word = item.note.rpartition(": ")[2].partition(",")[0].lower()
    return Box(item=item, label=_cut(item.label), note=_cut(item.note), state=_STATES.get(word, "plain"), x=x, y=y)


def _cut(label: str) -> str:
    return label if len(label) <= _LABEL else f"{label[: _LABEL - 9]}…{label[-8:]}"


def _edge(source: Box, target: Box) -> str:
    rows = round((target.y - source.y) / (BOX_HEIGHT + _DOWN))
    if rows > 1 and abs(target.x - source.x) < BOX_WIDTH:
        # Around the boxes between both.
        x, y1, y2 = source.x + BOX_WIDTH, source.y + BOX_HEIGHT / 2, target.y + BOX_HEIGHT / 2
        end = target.x + BOX_WIDTH
        aside = max(x, end) + min(_BULGE, 8.0 * rows + 8.0)
        return f"M{x:g} {y1:g}C{aside:g} {y1:g} {aside:g} {y2:g} {end:g} {y2:g}"
    x1, y1 = source.x + BOX_WIDTH / 2, source.y + BOX_HEIGHT
    x2, y2 = target.x + BOX_WIDTH / 2, target.y
    bend = max(16.0, (y2 - y1) / 2)
    return f"M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"
