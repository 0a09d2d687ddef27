"""Curves over each other: everything drawn is within the chart, for any values."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aml_emulator.page.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from aml_emulator.page.overlay import Given, Overlay, draw_overlay, smoothed
from aml_emulator.store.browse import Series

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def series(*values: float, odd: tuple[tuple[float, float], ...] = ()) -> Series:
    points = tuple((float(at), value) for at, value in enumerate(values))
    return Series(key="k", by_step=True, points=points, odd=odd, count=len(values) + len(odd), odd_count=len(odd))


def places(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.e+]+) (-?[\d.e+]+)", path)]


def check_inside(drawn: Overlay) -> None:
    for curve in drawn.curves:
        for x, y in (*places(curve.path), *places(curve.raw), *curve.dots):
            assert LEFT - 0.01 <= x <= WIDTH - RIGHT + 0.01
            assert TOP - 0.01 <= y <= HEIGHT - BOTTOM + 0.01
    for tick in drawn.y_ticks:
        assert TOP - 0.01 <= tick.at <= HEIGHT - BOTTOM + 0.01


@given(
    st.lists(st.lists(FINITE, max_size=6), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([0.0, 0.5, 0.99]),
)
@example([[5e-324, 1.7976931348623157e308]], True, 0.0)
@example([[-1.7976931348623157e308, 1.7976931348623157e308]], False, 0.99)
@example([[]], True, 0.5)
@settings(deadline=None)
def test_any_values_are_within_the_chart(values: list[list[float]], logarithmic: bool, smoothing: float) -> None:
    curves = [
        Given(number=at, title=str(at), series=series(*numbers, odd=((2.5, math.nan),)))
        for at, numbers in enumerate(values)
    ]
    drawn = draw_overlay("k", curves, logarithmic=logarithmic, smoothing=smoothing)
    assert len(drawn.curves) == len(values)
    check_inside(drawn)


def test_a_logarithmic_axis_has_powers_and_says_what_it_leaves_out() -> None:
    drawn = draw_overlay("k", [Given(number=0, title="a", series=series(1000.0, 10.0, 0.0, 0.1))], logarithmic=True)
    assert [tick.label for tick in drawn.y_ticks] == ["0.1", "1", "10", "100", "1000"]
    gaps = [tick.at for tick in drawn.y_ticks]
    assert gaps[0] - gaps[1] == pytest.approx(gaps[2] - gaps[3], abs=0.02)
    assert drawn.curves[0].path.count("M") == 2, "the value without a place interrupts the curve"
    assert drawn.notes == ("a: 1 values are not above 0, and have no place on a logarithmic axis.",)


def test_curves_share_their_axes() -> None:
    low, high = series(0.0, 1.0), series(9.0, 10.0, 8.0)
    drawn = draw_overlay("k", [Given(number=0, title="low", series=low), Given(number=3, title="high", series=high)])
    assert [curve.number for curve in drawn.curves] == [0, 3]
    assert min(y for _, y in places(drawn.curves[0].path)) > max(y for _, y in places(drawn.curves[1].path))
    assert drawn.summary == "low from 0 to 1, lowest 0, highest 1; high from 9 to 8, lowest 8, highest 10."
    assert drawn.x_label == "step"


@given(st.lists(FINITE, min_size=1), st.floats(0, 0.99))
@settings(deadline=None)
def test_smoothed_values_are_between_the_others(values: list[float], weight: float) -> None:
    made = [y for _, y in smoothed(series(*values), weight).points]
    assert made[0] == pytest.approx(values[0])
    for at, y in enumerate(made[: len(values)]):
        margin = 1e-6 * max(1.0, max(map(abs, values)))
        assert min(values[: at + 1]) - margin <= y <= max(values[: at + 1]) + margin


def test_smoothing_does_not_pull_towards_zero() -> None:
    made = [y for _, y in smoothed(series(*[5.0] * 20), 0.9).points]
    assert made == pytest.approx([5.0] * 20)
    assert smoothed(series(1.0, 2.0), 0.0) == series(1.0, 2.0)


def test_the_raw_curve_is_behind_the_smoothed_one() -> None:
    drawn = draw_overlay("k", [Given(number=0, title="a", series=series(0.0, 10.0, 0.0, 10.0))], smoothing=0.9)
    assert len(places(drawn.curves[0].raw)) == len(places(drawn.curves[0].path)) == 4
    check_inside(drawn)
