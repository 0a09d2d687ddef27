"""GitHub's log: a listener that shows a run there, one group for each stage.

Foreign text must not act as a command: everything but the action's commands is written between ``::stop-commands::TOKEN`` and
``::TOKEN::`` with a new random TOKEN each time, and a sign before each line.
"""

from __future__ import annotations

import datetime
import io
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import BinaryIO, Final, Literal, TextIO

from aml_train.core import events
from aml_train.core.masking import Masker, Scrubber
from aml_train.core.text import harmless, lines_of
from aml_train.report import event_lines
from aml_train_action.github.commands import annotation, command, harmless_lines, pieces

LogLevel = Literal["debug", "info", "warning"]

_WIDEST: Final = 60_000
_PROGRESS_EVERY: Final = datetime.timedelta(seconds=15)


def random_token() -> str:
    """Return an unguessable word that is no command's name."""
    return f"aml-train-{secrets.token_hex(16)}"


class Channel:
    """Writes to GitHub's log, and keeps text and commands apart.

    Args:
        stream: standard output, behind the masking filter.
        masker: replaces secrets before long lines are cut into pieces.
        sink: what is behind that filter; only what is to be masked is written there.
        token: makes the words that end a pause of commands.
    """

    def __init__(
        self,
        stream: TextIO,
        masker: Masker,
        *,
        sink: BinaryIO | None = None,
        token: Callable[[], str] = random_token,
    ) -> None:
        self._stream = stream
        self._masker = masker
        self._sink = sink
        self._new_token = token
        self._paused: str | None = None
        self._lock = threading.RLock()

    def text(self, text: str, *, sign: str = " ") -> None:
        """Write all of *text*, of any origin, so that nothing in it takes effect."""
        with self._lock:
            self._pause()
            # All lines at once: a secret may be divided between two.
            for line in self._masker.mask("\n".join(lines_of(text))).split("\n"):
                for piece in pieces(line, _WIDEST):
                    self._stream.write(f"{sign} {piece}\n")
            self._stream.flush()

    def lines(self, lines: Sequence[str], *, sign: str, label: str) -> None:
        """Write many *lines* with a *label*; a hundred times faster than :meth:`text`."""
        # No secret holds the end of a line: all lines are looked through as one text.
        shown = self._masker.mask("\n".join(harmless_lines([label, *lines])))
        label, *masked = shown.split("\n")
        head = f"{sign} {label}"
        with self._lock:
            self._pause()
            if max(map(len, masked), default=0) + len(label) <= _WIDEST:
                self._stream.write("".join(f"{head}{line}\n" for line in masked))
            else:
                for line in masked:
                    for piece in pieces(label + line, _WIDEST):
                        self._stream.write(f"{sign} {piece}\n")
            self._stream.flush()

    def _pause(self) -> None:
        if self._paused is None:
            self._paused = self._new_token()
            self._stream.write(command("stop-commands", self._paused) + "\n")

    def command(self, line: str) -> None:
        """Write a command, as :mod:`aml_train_action.github.commands` makes it.

        Raises:
            ValueError: if it is not one line.
        """
        if "\n" in line or "\r" in line or not line.startswith("::"):
            raise ValueError("a workflow command is one line that starts with two colons")
        with self._lock:
            self.resume()
            self._stream.write(line + "\n")
            self._stream.flush()

    def hide(self, secret: str) -> None:
        """Mask *secret* from now on, and have GitHub mask it, too."""
        with self._lock:
            new = self._masker.add(secret)
            if new and self._sink is not None:
                self.resume()
                # The filter holds nothing back at the end of a line: this does not overtake anything.
                self._stream.flush()
                for value in new:
                    self._sink.write((command("add-mask", value) + "\n").encode())
                self._sink.flush()

    def resume(self) -> None:
        """End the pause of commands, if there is one: the last thing to be done."""
        with self._lock:
            if self._paused is not None:
                self._stream.write(command(self._paused) + "\n")
                self._stream.flush()
                self._paused = None


