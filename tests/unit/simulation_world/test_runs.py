"""The world under the scheduler: calm runs end as they should, and seeds with faults break no invariant."""

from __future__ import annotations

import pytest

from simulation.isolation import run_all, run_isolated
from simulation.kernel.install import SUPPORTED
from simulation.runs import Job, Outcome
from simulation.scenario import SCENARIOS, load
from simulation.world import scenarios

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="the kernel knows the threads of Python 3.11 and 3.12")

_SEEDS = range(3)
#: In a run without faults: scenario → how the commands end, in the order of their names.
CALM = {
    "one_client": ["client-1 0 passed"],
    "same_commit": ["client-0 0 passed", "client-1 0 passed", "client-2 0 passed"],
    "same_moment": ["client-0 0 passed", "client-1 0 passed", "client-2 0 passed"],
    "branches": ["client-better 0 passed", "client-main 0 passed", "client-worse 6 gate-failed"],
    "restarted": ["client-1 0 passed"],
    "failing": [
        "client-cancelled 7 cancelled",
        "client-engine 3 image-failed",
        "client-gate 6 gate-failed",
        "client-job 5 job-failed",
        "client-metric 6 gate-failed",
        "client-model 5 job-failed",
        "client-tests 4 tests-failed",
    ],
}


@pytest.fixture(autouse=True)
def loaded() -> None:
    load("world")


def calm(name: str, seed: int = 1) -> Outcome:
    return run_isolated(Job(scenario=f"world-{name.replace('_', '-')}", seed=seed, plan={}))


def ends(outcome: Outcome) -> list[str]:
    found = []
    for line in outcome.lines:
        head, separator, rest = line.partition(" ends with ")
        if separator and " note " in head:
            found.append(f"{head.rpartition(' ')[2]} {' '.join(rest.split(' ')[:2])}")
    return sorted(found)


def test_each_scenario_of_the_world_has_a_name() -> None:
    named = {name.removeprefix("world-").replace("-", "_") for name in SCENARIOS if name.startswith("world-")}
    assert named == set(scenarios.SCENARIOS)


def test_all_scenarios_can_be_made() -> None:
    assert all(load(name)().settings for name in SCENARIOS)


@pytest.mark.parametrize(
    "name", ["one_client", "failing", *(pytest.param(name, marks=pytest.mark.full) for name in sorted(CALM))]
)
def test_a_run_without_faults_ends_as_it_should(name: str) -> None:
    outcome = calm(name)
    assert outcome.message == ""
    assert ends(outcome) == CALM[name]
    assert outcome.late == [], "list these in simulation/scenarios/imports.py"


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(set(scenarios.SCENARIOS) - set(CALM)))
def test_a_run_without_faults_breaks_no_invariant(name: str) -> None:
    outcome = calm(name)
    assert outcome.message == ""
    assert len(ends(outcome)) >= 2
    assert outcome.late == [], "list these in simulation/scenarios/imports.py"


def test_a_seed_has_one_trace() -> None:
    job = Job(scenario="world-same-moment", seed=5)
    first, second = run_all([job, job], workers=2)
    assert first.plan, "the seed draws faults"
    assert (first.digest, first.plan) == (second.digest, second.plan)


def test_seeds_break_no_invariant() -> None:
    check(_SEEDS)


@pytest.mark.full
def test_three_hundred_seeds_break_no_invariant() -> None:
    check(range(1000, 1300))


def check(seeds: range) -> None:
    outcomes = list(run_all([Job(scenario="world", seed=seed) for seed in seeds], workers=2))
    failed = {outcome.seed: f"{outcome.invariant}: {outcome.message}" for outcome in outcomes if outcome.failed}
    assert failed == {}, "python -m simulation --seed N prints the schedule"
    assert len(outcomes) == len(seeds)
    assert {name for outcome in outcomes for name in outcome.late} == set()
