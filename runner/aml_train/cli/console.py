"""The console: a listener that shows a run, on a terminal or as plain lines."""

from __future__ import annotations

import datetime
from collections import deque
from typing import TYPE_CHECKING, Final, Literal, TextIO

from rich.console import Console
from rich.text import Text

from aml_train.cli.live import LiveStages
from aml_train.cli.output import printable_line
from aml_train.cli.tables import comparison_table, logged_tables, tag_table
from aml_train.core import events
from aml_train.core.text import duration, printable, printable_lines
from aml_train.jobs.states import JobStatus, headline
from aml_train.report.event_lines import facts_of, lines_of

if TYPE_CHECKING:
    from aml_train.core.comparison import Comparison

_PROGRESS_EVERY: Final = datetime.timedelta(seconds=15)
_NAME_WIDTH: Final = 9
_LABEL: Final = 80
_MOST_METRICS: Final = 20
#: Lines of a build that are shown if it fails.
_FOLDED: Final = 200
STYLES: Final = {"✓": "green", "✗": "red", "!": "yellow", "·": "cyan", "▸": "bold", "│": "dim"}
"""Sign → its colour, in rich's and click's words."""

_VERDICTS: Final = {0: "green", 6: "yellow", 7: "yellow"}

Part = tuple[str, str]
"""A text with its style in rich's words; empty for none."""

Verbosity = Literal["quiet", "normal", "verbose"]
"""``quiet`` shows warnings and the result only, ``verbose`` all output of a build on terminals, too."""


