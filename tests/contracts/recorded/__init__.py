"""Facts of recorded conversations with Azure, and the comparison of an answer with them.

The files are reduced from azure-ai-ml's own test recordings (Azure/azure-sdk-for-python,
sdk/ml/azure-ai-ml/tests/recordings, up to June 2023) and promptflow's (microsoft/promptflow). ``differences.json`` says what the
local AzureML answers otherwise on purpose; `tests.contracts.recorded.replay` sends the requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.contracts.recorded.facts import Exchange, read_facts

FOLDER = Path(__file__).parent
FAMILIES = ("jobs", "assets", "computes", "datastores", "workspaces", "run-history", "inventories")

TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})?")
GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){2,3}-[0-9a-fA-F]{9,12}")
DURATION = re.compile(r"P(?=.)(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?|\d+(\.\d+)?:\d{2}:\d{2}(\.\d+)?")
FORMS = {"time": TIME, "guid": GUID, "duration": DURATION, "number-text": re.compile(r"-?\d+(\.\d+)?")}
PREFIXES = {"url": ("http://", "https://"), "azureml": ("azureml:", "aml:"), "arm": ("/subscriptions/",)}


USERS = frozenset(["tags", "properties", "parameters", "flavors", "inputs", "outputs", "logFiles"])
"""Objects with keys of users."""


@dataclass(frozen=True, kw_only=True)
class Differences:
    """Answers of the local AzureML that differ on purpose.

    Attributes:
        answers: reasons by patterns of operations, then of places in an answer.
        refused: requests that it refuses or cannot repeat, each with ``operation`` (a pattern), ``words`` (texts that the
            exchange's shapes have, all of them) and ``reason``.
    """

    answers: Mapping[str, Mapping[str, str]]
    refused: tuple[Mapping[str, Any], ...]

    def allow(self, operation: str, place: str) -> bool:
        """Return whether a difference at a place of an operation's answer has a reason."""
        return any(
            fnmatchcase(operation, pattern) and any(fnmatchcase(place, known) for known in places)
            for pattern, places in self.answers.items()
        )

    def refuse(self, exchange: Exchange) -> str | None:
        """Return why an exchange is not repeated, None for one that has to be."""
        text = json.dumps([exchange.status, exchange.query, exchange.sent, exchange.answer])
        for known in self.refused:
            words = known.get("words", ())
            if fnmatchcase(exchange.operation, known["operation"]) and all(word in text for word in words):
                return str(known["reason"])
        return None


def differences() -> Differences:
    """Return what differs on purpose, with reasons."""
    data = json.loads((FOLDER / "differences.json").read_text(encoding="utf-8"))
    return Differences(answers=data["answers"], refused=tuple(data["refused"]))


def exchanges(family: str) -> list[Exchange]:
    """Return the exchanges of a family."""
    return read_facts(FOLDER / f"{family}.json")


def deviations(recorded: Any, given: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield where a value is not of a recorded shape: the place, and what differs.

    Keys that the recording does not have are none of this suite's concern: newer versions of the interface add some, and
    `tests.contracts` knows which of them clients declare.
    """
    if isinstance(recorded, dict):
        if not isinstance(given, dict):
            yield at, f"{_kind(given)}, not an object"
            return
        for key, shape in recorded.items():
            if key not in given:
                if not _is_users(key, at):
                    yield f"{at}.{key}", "absent"
            else:
                yield from deviations(shape, given[key], f"{at}.{key}")
    elif isinstance(recorded, list):
        if not isinstance(given, list):
            yield at, f"{_kind(given)}, not a list"
            return
        for number, item in enumerate(given):
            if recorded:
                yield from _like_one_of(recorded, item, f"{at}[{number}]")
    elif (wrong := _unlike(str(recorded), given)) is not None:
        yield at, wrong


def _is_users(key: str, at: str) -> bool:
    """Return whether a key was chosen by who was recorded, and not sent again by the replay."""
    own = at.startswith((".properties.inputs", ".properties.outputs"))
    return len(key) == 2 and key.islower() and at.rpartition(".")[2] in USERS and not own


def _like_one_of(shapes: Sequence[Any], item: Any, at: str) -> Iterator[tuple[str, str]]:
    """Yield the deviations of an item from the recorded shape that it is most like."""
    found = [list(deviations(shape, item, re.sub(r"\[\d+\]$", "[]", at))) for shape in shapes]
    yield from min(found, key=len)


def _unlike(recorded: str, given: Any) -> str | None:
    """Return how a value differs from a recorded simple one, None if it does not."""
    if recorded == "object":
        return None
    if recorded == "null" or given is None:
        return None if recorded == "null" and given is None else f"{_kind(given)}, recorded {recorded}"
    if recorded in ("flag", "number"):
        wanted: tuple[type, ...] = (bool,) if recorded == "flag" else (int, float)
        good = isinstance(given, wanted) and (recorded == "flag" or not isinstance(given, bool))
        return None if good else f"{_kind(given)}, recorded {recorded}"
    if not isinstance(given, str):
        return f"{_kind(given)}, recorded {recorded}"
    if recorded.startswith("="):
        return None if given == recorded[1:] else f"'{given}', recorded '{recorded[1:]}'"
    prefixes = PREFIXES.get(recorded.partition(":")[0])
    if prefixes is not None and not given.startswith(prefixes):
        return f"'{given}', recorded {recorded}"
    if recorded in ("time", "duration") and FORMS[recorded].fullmatch(given) is None:
        return f"'{given}', recorded {recorded}"
    return None


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    return {dict: "an object", list: "a list", str: "a text", bool: "a flag"}.get(type(value), "a number")
