from __future__ import annotations

import datetime
import os
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from time import monotonic as imported_monotonic
from typing import Any

import pytest

from aml_train.core.clock import SYSTEM_CLOCK, elapsed
from simulation.kernel import Violation
from tests.support.simulated_world import simulate


def _threads(*targets: Callable[[], object]) -> None:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_days_pass_at_once_and_every_clock_shows_them() -> None:
    def main() -> list[Any]:
        def clocks() -> list[float]:
            return [
                *(time.monotonic(), imported_monotonic(), SYSTEM_CLOCK.now(), elapsed(), time.perf_counter()),
                *(
                    time.time(),
                    time.time_ns() / 1e9,
                    time.monotonic_ns() / 1e9,
                    datetime.datetime.now(datetime.UTC).timestamp(),
                ),
            ]

        before = clocks()
        SYSTEM_CLOCK.sleep(86_400.0)
        return [round(late - early, 3) for early, late in zip(before, clocks(), strict=True)]

    began = time.monotonic()
    results, _kernel = simulate(main)
    assert results == [[86_400.0] * 9]
    assert time.monotonic() - began < 3600


def test_randomness_follows_from_the_seed() -> None:
    def main() -> list[object]:
        random.shuffle(numbers := list(range(9)))
        return [
            *(os.urandom(8), random.random(), random.Random().random(), random.SystemRandom().random(), numbers),
            *(secrets.token_hex(), uuid.uuid4(), uuid.uuid1()),
        ]

    first, second = simulate(main)[0], simulate(main)[0]
    assert first == second
    assert len({str(value) for value in first[0]}) == 8


def test_a_deadlock_is_reported_with_the_stack_of_each_thread() -> None:
    def main() -> None:
        first, second = threading.Lock(), threading.Lock()

        def one_way() -> None:
            with first:
                time.sleep(1)
                second.acquire()

        def other_way() -> None:
            with second:
                time.sleep(1)
                first.acquire()

        _threads(one_way, other_way)

    with pytest.raises(Violation, match="no-deadlock") as caught:
        simulate(main)
    for part in (
        "in one_way",
        "second.acquire()",
        "in other_way",
        "first.acquire()",
        "program/MainThread waits for a lock",
    ):
        assert part in caught.value.message
