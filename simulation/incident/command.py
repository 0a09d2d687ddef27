"""Replay a bundle on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from simulation.incident.bundle import ReplayError, read_bundle


def replay_bundle(bundle: Path) -> int:
    """Reproduce the ending of a run that `aml-train run --record` wrote.

    Returns:
        0 if ending and stages are the recorded ones, 1 if they differ, and 2 if the bundle cannot be replayed.
    """
    from simulation.incident.replay import replay

    try:
        found = replay(read_bundle(bundle))
    except ReplayError as error:
        print(f"replay: {error}", file=sys.stderr)
        return 2
    print(found)
    return 0 if found.reproduced else 1
