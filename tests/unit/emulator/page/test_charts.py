"""Charts: the positions of their parts, for any values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aml_emulator.page.charts import HEIGHT, WIDTH, Chart, Given
from aml_emulator.page.charts import draw as draw_all
from aml_emulator.store.browse import DRAWN, Series
from aml_emulator.store.metrics import Metric
from aml_emulator.store.store import Store

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def series(*points: tuple[float, float], odd: tuple[tuple[float, float], ...] = (), by_step: bool = True) -> Series:
    return Series(key="m", by_step=by_step, points=points, odd=odd, count=len(points) + len(odd), odd_count=len(odd))


def draw(*curves: Series) -> Chart:
    return draw_all("m", [Given(number=number, title="m", series=one) for number, one in enumerate(curves)])


@given(
    st.lists(st.tuples(st.integers(-(10**12), 10**12), FINITE), max_size=30),
    st.lists(st.tuples(st.integers(-(10**12), 10**12), st.sampled_from([math.nan, math.inf, -math.inf])), max_size=5),
)
@settings(deadline=None, max_examples=60)
def test_everything_lies_inside_of_the_chart(points: list[tuple[int, float]], odd: list[tuple[int, float]]) -> None:
    if not points and not odd:
        return
    chart = draw(series(*sorted(points), odd=tuple(odd)), series((0, 1.0)))
    numbers = [float(number) for number in re.findall(r"-?[\d.]+(?:e[+-]?\d+)?", chart.curves[0].path)]
    assert bool(numbers) == bool(points)
    for x, y in zip(numbers[::2], numbers[1::2], strict=True):
        assert chart.left <= x <= chart.right
        assert chart.top - 0.1 <= y <= chart.bottom + 0.1
    assert all(0 <= tick.at <= WIDTH for tick in chart.x_ticks)
    assert all(0 <= tick.at <= HEIGHT for tick in chart.y_ticks)


def test_what_is_no_number_is_told() -> None:
    odd = ((1.0, math.nan), (2.0, math.inf), (3.0, -math.inf), *((float(at), math.nan) for at in range(4, 10)))
    chart = draw(series((0, 1.0), (10, 2.0), odd=odd))
    assert chart.notes[0].startswith(
        "No finite numbers of m: NaN at step 1, ∞ at step 2, -∞ at step 3, NaN at step 4"
    )
    assert chart.notes[0].endswith("and 3 more.")
    gaps = draw(series((0, 1.0), (1, 1.0), (4, 1.0), (9, 1.0), (10, 1.0), odd=((2.0, math.nan), (5.0, math.inf))))
    assert re.sub(r"[^ML]", "", gaps.curves[0].path) == "MLMLML", "the curve is not drawn across what is no number"
    nothing = draw(series(odd=odd[:1]))
    assert (nothing.curves[0].path, nothing.summary) == ("", "m: 1 value, none of them a finite number.")


# From the store


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store(":memory:")
    experiment = made.runs.ensure_experiment("e")
    made.runs.create(run_id="r", experiment_id=experiment.id, display_name="r", status="Running")
    yield made
    made.close()


def test_a_long_curve_keeps_its_extremes(store: Store) -> None:
    count = 20_000
    values = [math.sin(at / 300) for at in range(count)]
    values[12_345], values[17_777] = 9.0, -9.0
    values[100], values[200] = math.nan, math.inf
    store.metrics.log("r", [Metric(key="m", value=value, timestamp=at, step=at) for at, value in enumerate(values)])
    found = store.browse.series("r", "m")
    assert found is not None
    assert (found.count, found.odd_count, found.thinned) == (count, 2, True)
    assert len(found.points) <= DRAWN
    assert (12_345.0, 9.0) in found.points
    assert (17_777.0, -9.0) in found.points
    assert [x for x, _ in found.points] == sorted(x for x, _ in found.points)
    assert [x for x, _ in found.odd] == [100.0, 200.0]
    assert found.points[0][0] < 100
    assert found.points[-1][0] > count - 100
