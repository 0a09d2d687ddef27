"""The hidden first line of a comment: which report it shows. Pure.

It counts only in a comment of the token's own user, and only as the first line, which holds no foreign text.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Final

from aml_train_action.pulls.subject import Subject

_MARKER: Final = re.compile(
    r"<!-- aml-train:report:1 (?P<key>[0-9a-f]{32}) (?P<run>[1-9][0-9]{0,18}) (?P<attempt>[1-9][0-9]{0,8}) "
    r"(?P<commit>[0-9a-f]{40,64}) -->(?:\r?\n|$)"
)


@dataclass(frozen=True, kw_only=True)
class Marker:
    """The report that a comment shows.

    Attributes:
        key: of the configuration and its target.
        run: the id of the workflow's run.
        attempt: of the run.
        commit: the commit.
    """

    key: str
    run: int
    attempt: int
    commit: str

    def __str__(self) -> str:
        return f"<!-- aml-train:report:1 {self.key} {self.run} {self.attempt} {self.commit} -->"

    def rank(self, head: str) -> tuple[bool, int, int]:
        """Return the order of the comment, as that of a :class:`Subject`."""
        return self.commit == head, self.run, self.attempt


def key_of(configuration: str, target: str) -> str:
    """Return the key of a configuration's comment: digits, whatever the names are."""
    return hashlib.sha256(json.dumps([configuration, target]).encode()).hexdigest()[:32]


def marker_of(configuration: str, target: str, subject: Subject) -> Marker:
    """Return the marker of a comment about *subject*."""
    return Marker(key=key_of(configuration, target), run=subject.run, attempt=subject.attempt, commit=subject.commit)


def read_marker(body: str) -> Marker | None:
    """Return the marker at the start of a comment; None if there is none."""
    found = _MARKER.match(body)
    if found is None:
        return None
    return Marker(key=found["key"], run=int(found["run"]), attempt=int(found["attempt"]), commit=found["commit"])
