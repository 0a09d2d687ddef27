"""The command line: ``python -m simulation``."""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TextIO

from simulation.files import read_failure, write_failure
from simulation.isolation import HANGS, run_all, run_isolated
from simulation.kernel import Plan, SimulationError
from simulation.runs import Job, Outcome
from simulation.scenario import DEFAULT, SCENARIOS, load
from simulation.shrink import shrink

_DESCRIPTION: Final = """\
Run the product against simulated services, with faults drawn from a seed.

The same seed gives the same run: which thread continues, which request is lost, which process is killed, and when. A
failure is shrunk to the choices that it needs, printed as a schedule, and written to a file that `replay` repeats."""
_EXAMPLES: Final = """\
examples:
  python -m simulation --seed 7                     one run; a failure is printed
  python -m simulation --seeds 0-9999 --workers 2   many runs, in two processes
  python -m simulation --minutes 10                 as many seeds as fit into ten minutes, from 0 on
  python -m simulation --seeds 5000- --minutes 10   the same, from seed 5000 on
  python -m simulation --seed 7 --trace             each switch between threads, too
  python -m simulation replay .aml-train/simulation/world-7.json
  python -m simulation planted --workers 2          search for each of the planted bugs, 10 minutes at most for one
  python -m simulation planted job-runs-in-a-tag    one of them

exit codes: 0 all invariants hold; 1 one does not; 2 the arguments or a file are wrong; 3 a replay took another course"""
#: Real seconds between two lines of progress.
_PROGRESS: Final = 10.0
_LINES: Final = 400


def _arguments() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m simulation", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=raw
    )
    parser.add_argument(
        "command",
        nargs="?",
        choices=["replay", "planted"],
        help="repeat the run of a file; search for planted bugs; default: run seeds",
    )
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="of `replay`: what a failure wrote; of `planted`: the name of one bug",
    )
    parser.add_argument(
        "--scenario", default=DEFAULT, metavar="NAME", help=f"{', '.join(SCENARIOS)} [default: {DEFAULT}]"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, metavar="N", help="one seed")
    which.add_argument("--seeds", type=_range, metavar="A-B", help="the seeds from A to B; `A-` has no end")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no run after so many minutes")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="runs at once [default: 1]")
    parser.add_argument(
        "--trace", action="store_true", help="print each switch between threads, not only what matters"
    )
    parser.add_argument("--first", action="store_true", help="end after the first failure")
    parser.add_argument("--no-shrink", action="store_true", help="print failures as they were found")
    parser.add_argument(
        "--shrink-minutes", type=float, default=2.0, metavar="M", help="for each failure [default: 2]"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(".aml-train/simulation"),
        metavar="DIR",
        help="for files of failures [default: %(default)s]",
    )
    return parser


def _range(text: str) -> Iterable[int]:
    first, separator, last = text.partition("-")
    if not (first.isdecimal() and separator and (last.isdecimal() or not last)):
        raise argparse.ArgumentTypeError(f"{text!r} is no range such as 0-99 or 100-")
    return range(int(first), int(last) + 1) if last else itertools.count(int(first))


