"""Facts of recorded exchanges, and their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """The facts of a request and its answer.

    Attributes:
        source: the recording that it was first seen in.
        path: its template, for example ``{WS}/jobs/{name}``.
        query: names of the query's options, with the value where it is a word of the service.
        version: its ``api-version``; empty without one.
        headers: names of the answer's headers, in small letters; a word's value after ``=``.
        sent: the shape of the request's body.
        answer: the shape of the answer's body.
        seen: how often it was recorded.
    """

    source: str
    method: str
    path: str
    status: int
    version: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    sent: Any = None
    answer: Any = None
    seen: int = 1

    @property
    def operation(self) -> str:
        """The method and the path's template."""
        return f"{self.method} {self.path}"


def read_facts(file: Path) -> list[Exchange]:
    """Return the exchanges of a file of facts."""
    data = json.loads(file.read_text(encoding="utf-8"))
    return [Exchange(**{**one, "headers": tuple(data["headers"][one["headers"]])}) for one in data["exchanges"]]