class ConsoleListener:
    """Shows events on *file*.

    Args:
        file: where to write; a terminal gets colours, a line for each running stage, and the output of a build only if it fails.
        verbosity: how much is shown.
    """

    def __init__(self, file: TextIO, *, verbosity: Verbosity = "normal") -> None:
        self._console = Console(file=file, highlight=False, soft_wrap=True, emoji=False)
        self._verbosity = verbosity
        self._live: LiveStages | None = None
        self._planned = 0
        self._ended_nodes: set[str] = set()
        self._folded: deque[str] = deque(maxlen=_FOLDED)
        self._shown: dict[str, datetime.datetime] = {}
        self._rows: list[tuple[str, float]] = []
        self._facts: dict[str, str] = {}
        self._settled: events.MetricsSettled | None = None
        self._comparison: Comparison | None = None
        self._streamed: set[str] = set()
        self._log_is_above = False

    def __call__(self, event: events.Event) -> None:
        """Show one event."""
        quiet = self._verbosity == "quiet"
        self._facts |= dict(facts_of(event))
        match event:
            case events.RunFinished():
                self._finish(event)
            case events.StageStarted() if not quiet:
                self._start(event)
            case events.StageFinished() if not quiet:
                if self._live is not None:
                    self._live.end(event.stage)
                if event.stage == "image":
                    self._folded.clear()
                self._rows.append((event.stage, event.seconds))
            case events.Progress() if not quiet:
                self._progress(event)
            case events.LogLine() if not quiet:
                self._line(event)
            case events.LogLines() if not quiet:
                self._lines(event)
            case events.NodeChanged() if not quiet:
                self._node(event)
            case events.GraphPlanned():
                self._planned = len(event.nodes)
            case events.MetricsSettled():
                self._settled = event
            case events.LogsEnded():
                # The lines of several logs are mixed: their last lines are shown again.
                self._log_is_above = len(event.tails) == 1 and event.tails[0].origin in self._streamed
            case events.BaselineCompared():
                self._comparison = event.comparison
            case events.PromotionDecided() if not quiet:
                self._propose(event)
        for sign, about, text in lines_of(event):
            if not quiet or sign in "✗!":
                self._say(sign, about, text)

    def close(self) -> None:
        """Remove the lines of running stages from the terminal."""
        if self._live is not None:
            self._live.close()

    def _print(self, *parts: Part, end: str = "\n") -> None:
        # Text objects are never read as markup: foreign output cannot style itself.
        self._console.print(Text.assemble(*parts), end=end)

    def _start(self, event: events.StageStarted) -> None:
        if not self._console.is_terminal:
            self._say("▸", event.stage, event.title)
            return
        if self._live is None:
            self._live = LiveStages(self._console, _NAME_WIDTH)
        self._live.start(event.stage, printable_line(event.title))

    def _node(self, event: events.NodeChanged) -> None:
        """Show on a terminal, next to the stage, how many nodes have ended."""
        if JobStatus(event.status).final:
            self._ended_nodes.add(event.run)
        if self._live is not None:
            done, total = len(self._ended_nodes), self._planned or None
            amount = f"{done} of {total} nodes" if total else f"{done} ended"
            self._live.advance("watch", "Follow the job", done=done, total=total, amount=amount)

    def _line(self, event: events.LogLine) -> None:
        if event.source == "build" and self._live is not None and self._verbosity == "normal":
            self._folded.append(event.text)
            return
        self._say("│", event.source, event.text)

    def _lines(self, event: events.LogLines) -> None:
        """Show many lines of a log at a time: rendering each takes longer than the job."""
        self._streamed.add(event.origin)
        label = f"{printable(event.label)}: " if event.label else ""
        # An escape sequence without an end must not swallow the next lines.
        text = printable_lines(event.text) if "\x1b" in event.text else printable(event.text)
        bar = f"│ {event.source:<{_NAME_WIDTH}}"
        if not self._console.is_terminal:
            head = bar + label
            self._console.file.write(head + text.replace("\n", "\n" + head) + "\n")
            self._console.file.flush()
            return
        # As one text, many lines take one rendering.
        parts = [part for line in text.split("\n") for part in ((bar, "dim"), (f"{label}{line}\n", ""))]
        self._print(*parts, end="")

    def _say(self, sign: str, about: str, text: str) -> None:
        style = STYLES[sign]
        self._print(
            (f"{sign} ", style), (f"{about:<{_NAME_WIDTH}}", style), (printable(text), style if sign in "✗!" else "")
        )

    def _progress(self, event: events.Progress) -> None:
        if not self._console.is_terminal:
            last = self._shown.setdefault(event.stage, event.at)
            if event.at - last >= _PROGRESS_EVERY:
                self._shown[event.stage] = event.at
                self._say("·", event.stage, f"{event.label[:_LABEL]}: {event.amount}")
            return
        if self._live is not None:
            self._live.advance(
                event.stage,
                printable_line(event.label),
                done=event.done,
                total=event.total,
                amount=event.amount,
            )

    def _finish(self, event: events.RunFinished) -> None:
        self.close()
        for text in self._folded:
            self._say("│", "build", text)
        self._print()
        if self._rows:
            self._row("time", ", ".join(f"{name} {duration(seconds)}" for name, seconds in self._rows))
        for name, value in self._facts.items():
            self._row(name, value)
        if (settled := self._settled) is not None:
            metrics = sorted(settled.metrics.items())
            shown = "  ".join(f"{name}={value:.6g}" for name, value in metrics[:_MOST_METRICS])
            more = len(metrics) - _MOST_METRICS
            if metrics:
                self._row("metrics", shown + (f"  and {more} more" if more > 0 else ""))
            for line in logged_tables(settled.tables, settled.more_tables):
                self._print((f"  {line}", ""))
        if self._comparison is not None:
            self._compare(self._comparison)
        style = _VERDICTS.get(event.exit_code, "red")
        self._print((event.status, f"bold {style}"), (f" (exit code {event.exit_code})", style))
        message = headline(event.message) if self._log_is_above else event.message
        self._print((printable_lines(message), ""))
        if event.hint:
            self._print((printable_lines(event.hint), "cyan"))

    def _propose(self, event: events.PromotionDecided) -> None:
        """Show what a promotion compares and would change: a question may follow."""
        self.close()
        if self._comparison is not None:
            self._compare(self._comparison)
            self._comparison = None
        there = f" in the workspace {printable_line(event.workspace)}" if event.workspace else ""
        self._print((f"tags of {printable_line(event.model)}", "bold"), (f" that change{there}", ""))
        for line in tag_table(event.changes):
            self._print((f"  {line}", ""))

    def _compare(self, comparison: Comparison) -> None:
        title = printable_line(comparison.right.title)
        self._print(("compared with the baseline", "bold"), (f", {title}", ""))
        head = ("", "this job", "baseline", "difference")
        width = self._console.width - len("  ") if self._console.is_terminal else None
        for line in comparison_table(comparison, head=head, most=_MOST_METRICS, width=width):
            self._print((f"  {line}", ""))

    def _row(self, name: str, text: str) -> None:
        self._print((f"{name:<{_NAME_WIDTH + 1}} ", "bold"), (printable(text), ""))
