"""Run the simulation: ``python -m simulation --help``."""

from __future__ import annotations

import os
import sys

from simulation.cli import main


def _same_hashes() -> None:
    """Start again with fixed hashes of texts, on which the order of sets depends."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]], environment)  # noqa: S606


if __name__ == "__main__":
    _same_hashes()
    sys.exit(main(sys.argv[1:]))
