"""Running commands side by side, and showing what came of it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AML_TRAIN = str(Path(sys.executable).parent / "aml-train")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table.

    Attributes:
        name: what was measured.
        seconds: the median.
        spread: the least and the greatest.
        goal: what the figure should be at most, in words; empty for a baseline.
        met: whether it is; None for a baseline.
    """

    name: str
    seconds: float
    spread: tuple[float, float]
    goal: str = ""
    met: bool | None = None


def time_command(argv: Sequence[str], *, environment: Mapping[str, str] | None = None) -> float:
    """Run a command to its end and return the seconds it took.

    Raises:
        subprocess.CalledProcessError: if it fails; its output is in the exception.
    """
    begin = time.perf_counter()
    subprocess.run(
        list(argv),
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return time.perf_counter() - begin


def resident_megabytes(process: subprocess.Popen[str] | None) -> float:
    """Return the resident memory of a process, megabytes."""
    if process is None:
        raise RuntimeError("the process does not run")
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1000


def time_in_turns(commands: Mapping[str, Sequence[str]], *, rounds: int) -> dict[str, list[float]]:
    """Run each command once per round, in turns; one round warms up.

    A busy moment of the machine then affects all of them.
    """
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, argv in commands.items():
            seconds = time_command(argv)
            if number:
                times[name].append(seconds)
    return times


def time_first_line(argv: Sequence[str]) -> float:
    """Run a command, and return the seconds until the first line of its output.

    Raises:
        subprocess.CalledProcessError: if it fails; its output is in the exception.
    """
    begin = time.perf_counter()
    with subprocess.Popen(
        list(argv), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        if process.stdout is None:
            raise RuntimeError("the process has no output")
        first = process.stdout.readline()
        seconds = time.perf_counter() - begin
        rest = process.stdout.read()
    if process.returncode != 0 or not first:
        raise subprocess.CalledProcessError(process.returncode, list(argv), first + rest)
    return seconds


def first_lines_in_turns(commands: Mapping[str, Sequence[str]], *, rounds: int) -> dict[str, list[float]]:
    """Time each command's first line once per round, in turns; one round warms up."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, argv in commands.items():
            seconds = time_first_line(argv)
            if number:
                times[name].append(seconds)
    return times


def make_row(name: str, times: Sequence[float], *, baseline: float = 0.0, more: float | None = None) -> Row:
    """Make the line for *times*; *more* is the goal in seconds beyond *baseline*."""
    median = statistics.median(times)
    spread = (min(times), max(times))
    if more is None:
        return Row(name=name, seconds=median, spread=spread)
    beyond = median - baseline
    goal = f"{beyond * 1000:+.0f} ms, goal {more * 1000:+.0f}" if more < 1 else f"{beyond:+.2f} s, goal {more:+.0f}"
    return Row(name=name, seconds=median, spread=spread, goal=goal, met=beyond <= more)


def print_table(title: str, rows: Sequence[Row], *, baseline: Row | None = None) -> None:
    """Print medians, ratios to *baseline*, and how the goals were met."""
    width = max(len(row.name) for row in rows)
    print(f"\n{title}")
    for row in rows:
        ratio = f"{row.seconds / baseline.seconds:8.2f} x" if baseline else ""
        verdict = "" if row.met is None else ("   met" if row.met else "   MISSED")
        low, high = row.spread
        figures = f"{row.seconds:8.3f} s  ({low:.3f} to {high:.3f})"
        print(f"  {row.name:<{width}}  {figures}{ratio}   {row.goal}{verdict}".rstrip())
