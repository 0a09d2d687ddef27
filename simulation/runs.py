"""One run of a scenario."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from unittest import mock

from simulation.kernel import Decisions, Kernel, Network, Plan, Profile, Violation, installed
from simulation.kernel.decisions import Value
from simulation.scenario import load


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a run.

    Attributes:
        scenario, seed: of the run.
        plan: the choices that were not the usual ones.
        digest: the hash of its trace.
        invariant: the one that was violated; empty if all held.
        message: what was seen of that.
        switches, seconds: how long it was, in switches between threads and in virtual seconds.
        lines: the trace, for readers.
        late: modules that were imported during the run. They make it differ from the next run in the same interpreter.
    """

    scenario: str
    seed: int
    plan: dict[str, Value]
    digest: str
    invariant: str = ""
    message: str = ""
    switches: int = 0
    seconds: float = 0.0
    lines: list[str] = dataclasses.field(default_factory=list)
    late: list[str] = dataclasses.field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether an invariant was violated."""
        return bool(self.invariant)

    def as_json(self) -> dict[str, Any]:
        """Return the outcome for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def of_json(cls, document: dict[str, Any]) -> Self:
        """Return what :meth:`as_json` wrote."""
        return cls(**document)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A run to make.

    Attributes:
        scenario, seed: which one.
        plan: the choices to repeat; None draws them.
        trace: whether each switch between threads is among the lines.
    """

    scenario: str
    seed: int
    plan: Plan | None = None
    trace: bool = False


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock of the operating system on a file that exists meanwhile."""
    held = False
    while True:
        with path.open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # The one before may have removed the file that was waited for.
            with suppress(FileNotFoundError):
                held = path.stat().st_ino == os.fstat(file.fileno()).st_ino
            if held:
                try:
                    yield
                finally:
                    path.unlink()
                return


@contextmanager
def _temporary_files(job: Job) -> Iterator[None]:
    """Give the run an empty folder for temporary files.

    Its name follows from the run: the names of files may reach a request. It is empty, because ``tempfile`` draws another name
    if one exists, and killed processes leave theirs. A process that makes the same run at the same time is waited for.
    """
    top = Path(tempfile.gettempdir()) / f"aml-train-simulation-{os.getuid()}"
    folder = top / f"{job.scenario.replace('/', '.')}-{job.seed}"
    top.mkdir(exist_ok=True)
    with _locked(Path(f"{folder}.lock")):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            with mock.patch.object(tempfile, "tempdir", str(folder)):
                yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def run(job: Job, *, bury: bool = True) -> Outcome:
    """Run a scenario once.

    Args:
        job: which one.
        bury: False if the process of the operating system ends afterwards.
    """
    make = load(job.scenario)
    decisions = Decisions(job.seed, job.plan)
    kernel = Kernel(decisions)
    found: Violation | None = None
    before = set(sys.modules)
    with _temporary_files(job), installed(kernel, bury=bury):
        scenario = make()  # here, because the locks that it makes must be the kernel's
        settings = scenario.settings
        kernel.limits, kernel.checker = settings.limits, scenario.check
        # A plan has all choices: what was drawn before is not drawn again.
        kernel.profile = settings.profile(decisions.stream("profile")) if job.plan is None else Profile()
        kernel.separate(settings.slots)
        try:
            with settings.around():
                scenario.build(kernel, Network(kernel), decisions.stream("scenario"))
                kernel.run(settings.linger)
        except Violation as violation:
            found = violation
        late = sorted(set(sys.modules) - before)
        return Outcome(
            scenario=job.scenario,
            seed=job.seed,
            plan=decisions.made,
            digest=kernel.trace.digest(),
            invariant=found.invariant if found else "",
            message=found.message if found else "",
            switches=kernel.switches,
            seconds=round(kernel.now / 1e9, 6),
            lines=list(kernel.trace.lines(everything=job.trace))
            if found or job.trace or job.plan is not None
            else [],
            late=late,
        )