class ChannelText(io.TextIOBase):
    """Standard output and error for code that prints: each line uses the channel."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel
        self._rest = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._channel.text(line)
        return len(text)

    def finish(self) -> None:
        """Show a last line without an end."""
        if self._rest:
            self._channel.text(self._rest)
            self._rest = ""


class ForeignText:
    """The lines of one source without secrets, even if a line end divides them.

    Args:
        masker: knows the secrets.
    """

    def __init__(self, masker: Masker) -> None:
        self._scrubber = Scrubber(masker)
        self._rest = ""
        #: Whether the last line is not complete yet.
        self.open = False

    def feed(self, text: str, *, more: bool) -> list[str]:
        """Return the lines that can be shown now; with *more*, also the open line."""
        self.open = more
        data = "\n".join(lines_of(text)) + ("" if more else "\n")
        return self._shown(self._scrubber.feed(data.encode()), piece=more)

    def finish(self) -> list[str]:
        """Return what was held back."""
        return self._shown(self._scrubber.feed(b"", final=True), piece=True)

    def _shown(self, data: bytes, *, piece: bool) -> list[str]:
        *lines, self._rest = (self._rest + data.decode("utf-8", "replace")).split("\n")
        if piece and self._rest:
            lines.append(self._rest)
            self._rest = ""
        return lines


class GitHubLog:
    """Shows events in GitHub's log.

    Args:
        channel: the way there.
        masker: sees a foreign line that comes in pieces as one.
        level: ``warning`` leaves the output of builds, tests and jobs out.
    """

    def __init__(self, channel: Channel, masker: Masker, *, level: LogLevel = "info") -> None:
        self._channel = channel
        self._masker = masker
        self._level = level
        self._group: str | None = None
        self._told: dict[str, datetime.datetime] = {}
        self._foreign: dict[tuple[str, str], ForeignText] = {}

    def __call__(self, event: events.Event) -> None:
        """Show one event."""
        match event:
            case events.StageStarted():
                self._end_group()
                self._channel.command(command("group", harmless(f"{event.stage}: {self._masker.mask(event.title)}")))
                self._group = event.stage
            case events.StageFinished():
                self._release()
                if self._group == event.stage:
                    self._end_group()
            case events.Progress():
                self._progress(event)
            case events.LogLine():
                if self._level != "warning":
                    self._line(event.source, event.origin, "", event.text, more=event.more)
            case events.LogLines():
                if self._level != "warning":
                    self._lines(event)
            case events.Notice() if event.level == "warning":
                self._channel.command(annotation("warning", self._masker.mask(event.text), title="aml-train"))
                return
            case events.RunFinished():
                self._finish(event)
        for sign, about, text in event_lines.lines_of(event):
            self._say(sign, f"{about}: {text}" if about else text)
        for name, text in event_lines.facts_of(event):
            self._say("·", f"{name}: {text}")

    def close(self) -> None:
        """End the group, show what was held back, and let commands take effect again."""
        self._release()
        self._end_group()
        self._channel.resume()

    def _release(self) -> None:
        """Show what was held back: its source says no more."""
        for foreign in self._foreign.values():
            for line in foreign.finish():
                self._channel.text(line, sign="│")
        self._foreign.clear()

    def _say(self, sign: str, text: str) -> None:
        self._channel.text(text, sign=sign)

    def _end_group(self) -> None:
        if self._group is not None:
            self._channel.command(command("endgroup"))
            self._group = None

    def _progress(self, event: events.Progress) -> None:
        last = self._told.setdefault(event.stage, event.at)
        if event.at - last >= _PROGRESS_EVERY:
            self._told[event.stage] = event.at
            self._say("·", f"{event.label}: {event.amount}")

    def _lines(self, event: events.LogLines) -> None:
        """Show lines of a job's log: complete lines at once, others piece by piece."""
        label = f"{harmless(event.label)}: " if event.label else ""
        lines = event.text.split("\n")
        foreign = self._foreign.get((event.source, event.origin))
        if foreign is not None and foreign.open:
            first = lines.pop(0)
            self._line(event.source, event.origin, label, first, more=event.more and not lines)
        last = lines.pop() if event.more and lines else None
        if lines:
            self._channel.lines(lines, sign="│", label=label)
        if last is not None:
            self._line(event.source, event.origin, label, last, more=True)

    def _line(self, source: str, origin: str, label: str, text: str, *, more: bool) -> None:
        """Show a line of foreign text, or a piece of one; secrets may span pieces."""
        key = source, origin
        if key not in self._foreign:
            self._foreign[key] = ForeignText(self._masker)
        for line in self._foreign[key].feed(text, more=more):
            self._channel.text(label + line, sign="│")

    def _finish(self, event: events.RunFinished) -> None:
        self.close()
        self._say("✓" if event.exit_code == 0 else "✗", f"{event.status} (exit code {event.exit_code})")
        for text in (event.message, event.hint):
            if text:
                self._say(" ", text)
        self._channel.resume()
