"""The files for a step's outputs, its summary, and the state of its post action.

Source: actions/runner, ``FileCommandManager.cs``: UTF-8; ``name=value`` lines, or ``name<<DELIMITER``, lines, ``DELIMITER``.
https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands#sending-values-to-the-pre-and-post-actions (the
post action finds each value as ``STATE_`` and its name).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aml_train.core.errors import InvalidError
from aml_train.core.events import Event, JobNamed

_JOB: Final = "job"
_STATUS: Final = "status"


def _token() -> str:
    return f"aml-train-{secrets.token_hex(16)}"


def clean(value: str) -> str:
    """Return *value* as file commands allow it: LF, no NUL, no lone surrogates."""
    text = value.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\N{SYMBOL FOR NULL}")
    return text.encode("utf-8", "replace").decode("utf-8")


def entry(name: str, value: str, *, token: Callable[[], str] = _token) -> str:
    """Return the lines that set *name*, with a delimiter that is not in the value.

    Raises:
        ValueError: if *name* is no name of an output.
    """
    if not name or any(not (c.isalnum() or c in "-_") for c in name):
        raise ValueError(f"{name!r} cannot be the name of an output")
    text = clean(value)
    delimiter = token()
    while delimiter in text:
        delimiter = token()
    return f"{name}<<{delimiter}\n{text}\n{delimiter}\n"


def append(path: Path | None, text: str) -> None:
    """Append *text* to a file command; do nothing without a path (outside GitHub).

    Raises:
        InvalidError: if the file cannot be written.
    """
    if path is None:
        return
    try:
        with path.open("a+b") as file:
            start = ""
            if file.tell():
                file.seek(-1, 2)
                start = "" if file.read(1) == b"\n" else "\n"
            file.write((start + text).encode("utf-8"))
    except OSError as error:
        raise InvalidError(f"{path}: cannot be written: {error.strerror}") from error


def write_outputs(path: Path | None, outputs: Mapping[str, str]) -> None:
    """Set every output."""
    append(path, "".join(entry(name, value) for name, value in outputs.items()))


@dataclass(frozen=True)
class State:
    """A listener that records the job's name before the job is submitted.

    *path* is None outside GitHub.
    """

    path: Path | None

    def __call__(self, event: Event) -> None:
        """Record the name of a job."""
        if isinstance(event, JobNamed):
            append(self.path, entry(_JOB, event.job))

    def end(self, status: str) -> None:
        """Record the step's status."""
        append(self.path, entry(_STATUS, status))


def abandoned_job(environment: Mapping[str, str]) -> str | None:
    """Return the job that the step may have left running, or None.

    A cancelled step has requested the cancellation if it could: the post action checks the job again.
    """
    job = environment.get(f"STATE_{_JOB}", "")
    status = environment.get(f"STATE_{_STATUS}", "")
    return job if job and status in ("", "cancelled") else None


def was_killed(environment: Mapping[str, str]) -> bool:
    """Return whether the step was killed before it recorded its status."""
    return not environment.get(f"STATE_{_STATUS}", "")
