"""Curves in letters."""

from __future__ import annotations

import math

from aml_train.report.series import by_step, columns_of, plot


def test_every_step_is_shown_and_what_is_between_two_of_them() -> None:
    points = by_step([(4, 2.0), (0, 0.0), (4, 4.0), (2, math.nan), (8, 4.0)])
    assert points == {0: 0.0, 4: 4.0, 8: 4.0}
    assert columns_of(points, 0, 8, 5) == [[0.0], [2.0], [4.0], [4.0], [4.0]]
    assert columns_of(points, -4, 12, 5) == [[], [0.0], [4.0], [4.0], []]
    assert columns_of({0: 1.0, 1: 9.0, 100: 2.0}, 0, 100, 2) == [[1.0, 9.0], [2.0]], (
        "the peak is not between two columns"
    )


def test_both_curves_stand_on_one_scale() -> None:
    assert plot([(0, 0.0), (23, 7.0)], [(0, 0.0), (12, 0.0)]) == [
        "7 ┤                      ●●",
        "  ┤                   ●●●",
        "  ┤               ●●●●",
        "  ┤            ●●●",
        "  ┤         ●●●",
        "  ┤     ●●●●",
        "  ┤  ●●●",
        "0 ┤◉◉○○○○○○○○○○○",
        "  └────────────────────────",
        "   0                     23",
    ]


def test_one_step_or_nothing_finite_is_no_curve() -> None:
    assert plot([(0, 1.0)], [(5, 2.0)]) == []
    assert plot([(0, math.nan), (1, math.inf)], []) == []
    assert f"1 ┤{'●' * 24}" in plot([(0, 1.0), (1, 1.0)], [])
