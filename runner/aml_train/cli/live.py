"""The lines at the bottom of a terminal: one for each running stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console

_BAR_WIDTH: Final = 16
_PER_SECOND: Final = 4
_MOST_NODES: Final = 10
"""Running nodes that have a line; a terminal of 24 lines has room for what is printed above."""


class _Bar(BarColumn):
    """A bar, once the amount of work is known."""

    def render(self, task: Task) -> Text:  # type: ignore[override]  # any renderable will do
        """Return the bar of *task*, or nothing."""
        return super().render(task) if task.total else Text("")  # type: ignore[return-value]


class _Elapsed(ProgressColumn):
    """Minutes and seconds since the stage began."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """Return the time of *task*."""
        minutes, seconds = divmod(int(task.elapsed or 0), 60)
        return Text(f"{minutes}:{seconds:02}", style="cyan")


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
            _Bar(bar_width=_BAR_WIDTH),
            TextColumn("{task.fields[amount]}", markup=False, table_column=Column(no_wrap=True)),
            _Elapsed(table_column=Column(no_wrap=True)),
        )
        self._progress = Progress(
            *columns, console=console, transient=True, expand=True, refresh_per_second=_PER_SECOND
        )
        self._tasks: dict[str, TaskID] = {}

    def start(self, stage: str, text: str, *, key: str = "") -> None:
        """Show a line for *stage*; *key* names it if the stage has several."""
        self.end(key or stage)
        self._tasks[key or stage] = self._progress.add_task(text, total=None, stage=stage, amount="")
        self._progress.start()

    def change(self, key: str, text: str) -> bool:
        """Change the text of a line, and restart its time; return whether it is there."""
        if key not in self._tasks:
            return False
        self._progress.reset(self._tasks[key], total=None, description=text)
        return True

    def advance(self, stage: str, text: str, *, done: int, total: int | None, amount: str) -> None:
        """Show how far *stage* is; *amount* says it for people."""
        if stage in self._tasks:
            self._progress.update(
                self._tasks[stage], description=text, completed=done, total=total or 0, amount=amount
            )

    def end(self, stage: str) -> None:
        """Remove the line of a stage or key; without any the terminal is as before."""
        if stage in self._tasks:
            self._progress.remove_task(self._tasks.pop(stage))
        if not self._tasks:
            self._progress.stop()

    def close(self) -> None:
        """Remove all lines."""
        for stage in list(self._tasks):
            self.end(stage)


class LiveNodes:
    """Shows the running nodes of a pipeline, or trials of a sweep, one on each line.

    Args:
        stages: the lines of the stages, below which they are.
        total: how many nodes there are; 0 if that is not known.
    """

    def __init__(self, stages: LiveStages, total: int) -> None:
        self._stages = stages
        self._total = total
        self._running: dict[str, None] = {}
        self._ended: set[str] = set()

    def change(self, run: str, text: str, *, ended: bool) -> None:
        """Show another status of the node whose run is *run*."""
        key = f"node {run}"
        if ended:
            self._ended.add(run)
            self._running.pop(run, None)
            self._stages.end(key)
        elif not self._stages.change(key, text) and len(self._running) < _MOST_NODES:
            self._running[run] = None
            self._stages.start("node", text, key=key)
        done = len(self._ended)
        amount = f"{done} of {self._total} nodes" if self._total else f"{done} ended"
        self._stages.advance("watch", "Follow the job", done=done, total=self._total or None, amount=amount)

    def close(self) -> None:
        """Remove their lines."""
        for run in self._running:
            self._stages.end(f"node {run}")
        self._running.clear()
