"""Annotations at a file's line: faults, failed tests, missed rules, exceptions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aml_train.core import events
from aml_train.core.errors import AmlTrainError, Fault, InvalidError
from aml_train.core.masking import Masker
from aml_train.core.text import harmless, lines_of
from aml_train.jobs.logs.tracebacks import innermost
from aml_train.jobs.states import headline
from aml_train_action.github.commands import ANNOTATIONS_SHOWN, Level, annotation
from aml_train_action.github.log import Channel

#: One is kept for the verdict.
_MOST: Final = ANNOTATIONS_SHOWN - 1
_WHERE: Final = re.compile(r"(?P<file>.+?):(?P<line>[1-9][0-9]{0,8})", re.S)
_LONGEST: Final = 4000


@dataclass(frozen=True, kw_only=True)
class Places:
    """The folders of a run: turns names of files into paths in the repository.

    Attributes:
        workspace: the root of the checkout.
        directory: the folder that names in faults are relative to.
        project: the project folder, whose files the tests see.
        code: the folder of the code snapshot, if it is local.
    """

    workspace: Path
    directory: Path
    project: Path
    code: Path | None = None

    def relative(self, name: str | Path, *, start: Path | None = None) -> str | None:
        """Return *name* relative to the repository's root; None if it is no file in it."""
        try:
            path = ((start or self.directory) / name).resolve()
            inside = path.is_relative_to(self.workspace.resolve()) and path.is_file()
        except (OSError, ValueError):
            return None
        return path.relative_to(self.workspace.resolve()).as_posix() if inside else None

    def split(self, where: str) -> tuple[str | None, int | None]:
        """Return file and line of ``file:line``; None for other texts, such as options."""
        match = _WHERE.fullmatch(where)
        file = self.relative(match["file"] if match else where)
        return file, int(match["line"]) if match and file else None


class Annotations:
    """A listener that annotates; it also annotates errors before a run has begun.

    Args:
        channel: writes to GitHub's log.
        masker: replaces secrets in messages.
        places: where files are.
    """

    def __init__(self, channel: Channel, masker: Masker, places: Places) -> None:
        self._channel = channel
        self._masker = masker
        self._places = places
        self._tracebacks: tuple[events.Traceback, ...] = ()
        self._count = 0

    def __call__(self, event: events.Event) -> None:
        """Annotate one event."""
        match event:
            case events.LogsEnded():
                self._tracebacks = event.tracebacks
            case events.ImageChecked():
                self._checks(event)
            case events.TestsFinished():
                for failure in event.failures:
                    file = self._places.relative(failure.file, start=self._places.project) if failure.file else None
                    self._error(failure.message or "failed", file, failure.line, f"Test failed: {failure.name}")
            case events.RuleVerdict():
                file, line = self._places.split(event.where)
                title = f"Gate: {event.metric} {event.rule}"
                if event.verdict == "missed":
                    self._error(event.reason, file, line, title)
                elif event.verdict == "warned":
                    self._write(event.reason, file, line, title, level="warning")
            case events.ModelPromoted():
                after = f" Version {event.previous} is archived." if event.previous else ""
                text = f"{event.model} version {event.version} is now in {event.stage}.{after}"
                self._write(text, None, None, f"aml-train: {event.action}", level="notice")
            case events.RunFinished():
                if event.status == "job-failed":
                    self._exception()
                if event.exit_code != 0:
                    # Log and summary already have the lines of the job's logs.
                    self._verdict(event.status, headline(event.message), event.hint)
            case _:
                pass

    def error(self, error: AmlTrainError) -> None:
        """Annotate an error that ended the step: its faults by line, and the verdict."""
        faults: Sequence[Fault] = error.faults if isinstance(error, InvalidError) else ()
        for fault in faults:
            file, line = self._places.split(fault.where)
            self._error(str(fault), file, line, "Configuration")
        message = error.message
        if faults:
            message = f"{'1 fault' if len(faults) == 1 else f'{len(faults)} faults'}; nothing was done."
        self._verdict(error.status, headline(message), error.hint)

    def _checks(self, event: events.ImageChecked) -> None:
        """Annotate the image's line in the configuration; warnings only on a new check."""
        file, line = self._places.split(event.where)
        for finding in event.findings:
            if finding.counts_as == "error":
                self._error(str(finding), file, line, f"The image is not ready: {finding.check}")
            elif finding.counts_as == "warning" and not event.cached:
                self._write(str(finding), file, line, f"The image: {finding.check}", level="warning")

    def _exception(self) -> None:
        """Annotate the best traceback that leads into the repository."""
        code = self._places.code
        if code is None:
            return
        for found in self._tracebacks:
            if place := innermost(found, code):
                rank = f", {events.rank_label(found.rank)}" if found.rank else ""
                self._error(found.message, self._places.relative(place[0]), place[1], f"The job's exception{rank}")
                return

    def _verdict(self, status: str, message: str, hint: str | None) -> None:
        self._write(f"{message}\n{hint}" if hint else message, None, None, f"aml-train: {status}")

    def _error(self, message: str, file: str | None, line: int | None, title: str) -> None:
        self._count += 1
        if self._count <= _MOST:
            self._write(message, file, line, title)

    def _write(
        self,
        message: str,
        file: str | None,
        line: int | None,
        title: str,
        *,
        level: Level = "error",
    ) -> None:
        text = "\n".join(lines_of(self._masker.mask(message)))
        shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "\n… (the log has all of it)"
        if file is not None and self._masker.mask(file) != file:
            file = line = None  # a masked path names no file
        title = harmless(self._masker.mask(title))[:200]
        self._channel.command(annotation(level, shown, file=file, line=line, title=title))
