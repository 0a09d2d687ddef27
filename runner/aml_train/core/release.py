"""The names under which this version is published; the release writes them."""

from __future__ import annotations

from typing import Final

REPOSITORY: Final[str] = ""
"""``OWNER/NAME`` of the action's repository on GitHub; empty in a version that is not published."""

MAJOR: Final = "v1"
"""The tag that follows the newest release with the same interface."""


def action_reference(repository: str = REPOSITORY) -> str | None:
    """Return the value of ``uses:`` for the action; None if it is not published."""
    return f"{repository}@{MAJOR}" if repository else None
