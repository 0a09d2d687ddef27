"""The command ``replay``: reproduce the ending of a recorded run."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from simulation.incident.bundle import ReplayError, read_bundle


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
def replay(bundle: Path) -> None:
    """Reproduce the ending of a run that `aml-train run --record` wrote.

    The exit code is 0 if ending and stages are the recorded ones, 1 if they differ, and 2 if BUNDLE cannot be replayed.
    """
    from simulation.incident.replay import replay as replayed

    try:
        found = replayed(read_bundle(bundle))
    except ReplayError as error:
        click.echo(f"replay: {error}", err=True)
        sys.exit(2)
    click.echo(str(found))
    sys.exit(0 if found.reproduced else 1)
