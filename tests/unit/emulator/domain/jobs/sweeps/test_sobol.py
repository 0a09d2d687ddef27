"""Sobol points: evenly spread, and those of other implementations."""

from __future__ import annotations

import pytest

from aml_emulator.domain.jobs.sweeps.search import DIMENSIONS, _directions

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
