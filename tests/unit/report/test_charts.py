"""The layout of charts and graphs."""

from __future__ import annotations

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from aml_train.report.charts import (
    BOTTOM,
    COLOURS,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Chart,
    draw,
)
from aml_train.report.graphs import lineage_graph, nodes_graph
from aml_train.report.values import Curve, Node, Series, Step

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


def test_the_table_of_a_long_curve_has_its_first_and_last_step() -> None:
    found = chart([(step, step / 7) for step in range(300)], [(5, 1.0), (299, 2.0)])
    assert found.head == ("step", "s0", "s1")
    assert found.rows[0][0] == "0"
    assert found.rows[-1] == ("299", "42.714", "2")
    assert len(found.rows) == 24


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
