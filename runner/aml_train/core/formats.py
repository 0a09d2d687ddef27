"""The numbers of stored formats: which version of aml-train wrote a document."""

from __future__ import annotations

from typing import Final

UPGRADE: Final = "Use the version of aml-train that wrote it, or a later one: docs/upgrading.md."


class NewerFormatError(ValueError):
    """A newer version wrote the document."""


def check_format(found: object, known: int) -> None:
    """Return if a document's number is the one that this version reads.

    Raises:
        NewerFormatError: a newer version wrote it.
        ValueError: an earlier version wrote it, or it has no such number.
    """
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise ValueError(f"its format is {str(found)[:40]}, not {known}")
    if found > known:
        raise NewerFormatError(f"a newer aml-train wrote it: its format is {found}, this version reads {known}")
    if found < known:
        raise ValueError(f"aml-train of an earlier version wrote it: its format is {found}, not {known}")
