"""The simulation's commands: ``python -m simulation replay BUNDLE``."""

from __future__ import annotations

import click

from simulation.incident.command import replay


@click.group()
def main() -> None:
    """Simulate the product, or replay one of its runs."""


main.add_command(replay)

if __name__ == "__main__":
    main(prog_name="python -m simulation")
