from __future__ import annotations

import math

from train import losses


def test_a_small_rate_converges() -> None:
    assert list(losses(steps=40, rate=0.5))[-1] < 0.1


def test_a_large_rate_diverges() -> None:
    assert math.isinf(list(losses(steps=40, rate=1e9))[-1])
