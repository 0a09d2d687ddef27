"""Sobol points: evenly spread, and those of other implementations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aml_emulator.domain.jobs.sweeps.search import read_search
from aml_emulator.domain.jobs.sweeps.sobol import DIMENSIONS, _directions, sobol_point

SCIPY = {
    1: [512] * 21,
    2: [768, 256, 256, 256, 768, 768, 256, 768, 768, 768, 768, 768, 256, 256, 768, 256, 768, 256, 768, 256, 256],
    613: [939, 521, 713, 799, 93, 699, 109, 75, 267, 865, 49, 975, 851, 7, 577, 181, 967, 639, 145, 665, 217],
}
"""Points of ``scipy.stats.qmc.Sobol(21, scramble=False)`` of scipy 1.17, in 1024ths."""


def unmoved(number: int) -> list[int]:
    """Return a point without the shift of a seed, in 1024ths."""
    code = number ^ (number >> 1)
    found = []
    for dimension in range(DIMENSIONS):
        whole = 0
        for bit in range(32):
            whole ^= _directions(dimension)[bit] if code >> bit & 1 else 0
        found.append(whole >> 22)
    return found


@pytest.mark.parametrize("number", SCIPY)
def test_points_are_those_of_scipy(number: int) -> None:
    assert unmoved(number) == SCIPY[number]


@given(st.text(max_size=9), st.integers(0, 7))
@settings(deadline=None, max_examples=20)
def test_each_interval_of_each_dimension_has_one_point(seed: str, power: int) -> None:
    count = 2**power
    points = [sobol_point(number, DIMENSIONS, seed=seed) for number in range(count)]
    for column in zip(*points, strict=True):
        assert sorted(int(value * count) for value in column) == list(range(count))
        assert all(0 < value < 1 for value in column)


@given(st.integers())
@settings(deadline=None, max_examples=20)
def test_each_rectangle_of_the_first_two_dimensions_has_one_point(seed: int) -> None:
    points = [sobol_point(number, 2, seed=str(seed)) for number in range(64)]
    for power in range(7):
        across, down = 2**power, 2 ** (6 - power)
        places = {(int(x * across), int(y * down)) for x, y in points}
        assert places == set(itertools.product(range(across), range(down)))


def sweep(rule: str | None, **more: Any) -> dict[str, Any]:
    """Return the search of a sweep."""
    return {
        "samplingAlgorithm": {"samplingAlgorithmType": "Random", **({"rule": rule} if rule else {}), **more},
        "searchSpace": {
            "kind": ["choice", [["a", "b", "c", "d"]]],
            "rate": ["loguniform", [-3, 0]],
            "size": ["randint", [8]],
            "mean": ["normal", [1, 2]],
        },
    }


def test_a_sweep_by_sobol_tries_every_choice_as_often() -> None:
    search = read_search(sweep("Sobol"), seed="s")
    values = [search.values(number) for number in range(16)]
    assert sorted(str(value["kind"]) for value in values) == sorted("abcd" * 4)
    assert sorted(int(value["size"]) for value in values) == sorted([*range(8)] * 2)
    assert sorted(int(-math.log(float(value["rate"])) / 3 * 16) for value in values) == list(range(16))
    assert sum(1 for value in values if float(value["mean"]) < 1) == 8
    assert values == [read_search(sweep("sobol"), seed="s").values(number) for number in range(16)]


def test_the_seed_decides_the_values_whatever_the_sweep_is_called() -> None:
    for rule in ("sobol", None):
        first, other = (read_search(sweep(rule, seed=given), seed="s").values(3) for given in (0, 1))
        assert first == read_search(sweep(rule, seed=0), seed="t").values(3)
        assert first != other


@pytest.mark.parametrize(("base", "low"), [("e", math.exp(-3)), (10, 1e-3), ("2", 0.125), (None, math.exp(-3))])
def test_logarithmic_values_have_the_base_of_the_sweep(base: Any, low: float) -> None:
    search = read_search(sweep("sobol", **({} if base is None else {"logbase": base})), seed="s")
    rates = [float(search.values(number)["rate"]) for number in range(256)]
    assert min(rates) == pytest.approx(low, rel=0.1)
    assert low < min(rates) <= max(rates) < 1
