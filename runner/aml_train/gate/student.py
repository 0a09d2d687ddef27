"""Student's t distribution and the levels of a test that may end early. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import Final

_TINY: Final = 1e-300
_MOST_TERMS: Final = 10_000


def above(t: float, freedom: float) -> float:
    """Return the probability that a variable of Student's t distribution is greater than *t*.

    It is half the regularized incomplete beta function at ``freedom / (freedom + t²)`` (NIST DLMF 8.17, and Abramowitz and Stegun 26.7.1).
    """
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    square = t * t
    tail = _beta(freedom / (freedom + square), square / (freedom + square), freedom / 2, 0.5) / 2
    return tail if t >= 0 else 1.0 - tail


def quantile(probability: float, freedom: float) -> float:
    """Return the t that a variable exceeds with *probability*, between 0 and 1, to the last few digits: by bisection."""
    if probability > 0.5:
        return -quantile(1.0 - probability, freedom)
    low, high = 0.0, 1.0
    while above(high, freedom) > probability:
        low, high = high, high * 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if above(middle, freedom) > probability else (low, middle)
    return high


def _beta(x: float, rest: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b); *rest* is 1 - x, to the last digit.

    The continued fraction converges quickly below the mean of the distribution; above it, it is taken of the other end (DLMF 8.17.4, 8.17.22).
    """
    if x <= 0.0 or rest <= 0.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta(rest, x, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    return math.exp(front) / a * _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction 1/(1 + d₁/(1 + d₂/…)) of DLMF 8.17.22.

    It is evaluated by the method of Lentz, with the change by Thompson and Barnett (1986).
    """
    value = c = _TINY
    d, numerator = 0.0, 1.0
    for term in range(1, _MOST_TERMS):
        d = 1.0 / (1.0 + numerator * d)
        c = 1.0 + numerator / c
        value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
        half = term // 2
        if term % 2 == 0:
            numerator = half * (b - half) * x / ((a + term - 1) * (a + term))
        else:
            numerator = -(a + half) * (a + b + half) * x / ((a + term - 1) * (a + term))
    return value


def levels(alpha: float, planned: int, *, early: bool) -> Iterator[tuple[int, float]]:
    """Yield the looks of a one-sided test: after how many of the *planned* replicates, and its level there.

    The levels add up to *alpha*, so that by Bonferroni's inequality the error of all looks together is at most *alpha*, whatever they have in
    common. They are the increments of the spending function of Lan and DeMets (1983) that resembles the bounds of O'Brien and Fleming: almost
    nothing is spent on few replicates. Nothing can be tested with fewer than two.
    """
    if not early:
        yield planned, alpha
        return
    normal, spent = NormalDist(), 0.0
    bound = normal.inv_cdf(1.0 - alpha / 2)
    for count in range(2, planned + 1):
        total = alpha if count == planned else 2.0 * normal.cdf(-bound / math.sqrt(count / planned))
        if total > spent:
            yield count, total - spent
            spent = total
