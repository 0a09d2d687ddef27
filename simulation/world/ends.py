"""How the clients of a world have ended: values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The end of one command of one client.

    Attributes:
        client: its name.
        command: ``run``, ``attach``, ``promote`` or ``rollback``; may be empty if it was killed.
        project: the project's key in the scenario; may be empty if it was killed.
        exit_code: None if it was killed.
        status: the word of the table of endings; empty if it was killed.
        interrupted: whether it was interrupted.
        began, ended: seconds since the epoch.
        facts: of the result, as ``--json`` prints them.
        events: every event, as a line of JSON.
        console: everything that the console printed.
    """

    client: str
    command: str
    project: str
    exit_code: int | None
    status: str
    message: str = ""
    hint: str = ""
    interrupted: bool = False
    began: float = 0.0
    ended: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    console: str = ""

    @property
    def killed(self) -> bool:
        """Whether the client was killed."""
        return self.exit_code is None
