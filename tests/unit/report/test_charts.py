"""The layout of charts."""

from __future__ import annotations

import math
import re

from hypothesis import example, given
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
from aml_train.report.values import Curve, Series

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def chart(*lines: list[tuple[int, float]], limits: tuple[float, ...] = ()) -> Chart:
    series = tuple(
        Series(title=f"s{number}", role="job", points=tuple(points)) for number, points in enumerate(lines)
    )
    found = draw(Curve(metric="m", series=series, limits=limits))
    assert found is not None
    return found


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([-\d.e+]+) ([-\d.e+]+)", path)]


@given(
    st.lists(st.lists(st.tuples(st.integers(-(10**9), 10**9), FINITE), max_size=20), min_size=1, max_size=8),
    st.lists(FINITE, max_size=3),
)
@example([[(0, 5e-324)]], [0.0])
@example([[(0, 2.3e-308)]], [1.0])
def test_whatever_is_drawn_is_inside_the_chart(lines: list[list[tuple[int, float]]], limits: list[float]) -> None:
    series = tuple(
        Series(title=f"s{number}", role="job", points=tuple(points)) for number, points in enumerate(lines)
    )
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
    assert (
        draw(Curve(metric="m", series=(Series(title="s", role="job", points=((0, math.nan), (1, math.inf))),)))
        is None
    )
    assert draw(Curve(metric="m", series=())) is None
