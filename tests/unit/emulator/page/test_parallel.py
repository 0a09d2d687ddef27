"""Parallel coordinates: the positions of their parts, for any values."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aml_emulator.page.parallel import AXES, BOTTOM, TOP, Parallel, Scale, Trial, Value, draw_parallel

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63)
VALUES = NUMBERS | st.text(max_size=20) | st.booleans()


def heights(drawing: Parallel, number: int) -> list[tuple[float, float]]:
    """Return the points of a line."""
    found = re.findall(r"[ML](-?[\d.e+]+) (-?[\d.e+]+)", drawing.lines[number].path)
    return [(float(x), float(y)) for x, y in found]


@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from("abc"), VALUES), st.none() | st.floats()), min_size=1, max_size=12
    ),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None, max_examples=80)
def test_any_values_are_within_the_drawing(
    given_trials: list[tuple[dict[str, Value], float | None]], logarithmic: bool, maximize: bool
) -> None:
    trials = [
        Trial(title=str(number), values=values, score=score) for number, (values, score) in enumerate(given_trials)
    ]
    scales = [
        Scale(name="a", logarithmic=logarithmic),
        Scale(name="b"),
        Scale(
            name="c",
            choices=tuple({f"{value}": value for values, _ in given_trials if (value := values.get("c"))}.values())
            or None,
        ),
    ]
    drawing = draw_parallel(scales, "loss", trials, maximize=maximize)
    assert [axis.name for axis in drawing.axes] == ["a", "b", "c", "loss"]
    for number in range(len(drawing.lines)):
        for x, y in heights(drawing, number):
            assert 0 <= x <= drawing.width
            assert TOP <= y <= BOTTOM
    for axis in drawing.axes:
        assert all(TOP <= tick.at <= BOTTOM for tick in axis.ticks)


def test_values_are_where_their_scales_say() -> None:
    scales = [Scale(name="lr", logarithmic=True), Scale(name="kind", choices=("a", "b"))]
    trials = [
        Trial(title="0", values={"lr": 0.001, "kind": "a"}, score=0.0, best=True),
        Trial(title="1", values={"lr": 0.01, "kind": "b"}, score=None),
        Trial(title="2", values={"lr": 0.1, "kind": "b"}, score=1.0),
        Trial(title="3", values={"lr": 0.1, "kind": "c"}, score=math.inf),
    ]
    drawing = draw_parallel(scales, "loss", trials, maximize=False)
    by_title = {
        line.title: (line.kind, [y for _, y in heights(drawing, number)]) for number, line in enumerate(drawing.lines)
    }
    middle = (TOP + BOTTOM) / 2
    quarter = (BOTTOM - TOP) / 4
    assert {title: kind for title, (kind, _) in by_title.items()} == {"0": "best", "1": "none", "2": "2"}
    assert by_title["0"][1] == pytest.approx([BOTTOM, BOTTOM - quarter, BOTTOM])
    assert by_title["1"][1] == pytest.approx([middle, TOP + quarter])
    assert by_title["2"][1] == pytest.approx([TOP, TOP + quarter, TOP])
    assert drawing.lines[-1].kind == "best"
    assert drawing.summary == "4 trials; the best has loss 0 with lr 0.001, kind a."


def test_ranks_are_bands_and_too_many_axes_are_left_out() -> None:
    scales = [Scale(name=f"p{number}") for number in range(AXES + 3)]
    trials = [Trial(title=str(number), values={"p0": number, "p1": 1}, score=float(number)) for number in range(10)]
    drawing = draw_parallel(scales, "score", trials, maximize=True)
    assert (len(drawing.axes), drawing.left_out) == (AXES + 1, 3)
    assert [line.kind for line in drawing.lines] == ["4", "4", "3", "3", "2", "2", "1", "1", "0", "0"]
