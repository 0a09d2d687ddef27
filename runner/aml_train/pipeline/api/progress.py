"""The progress of a run, from its events, as a notebook shows it."""

from __future__ import annotations

from collections import deque
from typing import Final, Literal

from aml_train.core.events import (
    Event,
    JobStatusChanged,
    JobSubmitted,
    LogLine,
    LogLines,
    Notice,
    Progress,
    RuleDecided,
    RunFinished,
    StageFinished,
    StageStarted,
)
from aml_train.core.notebook import Grid, Sheet
from aml_train.core.text import duration, size

_MOST_WARNINGS: Final = 8
_TAIL: Final = 8
_RULES: Final = {"met": "✓", "missed": "✗", "warned": "!", "skipped": "·"}


class RunProgress:
    """The state of a run so far.

    Attributes:
        stages: each stage with its state and a text.
        job: the job's name; empty before there is one.
        status: the job's status; empty before there is one.
        ended: the last event; None while the run lasts.
    """

    def __init__(self) -> None:
        self.stages: dict[str, tuple[Literal["running", "done"], str]] = {}
        self.job = ""
        self.status = ""
        self.page = ""
        self.ended: RunFinished | None = None
        self._warnings: list[str] = []
        self._rules: list[str] = []
        self._tail: deque[str] = deque(maxlen=_TAIL)

    def take(self, event: Event) -> bool:
        """Take one event; return whether what is shown has changed."""
        match event:
            case StageStarted():
                self.stages[event.stage] = "running", event.title
                self._tail.clear()
            case StageFinished():
                self.stages[event.stage] = "done", f"{event.summary} ({duration(event.seconds)})"
            case Progress():
                done = size(event.done) if event.unit == "bytes" else f"{event.done} {event.unit}"
                whole = (
                    ""
                    if event.total is None
                    else f" of {size(event.total) if event.unit == 'bytes' else event.total}"
                )
                self.stages[event.stage] = "running", f"{event.label}: {done}{whole}"
            case JobSubmitted():
                self.job, self.page = event.job, event.studio_url or ""
            case JobStatusChanged():
                self.status = event.status
            case Notice() if event.level == "warning":
                self._warnings.append(event.text)
            case RuleDecided():
                self._rules.append(f"{_RULES[event.verdict]} {event.reason}")
            case LogLine():
                self._tail.append(event.text)
            case LogLines():
                self._tail.extend(event.text.split("\n")[-_TAIL:])
            case RunFinished():
                self.ended = event
            case _:
                return False
        return True

    def line(self, event: Event) -> str:
        """Return the line for a terminal of one event; empty for none."""
        match event:
            case StageFinished():
                return f"✓ {event.stage}: {event.summary} ({duration(event.seconds)})"
            case StageStarted():
                return f"▸ {event.stage}: {event.title}"
            case JobStatusChanged():
                return f"· job: {event.status}"
            case Notice() if event.level == "warning":
                return f"! {event.text}"
            case RuleDecided():
                return f"{_RULES[event.verdict]} gate: {event.reason}"
            case _:
                return ""

    def sheet(self) -> Sheet:
        """Return it as a sheet; another thread may take events meanwhile."""
        rows = [
            (f"{'✓' if state == 'done' else '▸'} {name}", text) for name, (state, text) in list(self.stages.items())
        ]
        grids = [Grid(head=("", ""), rows=rows)] if rows else []
        if self._rules:
            grids.append(Grid(title="Gate", head=("",), rows=[(text,) for text in list(self._rules)]))
        if self._warnings:
            kept = self._warnings[-_MOST_WARNINGS:]
            grids.append(Grid(title="Warnings", head=("",), rows=[(text,) for text in kept]))
        if self._tail and self.ended is None:
            grids.append(Grid(title="Output", head=("",), rows=[(text,) for text in list(self._tail)]))
        facts = {"job": f"{self.job} {self.status}".strip(), "page": self.page}
        title, sign = "aml-train is running", "▸"
        if self.ended is not None:
            title = f"{self.ended.status} (exit code {self.ended.exit_code})"
            sign = "✓" if self.ended.exit_code == 0 else "✗"
        return Sheet(
            title=title,
            sign=sign,
            facts={name: value for name, value in facts.items() if value},
            grids=tuple(grids),
        )
