"""A tenth of the service's answers fails, and every run comes to its right verdict, with exactly one job and one model."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.emulator.service import ROOT, Emulator
from tests.integration.trust.cases import case
from tests.integration.trust.suite import add_faults, count_faults, execute, wrong

RUNS = int(os.environ.get("AML_TRAIN_TRUST_RUNS", "40"))
SEED = int(os.environ.get("AML_TRAIN_TRUST_SEED", "1"))
WORKERS = int(os.environ.get("AML_TRAIN_TRUST_WORKERS", "6"))


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    service = Emulator(
        tmp_path_factory.mktemp("instant"),
        command=("-m", "tests.integration.trust.instant_emulator"),
        environment={"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runner")))},
    )
    service.start()
    yield service
    service.stop()


def test_every_run_ends_as_it_must(emulator: Emulator, tmp_path: Path) -> None:
    cases = [case(number) for number in range(RUNS)]
    add_faults(emulator, SEED)
    began = time.monotonic()
    ended = execute(emulator, tmp_path, cases, workers=WORKERS)
    took = time.monotonic() - began
    requests, faults = count_faults(emulator)
    emulator.admin("DELETE", "faults")
    problems = wrong(emulator, cases, ended)
    bad = len({line.partition(":")[0] for line in problems})
    sys.stdout.write(
        f"{RUNS - bad} of {RUNS} runs right, seed {SEED}: {faults} faults in {requests} requests"
        f" ({faults / requests:.1%}), {took:.0f} s\n"
    )
    assert not problems, "\n".join(problems)
    assert 0.07 < faults / requests < 0.13
