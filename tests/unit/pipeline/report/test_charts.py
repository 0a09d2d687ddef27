"""The layout of charts and graphs."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.pipeline.report.charts import (
    BOTTOM,
    COLOURS,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Chart,
    decades,
    draw,
    ticks,
)
from aml_train.pipeline.report.graphs import BOX_HEIGHT, Item, draw_graph, lineage_graph, nodes_graph
from aml_train.pipeline.report.values import Curve, Node, Series, Step

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def chart(*lines: list[tuple[int, float]], limits: tuple[float, ...] = ()) -> Chart:
    series = tuple(Series(title=f"s{number}", points=tuple(points)) for number, points in enumerate(lines))
    found = draw(Curve(metric="m", series=series, limits=limits))
    assert found is not None
    return found


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([-\d.e+]+) ([-\d.e+]+)", path)]


@given(
    st.lists(st.lists(st.tuples(st.integers(-(10**9), 10**9), FINITE), max_size=20), min_size=1, max_size=8),
    st.lists(FINITE, max_size=3),
)
def test_whatever_is_drawn_is_inside_the_chart(lines: list[list[tuple[int, float]]], limits: list[float]) -> None:
    series = tuple(Series(title=f"s{number}", points=tuple(points)) for number, points in enumerate(lines))
    found = draw(Curve(metric="m", series=series, limits=tuple(limits)))
    if found is None:
        assert not any(abs(value) < 1e300 for points in lines for _, value in points)
        return
    assert all(line.colour < COLOURS for line in found.lines)
    for line in found.lines:
        for x, y in [*places(line.path), *line.dots]:
            assert LEFT - 0.2 <= x <= WIDTH - RIGHT + 0.2
            assert TOP - 0.2 <= y <= HEIGHT - BOTTOM + 0.2
    for tick in (*found.y_ticks, *found.limits):
        assert TOP - 0.2 <= tick.at <= HEIGHT - BOTTOM + 0.2
    assert len({tick.label for tick in found.y_ticks}) == len(found.y_ticks)
    assert len(found.y_ticks) <= 12
    assert len(found.x_ticks) <= 12
    assert len(found.rows) <= 24


def test_the_second_line_is_the_baselines_unless_it_says_otherwise() -> None:
    points = [(0, 1.0), (1, 2.0)]
    assert [line.role for line in chart(points, points, points).lines] == ["job", "baseline", "other"]
    series = tuple(Series(title=role or "j", role=role, points=tuple(points)) for role in ("job", "other"))
    found = draw(Curve(metric="m", series=series))
    assert found is not None
    assert [line.role for line in found.lines] == ["job", "other"]


@pytest.mark.parametrize(
    ("values", "logarithmic"),
    [((1.0, 2000.0), True), ((1.0, 900.0), False), ((0.0, 1e6), False), ((-1.0, 1e6), False), ((1e-9, 1e-3), True)],
)
def test_positive_values_over_three_decades_are_logarithmic(values: tuple[float, float], logarithmic: bool) -> None:
    found = chart([(0, values[0]), (1, values[1])])
    assert found.logarithmic is logarithmic


def test_a_decade_is_as_high_as_any_other() -> None:
    found = chart([(0, 1.0), (1, 100.0), (2, 10_000.0)])
    heights = [y for _, y in places(found.lines[0].path)]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)
    assert decades(1.0, 10_000.0) == [1, 10, 100, 1_000, 10_000]
    assert len(decades(1e-200, 1e200)) <= 9


def test_ticks_are_round_and_around_the_values() -> None:
    assert ticks(0.12, 0.87) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert ticks(0, 3, whole=True) == [0, 1, 2, 3]


def test_the_table_of_a_long_curve_has_its_first_and_last_step() -> None:
    found = chart([(step, step / 7) for step in range(300)], [(5, 1.0), (299, 2.0)])
    assert found.head == ("step", "s0", "s1")
    assert found.rows[0][0] == "0"
    assert found.rows[-1] == ("299", "42.714", "2")
    assert len(found.rows) == 24


def test_the_summary_names_ends_and_extremes() -> None:
    assert chart([(0, 3.0), (1, 1.0), (2, 2.0)], [(4, 7.0)], limits=(2.5, math.inf)).summary == (
        "s0: 3 values, from 3 at step 0 to 2 at step 2; lowest 1 at step 1, highest 3 at step 0. s1: 7 at step 4."
        " Limits of the gate: 2.5."
    )


def test_a_curve_without_finite_values_is_not_drawn() -> None:
    assert draw(Curve(metric="m", series=(Series(title="s", points=((0, math.nan), (1, math.inf))),))) is None
    assert draw(Curve(metric="m", series=())) is None


def test_each_node_is_below_those_that_it_needs() -> None:
    nodes = [
        Node(name="evaluate", needs=("train", "prepare"), status="Failed"),
        Node(name="train", needs=("prepare",), status="Completed"),
        Node(name="prepare", status="Completed"),
        Node(name="report", needs=("group",)),
        Node(name="group/a"),
    ]
    found = nodes_graph(nodes)
    assert found is not None
    at = {box.item.name: box for box in found.boxes}
    assert at["prepare"].y < at["train"].y < at["evaluate"].y
    assert at["group/a"].y < at["report"].y
    assert [at[name].state for name in ("train", "evaluate", "report")] == ["good", "bad", "plain"]
    assert len(found.edges) == 4
    assert nodes_graph([Node(name="alone")]) is None


@given(
    st.dictionaries(st.integers(0, 30), st.lists(st.integers(0, 35), max_size=5), min_size=1, max_size=30),
)
def test_any_graph_is_drawn_without_two_boxes_at_one_place(graph: dict[int, list[int]]) -> None:
    items = [
        Item(name=str(name), label=f"node {name}", needs=tuple(map(str, needs))) for name, needs in graph.items()
    ]
    found = draw_graph(items)
    corners = {(box.x, box.y) for box in found.boxes}
    assert len(corners) == len(items)
    assert all(box.x >= 0 and box.x + box.width <= found.width for box in found.boxes)
    assert all(0 <= box.y <= found.height - BOX_HEIGHT for box in found.boxes)


def test_a_lineage_is_a_tree_with_its_states() -> None:
    lineage = Step(
        kind="model",
        name="m:1",
        state="verified",
        parts=(
            Step(kind="job", name="j", state="broken", detail="gone"),
            Step(kind="data", name="d", state="unknown"),
        ),
    )
    found = lineage_graph(lineage)
    assert [(box.item.label, box.state) for box in found.boxes] == [("m:1", "good"), ("j", "bad"), ("d", "warn")]
    assert len(found.edges) == 2


def test_many_boxes_are_counted_and_not_drawn() -> None:
    found = draw_graph([Item(name=str(number), label="x" * 50) for number in range(150)])
    assert (len(found.boxes), found.left_out) == (120, 30)
    assert max(len(box.label) for box in found.boxes) == 23


def test_an_edge_leads_around_the_boxes_between() -> None:
    nodes = [Node(name="a"), Node(name="b", needs=("a",)), Node(name="c", needs=("a", "b"))]
    found = nodes_graph(nodes)
    assert found is not None
    around = found.edges[1]
    right = found.boxes[0].x + found.boxes[0].width
    assert around.startswith(f"M{right:g} ")
    assert max(float(number) for number in re.findall(r"[\d.]+", around)[::2]) <= found.width
