"""Events as lines of JSON: their texts come from logs and services."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from aml_train.core import events
from aml_train.core.events import Event, LogLines, to_json
from fuzz.target import Target, require

_LONGEST_NAME = 255
_AT = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)


@cache
def _plain_events() -> tuple[type[Event], ...]:
    """Return the events that texts and numbers make."""
    found = []
    for one in vars(events).values():
        if isinstance(one, type) and issubclass(one, Event) and one is not Event:
            needed = [field for field in dataclasses.fields(one) if _required(field)]
            if all(str(field.type) in ("str", "str | None", "int", "float", "bool") for field in needed):
                found.append(one)
    return tuple(found)


def _required(field: dataclasses.Field[Any]) -> bool:
    return (
        field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING and field.name != "at"
    )


def seeds() -> Sequence[str]:
    """Return texts of events."""
    return ["plain", "two\nlines", "\x1b[31mred\r\n", "\ud800 \u2028 \x85", "::error::x", '"quoted" \\ {}', "\x00"]


def check(text: str) -> None:
    """Write every event with this text; each line is JSON with the same text."""
    for cls in _plain_events():
        given: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            if _required(field):
                kind = str(field.type)
                given[field.name] = text if kind.startswith("str") else 1.5 if kind == "float" else len(text)
        if cls is LogLines:
            # Each line repeats its origin, the name of a file or a stage.
            given["origin"] = text[:_LONGEST_NAME]
            lines = to_json(LogLines(at=_AT, **given)).splitlines()
        else:
            lines = to_json(cls(at=_AT, **given)).splitlines()
            require(len(lines) == 1, f"{cls.__name__} is {len(lines)} lines")
        for line in lines:
            require(line.isascii(), f"{cls.__name__} is not ASCII")
            document = json.loads(line)
            require(isinstance(document, dict) and document["event"], f"{cls.__name__} has no name")
            if cls is not LogLines:
                # Two halves of a pair that happen to be neighbours are one character in JSON.
                names = [name for name, value in given.items() if value == text]
                same = json.loads(json.dumps(text))
                require(all(document[name] == same for name in names), f"{cls.__name__} has another text")


TARGET = Target(
    kind="text",
    reads=("aml_train.core.events",),
    seeds=seeds,
    check=check,
    words=("\n", "\r", "\u2028", "\ud800", "\udc00", '"', "\\", "\x00", "::"),
)
