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
