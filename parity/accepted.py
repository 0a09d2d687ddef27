"""Differences that are accepted, each with a reason; stale ones are found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from aml_train.core.errors import InvalidError
from parity.differences import KINDS, Difference

FILE: Final = Path(__file__).with_name("accepted.json")
SHARED: Final = Path(__file__).parents[1] / "tests/contracts/recorded/differences.json"
"""Reasons of the comparison with recorded exchanges: the same answers, by operation and place."""

_FIELDS: Final = frozenset({"step", "place", "kind", "reason"})


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A reason, and its differences: patterns of a step and a place, and a kind."""

    step: str
    place: str
    kind: str
    reason: str

    def covers(self, difference: Difference) -> bool:
        """Return whether it is the reason of a difference."""
        return (
            fnmatchcase(difference.step, self.step)
            and fnmatchcase(difference.place, self.place)
            and self.kind in ("*", difference.kind)
        )


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The differences of a comparison.

    Attributes:
        left: without a reason.
        accepted: with one.
        stale: reasons of the file that no difference has, though their steps were compared.
    """

    left: tuple[Difference, ...]
    accepted: tuple[tuple[Difference, str], ...]
    stale: tuple[Accepted, ...]


def read_accepted(file: Path = FILE) -> list[Accepted]:
    """Return the reasons in a file.

    Raises:
        InvalidError: it cannot be read, or an entry has no reason, an unknown kind or an unknown field.
    """
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidError(f"{file} cannot be read: {error}") from error
    if not isinstance(data, list):
        raise InvalidError(f"{file} is no list of accepted differences.")
    found = []
    for number, one in enumerate(data, 1):
        if (
            not isinstance(one, dict)
            or set(one) != _FIELDS
            or not all(isinstance(text, str) for text in one.values())
        ):
            raise InvalidError(
                f"{file}, entry {number}: it has exactly {', '.join(sorted(_FIELDS))}, all of them texts."
            )
        if len(one["reason"].split()) < 3:
            raise InvalidError(
                f"{file}, entry {number}: the reason explains nothing.", hint="Write why it is accepted."
            )
        if one["kind"] not in (*KINDS, "*"):
            raise InvalidError(
                f"{file}, entry {number}: there is no kind {one['kind']!r}.", hint=f"Known: {', '.join(KINDS)}."
            )
        found.append(Accepted(**one))
    return found


def judge(differences: Iterable[Difference], accepted: Sequence[Accepted], steps: Iterable[str]) -> Judged:
    """Return which differences have a reason.

    Args:
        steps: those that were compared; reasons of others are not stale.
    """
    shared = json.loads(SHARED.read_text(encoding="utf-8"))["answers"] if SHARED.exists() else {}
    left: list[Difference] = []
    known: list[tuple[Difference, str]] = []
    used: set[Accepted] = set()
    for one in differences:
        reason = next((each for each in accepted if each.covers(one)), None)
        if reason is not None:
            used.add(reason)
            known.append((one, reason.reason))
        elif (text := _shared_reason(shared, one)) is not None:
            known.append((one, text))
        else:
            left.append(one)
    compared = list(steps)
    stale = [one for one in accepted if one not in used and any(fnmatchcase(step, one.step) for step in compared)]
    return Judged(left=tuple(left), accepted=tuple(known), stale=tuple(stale))


def _shared_reason(shared: dict[str, dict[str, str]], difference: Difference) -> str | None:
    """Return the reason that recorded exchanges have for the same answer."""
    if difference.kind in ("status", "states", "time", "step", "outcome", "requests", "body", "extra"):
        return None
    for operation, places in shared.items():
        if fnmatchcase(difference.operation, operation):
            for place, reason in places.items():
                if fnmatchcase(difference.place, place):
                    return reason
    return None
