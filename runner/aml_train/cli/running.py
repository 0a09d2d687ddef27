"""What the commands that execute a plan have in common."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from aml_train.pipeline import PreparedRun, RunOptions

events_file = click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write every event as a line of JSON.",
)
colors = click.option("--no-color", is_flag=True, help="No colours on a terminal.  [also: NO_COLOR=1]")


def execute(prepared: PreparedRun, options: RunOptions, json_file: Path | None, *, no_color: bool) -> int:
    """Execute the plan on the console; return the exit code."""
    from aml_train.cli.console import ConsoleListener
    from aml_train.core.streams import lasting_output
    from aml_train.pipeline import json_listener, run_prepared

    console = ConsoleListener(lasting_output(sys.stdout, sys.stderr), color=False if no_color else None)
    with json_listener(json_file) as recorders, contextlib.closing(console):
        return run_prepared(prepared, options, listeners=(console, *recorders)).exit_code


@contextlib.contextmanager
def terminate_like_interrupt() -> Iterator[None]:
    """Let SIGTERM end the run as Ctrl-C does: CI services send it to cancel a workflow."""

    def interrupt(_signal: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
