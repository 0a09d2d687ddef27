"""The emulator is killed at twenty random moments, or more, of a busy load, and nothing that it acknowledged is lost."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.crash_load import Load, kill
from tests.support.emulator_client import TERMINAL
from tests.support.emulator_process import Emulator

pytestmark = pytest.mark.full

KILLS = 20
MOST_KILLS = 80
ENOUGH = 10
REST_SECONDS = 3600


# On a machine under load.
@pytest.mark.timeout(4 * 3600)
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    chance = random.Random(20)  # noqa: S311 - the moments of every run
    emulator = Emulator(tmp_path)
    emulator.start()
    load = Load(emulator)
    load.start()
    try:
        # Lives are short. On a machine that gets little done in one, more of them follow, which are longer and longer.
        number = 0
        while number < KILLS or (number < MOST_KILLS and load.least() < ENOUGH):
            time.sleep(chance.uniform(0.02, 0.9) * max(1, number - KILLS))
            kill(emulator, children=number % 2 == 1)
            emulator.start()
            number += 1
    finally:
        load.stop()
    client = load.client()
    patience = time.monotonic() + REST_SECONDS
    while set((statuses := load.statuses(client)).values()) - set(TERMINAL):
        assert time.monotonic() < patience, f"not ended: {statuses}"
        time.sleep(0.5)
    gone = load.missing(client)
    client.close()
    emulator.stop()
    counts = {kind: len(names) for kind, names in load.kept.items()}
    print(f"{number} kills, {load.lost} requests without an answer, kept {counts}, {Counter(statuses.values())}")
    assert load.wrong == []
    assert gone == []
    assert {statuses[name] for name in load.kept["jobs"]} == {"Completed"}
    assert load.least() >= ENOUGH, counts
    assert load.lost > 0
