"""A planted fault is found, shrunk, written and repeated."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.cli import main
from simulation.files import read_failure, write_failure
from simulation.isolation import run_isolated
from simulation.kernel.decisions import Value
from simulation.runs import Job, Outcome, run
from simulation.shrink import shrink

_PLANTED = "leases-planted"


def _first_failure() -> Outcome:
    return next(outcome for seed in range(200) if (outcome := run(Job(scenario=_PLANTED, seed=seed))).failed)


def _again(failure: Outcome, plan: Mapping[str, Value]) -> Outcome:
    return run(Job(scenario=failure.scenario, seed=failure.seed, plan=plan))


@pytest.mark.full
def test_a_planted_fault_is_found_shrunk_and_repeated(tmp_path: Path) -> None:
    failure = _first_failure()
    assert failure.invariant == "acknowledged-is-kept"
    found = shrink(failure, lambda plan: _again(failure, plan))
    assert found.complete
    small = found.outcome.plan
    assert 1 <= len(small) < len(failure.plan) / 2
    assert found.outcome.invariant == failure.invariant
    for left_out in small:  # the failure needs each of them
        assert not _again(failure, {key: value for key, value in small.items() if key != left_out}).failed
    path = write_failure(tmp_path, found.outcome)
    job, digest, invariant = read_failure(path)
    repeated = run(job)
    assert (repeated.digest, repeated.invariant) == (digest, invariant)
    assert any("PUT https://store.test/value" in line for line in repeated.lines)


@pytest.mark.parametrize("seed", range(30))
def test_the_correct_world_holds(seed: int) -> None:
    outcome = run(Job(scenario="leases", seed=seed))
    assert not outcome.failed, outcome.message


@given(
    needed=st.sets(st.integers(0, 60), min_size=1, max_size=4),
    others=st.sets(st.integers(0, 60), max_size=60),
)
def test_shrinking_finds_what_a_failure_needs(needed: set[int], others: set[int]) -> None:
    """Pure: the run fails if all that is needed is in the plan."""

    def fails(plan: Mapping[str, Value]) -> Outcome:
        failed = {f"next:{number}" for number in needed} <= set(plan)
        return Outcome(scenario="x", seed=0, plan=dict(plan), digest="", invariant="held" if failed else "")

    failure = fails({f"next:{number}": "thread" for number in sorted(needed | others)})
    found = shrink(failure, fails)
    assert set(found.outcome.plan) == {f"next:{number}" for number in needed}


@pytest.mark.full
def test_the_command_line_finds_and_replays(tmp_path: Path) -> None:
    failure, out = _first_failure(), io.StringIO()
    arguments = ["--scenario", _PLANTED, "--out", str(tmp_path)]
    assert main([*arguments, "--seed", str(failure.seed)], out) == 1
    text = out.getvalue()
    path = tmp_path / f"{_PLANTED}-{failure.seed}.json"
    assert f"seed {failure.seed} violates acknowledged-is-kept" in text
    assert "shrunk from" in text
    assert "seeds a second" in text
    assert f"python -m simulation replay {path}" in text
    replayed = io.StringIO()
    assert main(["replay", str(path)], replayed) == 1
    assert "The same run: " in replayed.getvalue()
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "digest": "0" * 16}))
    assert main(["replay", str(path)], io.StringIO()) == 3


def test_a_run_that_breaks_the_simulation_is_an_outcome() -> None:
    outcome = run_isolated(Job(scenario="tests.unit.simulation.test_failures:nothing", seed=0))
    assert outcome.invariant == "simulation-works"
    assert "cannot be imported" in outcome.message
