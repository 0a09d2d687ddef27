"""A run is repeatable; a failure is found, shrunk, written and repeated."""

from __future__ import annotations

import io
import json
import random
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from simulation.cli import main
from simulation.isolation import run_isolated
from simulation.kernel import Decisions, Kernel, Moment, Network, Profile, Violation
from simulation.kernel.decisions import Value
from simulation.runs import Job, Outcome, run
from simulation.scenario import Settings
from simulation.shrink import shrink

_ONCE = f"{__name__}:Once"


class Once:
    """A program with a temporary file, which a kill leaves; it must not start twice."""

    def __init__(self) -> None:
        self.settings = Settings(profile=lambda _rng: Profile(kill=0.2))
        self._starts = 0

    def build(self, kernel: Kernel, _network: Network, _rng: random.Random) -> None:
        kernel.process("program", lambda: self._main(kernel), killable=True, restart=True)

    def _main(self, kernel: Kernel) -> None:
        self._starts += 1
        for _ in range(5):
            with tempfile.TemporaryDirectory() as folder:
                kernel.note(folder)
                time.sleep(1)

    def check(self, _moment: Moment) -> None:
        if self._starts > 1:
            raise Violation("starts-once", f"it started {self._starts} times")


def test_names_of_temporary_files_are_those_of_the_seed() -> None:
    job = Job(scenario=_ONCE, seed=1, trace=True)
    first, second = run(job), run(job)
    assert first.lines == second.lines
    assert any("-1/tmp" in line for line in first.lines)


def test_streams_are_separate() -> None:
    first = Decisions(1)
    numbers = [first.stream("a").random(), first.stream("b").random()]
    first.choose("key", lambda rng: rng.random())
    assert [first.stream("a").random(), first.stream("b").random()] == numbers
    assert Decisions(2).stream("a").random() != numbers[0]


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


def test_the_command_line_finds_shrinks_and_replays(tmp_path: Path) -> None:
    seed = next(seed for seed in range(200) if run(Job(scenario=_ONCE, seed=seed)).failed)
    out, replayed = io.StringIO(), io.StringIO()
    assert main(["--scenario", _ONCE, "--out", str(tmp_path), "--seed", str(seed)], out) == 1
    text = out.getvalue()
    (path,) = tmp_path.glob("*.json")
    assert f"seed {seed} violates starts-once" in text
    assert "shrunk from" in text
    assert f"python -m simulation replay {path}" in text
    document = json.loads(path.read_text())
    assert len([key for key in document["plan"] if key.startswith("kill:program:")]) == len(document["plan"]) == 1
    assert main(["replay", str(path)], replayed) == 1
    assert "The same run: " in replayed.getvalue()
    path.write_text(json.dumps({**document, "digest": "0" * 16}))
    assert main(["replay", str(path)], io.StringIO()) == 3


def test_a_run_that_breaks_the_simulation_is_an_outcome() -> None:
    outcome = run_isolated(Job(scenario="tests.unit.simulation.test_failures:nothing", seed=0))
    assert outcome.invariant == "simulation-works"
    assert "cannot be imported" in outcome.message
