"""The time that the command line takes to start, beyond bare Python.

Usage: ``python -m benchmarks.startup [--rounds N]``.

Goals: ``aml-train --help`` at most 150 ms and ``aml-train validate`` at most 300 ms more than ``python -c pass``,
with compiled bytecode.
"""

from __future__ import annotations

import argparse
import compileall
import statistics
import sys

from benchmarks.measuring import AML_TRAIN, ROOT, make_row, print_table, time_in_turns


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=21, help="runs of each command  [default: 21]")
    rounds = parser.parse_args().rounds
    for folder in ("runner", "action"):
        compileall.compile_dir(ROOT / folder, quiet=2)
    times = time_in_turns(
        {
            "python -c pass": [sys.executable, "-c", "pass"],
            "aml-train --help": [AML_TRAIN, "--help"],
            "aml-train validate": [AML_TRAIN, "validate", "-C", "examples/digits"],
        },
        rounds=rounds,
    )
    bare = statistics.median(times["python -c pass"])
    baseline = make_row("python -c pass", times["python -c pass"])
    rows = (
        baseline,
        make_row("aml-train --help", times["aml-train --help"], baseline=bare, more=0.150),
        make_row("aml-train validate", times["aml-train validate"], baseline=bare, more=0.300),
    )
    print_table(f"Start-up: medians of {rounds} runs in turns, against python -c pass", rows, baseline=baseline)


if __name__ == "__main__":
    main()
