"""Graphs of pipelines: the positions of their parts, for any graph."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from aml_emulator.page.graphs import DRAWN, Box, Drawing, Step, draw_graph


def step(name: str, *reads: str, **more: str) -> Step:
    """Return a node that reads the output ``out`` of others."""
    return Step(
        name=name,
        kind=more.get("kind", "command"),
        links=tuple((one, "out", "in") for one in reads),
        status="Running",
    )


def box(drawing: Drawing, name: str) -> Box:
    """Return a node's box."""
    return next(one for one in drawing.boxes if one.step.name == name)


@st.composite
def graphs(draw: st.DrawFn) -> list[Step]:
    count = draw(st.integers(1, 30))
    found = []
    for number in range(count):
        before = [f"n{one}" for one in range(number)]
        reads = draw(st.lists(st.sampled_from(before), max_size=4, unique=True)) if before else []
        found.append(step(f"n{number}", *reads))
    return found


@given(graphs())
@settings(deadline=None, max_examples=40)
def test_any_graph_has_its_boxes_apart_and_its_edges_downwards(steps: list[Step]) -> None:
    drawing = draw_graph(steps)
    assert [one.step for one in drawing.boxes] == steps
    for number, one in enumerate(drawing.boxes):
        assert 0 <= one.x <= one.x + one.width <= drawing.width
        assert 0 <= one.y <= one.y + one.height <= drawing.height
        for other in drawing.boxes[number + 1 :]:
            apart = abs(one.x - other.x) >= one.width or abs(one.y - other.y) >= one.height
            assert apart, (one, other)
    assert len(drawing.edges) == sum(len(one.links) for one in steps)
    for edge in drawing.edges:
        source, target = (box(drawing, name) for name in edge.title.partition(":")[0].split(" → "))
        numbers = [float(text) for text in re.findall(r"-?[\d.]+(?:e[+-]\d+)?", edge.path)]
        assert (numbers[1], numbers[-1]) == (source.y + source.height, target.y - 6)
        for x, top, below in re.findall(r"(-?[\d.]+) (-?[\d.]+)V(-?[\d.]+)", edge.path):
            crossed = [
                one.step.name
                for one in drawing.boxes
                if one.x < float(x) < one.x + one.width and float(top) < one.y + one.height and one.y < float(below)
            ]
            assert crossed == [], "lines pass between boxes"


def test_what_is_passed_is_one_edge() -> None:
    last = Step(name="b", kind="sweep", links=(("a", "x", "x"), ("a", "y", "z")), status="Completed", reused=True)
    drawing = draw_graph([step("a"), last])
    assert [edge.title for edge in drawing.edges] == ["a → b: x, y as z"]
    assert [one.said for one in drawing.boxes] == ["Running", "sweep · Completed · reused"]
    assert drawing.summary == "2 nodes and 1 connections."


def test_a_node_is_below_what_it_needs_and_not_lower_than_it_has_to() -> None:
    drawing = draw_graph([step("a"), step("b", "a"), step("c", "b"), step("d", "a"), step("e")])
    levels = sorted({one.y for one in drawing.boxes})
    assert [levels.index(box(drawing, name).y) for name in "abcde"] == [0, 1, 2, 1, 0]


def test_a_line_over_several_layers_takes_a_lane_through_each() -> None:
    drawing = draw_graph([step("a"), step("b", "a"), step("c", "b"), step("d", "a", "c")])
    assert {edge.title.partition(":")[0]: edge.path.count("V") for edge in drawing.edges} == {
        "a → b": 0,
        "b → c": 0,
        "a → d": 2,
        "c → d": 0,
    }


def test_long_names_are_cut_and_huge_graphs_are_drawn_in_part() -> None:
    name = "a_name_that_is_longer_than_a_box"
    assert draw_graph([step(name)]).boxes[0].label == "a_name_that_is_longer_t…"
    many = draw_graph([step("n0"), *(step(f"n{number}", "n0") for number in range(1, DRAWN + 9))])
    assert (len(many.boxes), many.left_out) == (DRAWN, 9)
    assert draw_graph([]).boxes == ()
