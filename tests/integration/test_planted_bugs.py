"""The planted bugs of the simulation: their patches apply to the product, and one of them is found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from simulation.kernel.install import SUPPORTED
from simulation.planted import read_bugs, search
from simulation.scenario import SCENARIOS

ROOT = Path(__file__).parents[2]


def test_there_are_thirty_planted_bugs_and_each_applies() -> None:
    bugs = read_bugs()
    assert len(bugs) >= 30
    assert {bug.scenario for bug in bugs} <= SCENARIOS.keys()
    for bug in bugs:
        command = ["git", "apply", "--check", str(bug.patch)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert not done.returncode, f"{bug.name}: make its patch again\n{done.stderr}"


@pytest.mark.full
@pytest.mark.skipif(not SUPPORTED, reason="the kernel knows the threads of Python 3.11 and 3.12")
def test_a_planted_bug_is_found() -> None:
    (bug,) = read_bugs("failed-tests-are-reported-only")
    assert search(bug, minutes=5.0).invariant == "no_false_green"
