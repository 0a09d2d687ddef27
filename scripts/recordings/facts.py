"""Facts of recorded exchanges, their files, and the union of several."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
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


def merge(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Return distinct exchanges, sorted; the first recording of each gives its source."""
    found: dict[str, Exchange] = {}
    for one in exchanges:
        key = json.dumps([one.operation, one.status, sorted(one.query), one.sent, one.answer], sort_keys=True)
        known = found.get(key)
        if known is None:
            found[key] = one
            continue
        # A header that one of them lacks is not always sent.
        headers = tuple(name for name in known.headers if name in one.headers)
        found[key] = replace(known, seen=known.seen + one.seen, headers=headers)
    order = sorted(found.items(), key=lambda item: (item[1].path, item[1].method, item[1].status, item[0]))
    return [one for _, one in order]


def read_facts(file: Path) -> list[Exchange]:
    """Return the exchanges of a file of facts."""
    data = json.loads(file.read_text(encoding="utf-8"))
    return [Exchange(**{**one, "headers": tuple(data["headers"][one["headers"]])}) for one in data["exchanges"]]


def write_facts(file: Path, exchanges: Iterable[Exchange]) -> None:
    """Write a file of facts, one exchange a line; sets of headers are written once."""
    headers: list[list[str]] = []
    lines = []
    for one in exchanges:
        names = list(one.headers)
        if names not in headers:
            headers.append(names)
        kept = {key: value for key, value in asdict(one).items() if value or key == "headers"}
        lines.append(json.dumps({**kept, "headers": headers.index(names)}))
    file.parent.mkdir(parents=True, exist_ok=True)
    sets = ",\n".join(map(json.dumps, headers))
    text = f'{{"headers": [\n{sets}\n],\n"exchanges": [\n' + ",\n".join(lines) + "\n]}\n"
    file.write_text(text, encoding="utf-8")