def main(argv: Sequence[str], out: TextIO | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = _arguments()
    options = parser.parse_args(argv)
    screen = _Screen(out or sys.stdout)
    if options.command == "replay" and options.file is None:
        parser.error("`replay` needs a FILE")
    if options.workers < 1:
        parser.error("--workers is at least 1")
    if options.seeds is not None and not isinstance(options.seeds, range) and options.minutes is None:
        parser.error("seeds without an end need --minutes")
    try:
        if options.command == "replay":
            return _replay(options, screen)
        if options.command == "planted":
            return _planted(options, screen)
        load(options.scenario)
        return _run(options, screen)
    except SimulationError as error:
        print(f"python -m simulation: {error}", file=sys.stderr)
        return 2


class _Screen:
    """Prints lines at once."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def line(self, text: str = "") -> None:
        print(text, file=self._out, flush=True)

    def failure(self, outcome: Outcome) -> None:
        """Print the schedule of a failure."""
        lines = outcome.lines
        if len(lines) > _LINES:
            self.line(f"… {len(lines) - _LINES} earlier lines")
        for line in lines[-_LINES:]:
            self.line(line)
        self.line(f"{outcome.invariant}: {outcome.message}")


def _replay(options: argparse.Namespace, screen: _Screen) -> int:
    job, digest, invariant = read_failure(options.file)
    load(job.scenario)
    outcome = run_isolated(Job(scenario=job.scenario, seed=job.seed, plan=job.plan, trace=options.trace))
    screen.failure(outcome)
    if outcome.digest != digest:
        screen.line(f"The run took another course than that of the file: its hash is {outcome.digest}, not {digest}.")
        screen.line("The code has changed since, or something is not simulated.")
        return 3
    screen.line(f"The same run: {digest}, {outcome.switches} switches, {outcome.seconds:.3f} virtual seconds.")
    return int(outcome.invariant == invariant)


def _planted(options: argparse.Namespace, screen: _Screen) -> int:
    """Search for planted bugs; return 1 if one is not found."""
    from simulation.planted import MINUTES, read_bugs, search, table

    minutes = MINUTES if options.minutes is None else options.minutes
    found = []
    for bug in read_bugs(None if options.file is None else str(options.file)):
        found.append(search(bug, minutes=minutes, workers=options.workers))
        screen.line(found[-1].line)
    screen.line()
    screen.line(table(found))
    missed = sum(not one.invariant for one in found)
    screen.line(f"{len(found) - missed} of {len(found)} planted bugs were found, each within {minutes:g} minutes")
    return int(bool(missed))


def _run(options: argparse.Namespace, screen: _Screen) -> int:
    began = time.monotonic()
    jobs = _bounded(_jobs(options), None if options.minutes is None else began + 60 * options.minutes)
    count, switches, seconds, shown = 0, 0, 0.0, began
    failures: list[Outcome] = []
    for outcome in run_all(jobs, workers=options.workers):
        count, switches, seconds = count + 1, switches + outcome.switches, seconds + outcome.seconds
        if outcome.failed:
            screen.line(f"seed {outcome.seed} violates {outcome.invariant}")
            failures.append(outcome)
            if options.first:
                break
        if (now := time.monotonic()) - shown >= _PROGRESS:
            shown = now
            speed = count / (now - began)
            screen.line(
                f"{count} runs, {len(failures)} failed, {speed:.1f} seeds a second, the latest is {outcome.seed}"
            )
        if options.trace and not outcome.failed:
            for line in outcome.lines:
                screen.line(line)
    took = max(time.monotonic() - began, 1e-9)
    commands = [_report(failure, options, screen) for failure in failures]
    screen.line(
        f"{count} runs in {took:.1f} s: {count / took:.1f} seeds a second, {switches} switches, "
        f"{seconds / 3600:.1f} virtual hours; {len(failures)} failed"
    )
    for command in commands:
        screen.line(command)
    return int(bool(failures))


def _jobs(options: argparse.Namespace) -> Iterator[Job]:
    seeds = [options.seed] if options.seed is not None else options.seeds
    if seeds is None:
        seeds = range(1) if options.minutes is None else itertools.count()
    for seed in seeds:
        yield Job(scenario=options.scenario, seed=seed, trace=options.trace)


def _bounded(jobs: Iterator[Job], end: float | None) -> Iterator[Job]:
    for job in jobs:
        if end is not None and time.monotonic() > end:
            return
        yield job


def _report(failure: Outcome, options: argparse.Namespace, screen: _Screen) -> str:
    """Shrink a failure, print its schedule, and write its file.

    Return the command that repeats it.
    """
    if not options.no_shrink and failure.digest:
        failure = _shrunk(failure, options, screen)
    path = write_failure(options.out, failure)
    screen.line()
    screen.line(f"seed {failure.seed} of {failure.scenario}")
    screen.failure(failure)
    screen.line()
    return f"seed {failure.seed} ({failure.invariant}): python -m simulation replay {path}"


def _shrunk(failure: Outcome, options: argparse.Namespace, screen: _Screen) -> Outcome:
    end = time.monotonic() + 60 * options.shrink_minutes

    def again(plan: Plan) -> Outcome:
        return run_isolated(Job(scenario=failure.scenario, seed=failure.seed, plan=plan), hangs=HANGS)

    same = again(failure.plan)
    if same.digest != failure.digest:
        screen.line(f"seed {failure.seed} is not repeatable: {failure.digest}, then {same.digest}; it is not shrunk")
        return failure
    found = shrink(same, again, more=lambda _tried: time.monotonic() < end)
    left = "" if found.complete else "; there was no time for more"
    screen.line(f"shrunk from {len(failure.plan)} choices to {len(found.outcome.plan)} in {found.tried} runs{left}")
    return found.outcome
