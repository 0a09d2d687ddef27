"""The lines at the bottom of a terminal: one for each running stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

if TYPE_CHECKING:
    from rich.console import Console

_BAR_WIDTH: Final = 16
_PER_SECOND: Final = 4


class LiveStages:
    """Shows each running stage on one line: what it does, how far it is, since when.

    The lines fit the terminal's width. They are below everything else that the console prints, and are gone afterwards.

    Args:
        console: a terminal.
        name_width: characters of the column with the stages' names.
    """

    def __init__(self, console: Console, name_width: int) -> None:
        columns = (
            TextColumn("[bold]▸ {task.fields[stage]}", table_column=Column(no_wrap=True, min_width=name_width + 2)),
            TextColumn(
                "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)
            ),
            BarColumn(bar_width=_BAR_WIDTH),
            TextColumn("{task.fields[amount]}", markup=False, table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
        )
        self._progress = Progress(
            *columns, console=console, transient=True, expand=True, refresh_per_second=_PER_SECOND
        )
        self._tasks: dict[str, TaskID] = {}

    def start(self, stage: str, text: str) -> None:
        """Show a line for *stage*."""
        self.end(stage)
        self._tasks[stage] = self._progress.add_task(text, total=None, stage=stage, amount="")
        self._progress.start()

    def advance(self, stage: str, text: str, *, done: int, total: int | None, amount: str) -> None:
        """Show how far *stage* is; *amount* says it for people."""
        if stage in self._tasks:
            self._progress.update(self._tasks[stage], description=text, completed=done, total=total, amount=amount)

    def end(self, stage: str) -> None:
        """Remove the line of a stage; without any the terminal is as before."""
        if stage in self._tasks:
            self._progress.remove_task(self._tasks.pop(stage))
        if not self._tasks:
            self._progress.stop()

    def close(self) -> None:
        """Remove all lines."""
        for stage in list(self._tasks):
            self.end(stage)
