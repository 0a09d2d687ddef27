from __future__ import annotations

import random
import tempfile
import time

from simulation.kernel import Decisions, Kernel, Moment, Network, Profile
from simulation.runs import Job, run
from simulation.scenario import Settings


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
