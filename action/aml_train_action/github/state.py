"""What the step leaves to its post action, in ``GITHUB_STATE``: which job it answers for, and how it ended.

Source: https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands#sending-values-to-the-pre-and-post-actions
(the post action finds each value as ``STATE_`` and its name).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aml_train.core.events import Event, JobNamed
from aml_train_action.github.file_commands import append, entry

_JOB: Final = "job"
_STATUS: Final = "status"


@dataclass(frozen=True)
class State:
    """A listener that takes note of the job's name before there is such a job. *path* is None outside GitHub."""

    path: Path | None

    def __call__(self, event: Event) -> None:
        """Take note of one event."""
        if isinstance(event, JobNamed):
            append(self.path, entry(_JOB, event.job))

    def end(self, status: str) -> None:
        """Take note of how the step ended."""
        append(self.path, entry(_STATUS, status))


def abandoned_job(environment: Mapping[str, str]) -> str | None:
    """Return the job that the step may have left behind; None where there is none, or the step saw to it.

    A step that says that it was cancelled has told the service, if it could: that is looked at once more.
    """
    job = environment.get(f"STATE_{_JOB}", "")
    status = environment.get(f"STATE_{_STATUS}", "")
    return job if job and status in ("", "cancelled") else None


def was_killed(environment: Mapping[str, str]) -> bool:
    """Tell whether the step was ended before it could take note of how it ended."""
    return not environment.get(f"STATE_{_STATUS}", "")
