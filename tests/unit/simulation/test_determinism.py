from __future__ import annotations

import importlib
import random
import sys
import tempfile
import time

import pytest

from simulation.isolation import run_all
from simulation.kernel import Decisions, Kernel, Moment, Network, Profile
from simulation.runs import Job, run
from simulation.scenario import Settings

_SEEDS = range(50)
_WORLD = "tests.support.simulated_world:Eventful"


@pytest.mark.full
def test_a_seed_has_one_trace_in_any_process_and_each_seed_another() -> None:
    jobs = [Job(scenario=_WORLD, seed=seed) for seed in _SEEDS]
    run(jobs[0])  # what is imported by the first run is imported
    here = [run(job) for job in jobs]
    there = {outcome.seed: outcome for outcome in run_all(jobs, workers=2)}
    assert [there[outcome.seed].digest for outcome in here] == [outcome.digest for outcome in here]
    assert [there[outcome.seed].plan for outcome in here] == [outcome.plan for outcome in here]
    assert [outcome.message for outcome in here if outcome.failed] == []
    assert len({outcome.digest for outcome in here}) == len(_SEEDS)
    # The world is worth the comparison: threads, faults and kills occur.
    assert sum(len(outcome.points) > 4 for outcome in here) > 10, "no process was killed and started again"
    assert sum("fault" in key for outcome in here for key in outcome.plan) > 100
    assert sum(key.startswith("lock:") for outcome in here for key in outcome.plan) > 100
    assert all(outcome.switches > 100 for outcome in here)


def test_a_plan_repeats_a_run() -> None:
    run(Job(scenario=_WORLD, seed=3))
    drawn = run(Job(scenario=_WORLD, seed=3))
    repeated = run(Job(scenario=_WORLD, seed=3, plan=drawn.plan))
    assert (repeated.digest, repeated.plan) == (drawn.digest, drawn.plan)


def test_modules_that_a_run_imports_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    run(Job(scenario=_WORLD, seed=3))
    assert run(Job(scenario=_WORLD, seed=3)).late == []
    monkeypatch.delitem(sys.modules, "concurrent.futures.process", raising=False)
    monkeypatch.setattr(
        "tests.support.simulated_world.World._ask",
        lambda *_: str(importlib.import_module("concurrent.futures.process")),
    )
    assert "concurrent.futures.process" in run(Job(scenario=_WORLD, seed=3)).late


class _Files:
    """Makes temporary files, which a kill leaves."""

    def __init__(self) -> None:
        self.settings = Settings(profile=lambda _rng: Profile(kill=0.2))

    def build(self, kernel: Kernel, _network: Network, _rng: random.Random) -> None:
        kernel.process("program", lambda: self._main(kernel), killable=True, restart=True)

    def _main(self, kernel: Kernel) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kernel.note(folder)
            time.sleep(1)

    def check(self, _moment: Moment) -> None:
        return


def files() -> _Files:
    return _Files()


def test_names_of_temporary_files_are_those_of_the_seed() -> None:
    job = Job(scenario=f"{__name__}:files", seed=1, trace=True)
    first, second = run(job), run(job)
    assert first.lines == second.lines
    assert any("-1/tmp" in line for line in first.lines)


def test_streams_are_separate() -> None:
    first = Decisions(1)
    numbers = [first.stream("a").random(), first.stream("b").random()]
    first.choose("key", lambda rng: rng.random())
    assert [first.stream("a").random(), first.stream("b").random()] == numbers
    assert Decisions(2).stream("a").random() != numbers[0]
