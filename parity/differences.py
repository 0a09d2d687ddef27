"""The rules of the comparison: recordings of Azure and of the local AzureML."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal

from aml_train.azure.parity.file import Recording
from aml_train.azure.parity.scrub import PLACEHOLDER
from aml_train.azure.parity.words import MESSAGE_KEYS, WORD_KEYS
from scripts.recordings.read import Entry
from scripts.recordings.shapes import reduce_exchange

Severity = Literal["error", "warning", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
KINDS: Final[Mapping[str, Severity]] = {
    "status": "error",
    "missing": "error",
    "type": "error",
    "word": "error",
    "code": "error",
    "states": "error",
    "step": "error",
    "outcome": "error",
    "empty": "error",
    "body": "error",
    "header": "warning",
    "form": "warning",
    "same": "warning",
    "value": "warning",
    "text": "warning",
    "time": "warning",
    "extra": "note",
    "requests": "note",
}
"""The kinds of differences, and how much a client is affected: an error is one that a client's code meets."""

LIFECYCLE: Final = (
    "NotStarted",
    "Starting",
    "Provisioning",
    "Queued",
    "Preparing",
    "Running",
    "Finalizing",
    "CancelRequested",
    "Completed",
    "Failed",
    "Canceled",
    "NotResponding",
)
"""The states of a job; a look every few seconds misses some of them."""

_UNENDED: Final = frozenset(LIFECYCLE[:8])
_FIRST: Final = {"Starting": 0, "Provisioning": 0, "NotStarted": 0, "Queued": 0, "Preparing": 0}
_TIMES: Final = ("moment", "seconds", "minutes")
_FREE_FORMS: Final = frozenset({"text", "name", "value", "lines", "json", "digits", "key"})
"""Forms of texts that people choose: one may be like another."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One difference.

    Attributes:
        step: of the script.
        operation: as in the page of operations, such as ``GET {WS}/jobs/{name}``.
        place: in the answer, such as ``.properties.status`` or ``header location``.
        kind: one of :data:`KINDS`.
        recorded, local: words, types or forms; never a value of someone.
    """

    step: str
    operation: str
    place: str
    kind: str
    recorded: str
    local: str

    @property
    def severity(self) -> Severity:
        """How much a client is affected."""
        return KINDS[self.kind]

    def __str__(self) -> str:
        at = f"{self.step} ({self.operation}) {self.place}".rstrip()
        return f"{self.severity}: {at}: {self.kind}: recorded {self.recorded}, local {self.local}"


@dataclass(kw_only=True)
class _Pairs:
    """Placeholders of the recording → those of the local one, equal where these are."""

    known: dict[str, str] = field(default_factory=dict)

    def holds(self, recorded: str, local: str) -> bool:
        """Return whether a pair fits those before it."""
        return self.known.setdefault(recorded, local) == local


def compare(recorded: Recording, local: Recording) -> list[Difference]:
    """Return the differences, in the order of the steps.

    Steps that one of the recordings skipped for a reason of its workspace (no compute is named, there is no registry) are compared
    only if the other one took them.
    """
    theirs, ours, pairs = _by_step(recorded), _by_step(local), _Pairs()
    found: list[Difference] = []
    for step, lines in theirs.items():
        if step not in ours:
            found.append(_difference(step, lines[0], "", "step", "taken", "not taken"))
        elif any("call" in one for one in lines) or lines[0]["kind"] == "call":
            found += _calls(step, lines, ours[step])
        else:
            found += _exchange(lines[0], ours[step][0], pairs)
    return found


def _by_step(recording: Recording) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for line in recording.lines:
        if line["kind"] != "skipped":
            found[line["step"]].append(line)
    return dict(found)


def _calls(
    step: str, recorded: Sequence[Mapping[str, Any]], local: Sequence[Mapping[str, Any]]
) -> Iterator[Difference]:
    """Yield the differences of a call of azure-ai-ml: outcome, requests by operation."""
    outcomes = [next((one["outcome"] for one in lines if one["kind"] == "call"), "") for lines in (recorded, local)]
    if outcomes[0] != outcomes[1]:
        yield _difference(step, recorded[0], "", "outcome", outcomes[0], outcomes[1])
    ours = {operation_of(one): one for one in reversed(local) if one["kind"] == "exchange"}
    seen: set[str] = set()
    for one in recorded:
        operation = operation_of(one)
        if one["kind"] != "exchange" or operation in seen:
            continue
        seen.add(operation)
        if operation in ours:
            # Lists are of the workspace's own things: the requests of other steps compare them.
            yield from _exchange(one, ours[operation], _Pairs())
        else:
            yield _difference(step, one, "", "requests", "sent", "not sent")


def _exchange(recorded: Mapping[str, Any], local: Mapping[str, Any], pairs: _Pairs) -> Iterator[Difference]:
    step = recorded["step"]

    def differ(place: str, kind: str, theirs: object, ours: object) -> Difference:
        return _difference(step, recorded, place, kind, str(theirs), str(ours))

    if recorded["status"] != local["status"]:
        # The body of another status is another body.
        yield differ("", "status", recorded["status"], local["status"])
        return
    for name, value in (recorded.get("headers") or {}).items():
        ours = (local.get("headers") or {}).get(name)
        if ours is None:
            yield differ(f"header {name}", "header", "present", "absent")
        elif _general(value) != _general(ours) and not _alike(value, ours):
            yield differ(f"header {name}", "header", _general(value), _general(ours))
    bodies = (recorded.get("body"), local.get("body"))
    if _is_plain(bodies[0]) != _is_plain(bodies[1]):
        yield differ("", "body", *("no JSON" if _is_plain(one) else "JSON" for one in bodies))
        return
    unended = _is_other_moment(*bodies)
    for place, kind, theirs, own in _value(*bodies, "", pairs):
        if not (unended and (kind in ("missing", "extra", "empty") or "null" in (theirs, own))):
            yield differ(place, kind, theirs, own)
    if "states" in recorded:
        yield from (
            differ(".states", "states", *one) for one in _states(recorded["states"], local.get("states") or [])
        )
    elif _TIMES.index(local["time"]) > _TIMES.index(recorded["time"]):
        # A quicker answer is no difference: the local AzureML is near.
        yield differ("time", "time", recorded["time"], local["time"])


def _is_plain(body: Any) -> bool:
    """Return whether a body is none of JSON: the recording has its size alone."""
    return isinstance(body, Mapping) and body.get("body") in ("xml", "bytes")


def _is_other_moment(recorded: Any, local: Any) -> bool:
    """Return whether two views of a job that had not ended are of different states."""
    theirs, ours = (_state(one) for one in (recorded, local))
    return theirs != ours and theirs in _UNENDED and ours in LIFECYCLE


def _state(body: Any) -> str:
    for where in (body, body.get("properties") if isinstance(body, Mapping) else None):
        if isinstance(where, Mapping) and isinstance(where.get("status"), str):
            return str(where["status"])
    return ""


def _states(recorded: Sequence[str], local: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield how the order of states differs; both lists lack states that no look met."""
    known = set(LIFECYCLE) | set(recorded)
    strange = any(one not in known for one in local) or len(set(local)) < len(local)
    ends = recorded[-1:] == local[-1:]
    if strange or not ends or any(_before(second, first, recorded) for first, second in pairwise(local)):
        yield " → ".join(recorded), " → ".join(local)


def _before(first: str, second: str, recorded: Sequence[str]) -> bool:
    """Return whether *first* comes before *second*, as recorded or in the lifecycle."""
    if first in recorded and second in recorded:
        return recorded.index(first) < recorded.index(second)
    return _rank(first) < _rank(second)


def _rank(state: str) -> int:
    """Return the place in the lifecycle.

    Azure's order of the states before a run is not always the same.
    """
    return _FIRST.get(state, LIFECYCLE.index(state) if state in LIFECYCLE else -1)


def _value(recorded: Any, local: Any, at: str, pairs: _Pairs) -> Iterator[tuple[str, str, str, str]]:
    """Yield place, kind, recorded and local of what differs in a value."""
    types = (_type(recorded), _type(local))
    if types[0] != types[1]:
        yield at, "type", *types
        return
    if types[0] == "number":
        yield from _number(recorded, local, at)
    elif isinstance(recorded, Mapping):
        yield from _mapping(recorded, local, at, pairs)
    elif isinstance(recorded, list):
        if recorded and not local:
            yield at, "empty", f"{len(recorded)} kinds of items", "no item"
        for item in local if recorded else ():
            found = [list(_value(one, item, f"{at}[]", _Pairs(known=dict(pairs.known)))) for one in recorded]
            yield from min(found, key=_weight)
    elif isinstance(recorded, str):
        yield from _text(recorded, local, at, pairs)
    elif recorded != local:
        yield at, "value", str(recorded), str(local)


def _number(recorded: Any, local: Any, at: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield how two numbers differ: counts may, numbers of the script may not."""
    plain = [one for one in (recorded, local) if isinstance(one, int | float) and one not in (0, 1)]
    if len(plain) == 2 and recorded != local:
        yield at, "value", str(recorded), str(local)
    elif _is_float(recorded) and isinstance(local, str) and not _is_float(local):
        yield at, "form", "a number with a fraction", "a whole number"


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or str(value).startswith("<float")


def _weight(found: Sequence[tuple[str, str, str, str]]) -> int:
    return sum(100 if KINDS[kind] == "error" else 10 if KINDS[kind] == "warning" else 1 for _, kind, _, _ in found)


def _mapping(
    recorded: Mapping[str, Any], local: Mapping[str, Any], at: str, pairs: _Pairs
) -> Iterator[tuple[str, str, str, str]]:
    for key, value in recorded.items():
        if PLACEHOLDER.search(key):
            continue  # a key that someone chose
        if key in local:
            yield from _value(value, local[key], f"{at}.{key}", pairs)
        else:
            yield f"{at}.{key}", "missing", _type(value), "absent"
    for key in local:
        if key not in recorded and not PLACEHOLDER.search(key):
            yield f"{at}.{key}", "extra", "absent", _type(local[key])


def _text(recorded: str, local: str, at: str, pairs: _Pairs) -> Iterator[tuple[str, str, str, str]]:
    key = at.rpartition(".")[2].removesuffix("[]")
    theirs, ours = _general(recorded), _general(local)
    if theirs != ours:
        if _alike(recorded, local) or (recorded in _UNENDED and local in LIFECYCLE):
            return
        kind = (
            "code"
            if key.lower() == "code" or key in ("errorCode", "error_code")
            else "word"
            if key in WORD_KEYS
            else ""
        )
        kind = kind or ("text" if key in MESSAGE_KEYS else "form" if PLACEHOLDER.search(recorded) else "value")
        yield at, kind, theirs, ours
        return
    for first, second in zip(PLACEHOLDER.finditer(recorded), PLACEHOLDER.finditer(local), strict=True):
        numbered = (first[2] or "").isdecimal() and (second[2] or "").isdecimal()
        if numbered and first[1] in ("guid", "name", "hex") and not pairs.holds(first[0], second[0]):
            yield at, "same", "equal to an earlier value", "another value"


def _alike(recorded: str, local: str) -> bool:
    """Return whether two texts are both of forms that people choose."""
    first, second = PLACEHOLDER.fullmatch(recorded), PLACEHOLDER.fullmatch(local)
    if first is None or second is None:
        return False
    return first[1] in _FREE_FORMS and second[1] in _FREE_FORMS


def _general(text: str) -> str:
    """Return a text without the numbers and sizes of its placeholders."""
    return PLACEHOLDER.sub(lambda match: f"<{match[1]}>" if _is_number(match[2]) else match[0], text)


def _is_number(role: str | None) -> bool:
    return role is None or re.fullmatch(r"\d+|e-?\d+", role) is not None


def _type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        found = PLACEHOLDER.fullmatch(value)
        return "number" if found is not None and found[1] in ("int", "float") else "text"
    return "object" if isinstance(value, Mapping) else "list"


def _difference(step: str, line: Mapping[str, Any], place: str, kind: str, recorded: str, local: str) -> Difference:
    return Difference(step=step, operation=operation_of(line), place=place, kind=kind, recorded=recorded, local=local)


def operation_of(line: Mapping[str, Any]) -> str:
    """Return an exchange's operation as the page of operations names it.

    Another service than AzureML's is named by its path.
    """
    if line["kind"] != "exchange":
        return f"azure-ai-ml: {line['step']}"
    # A placeholder in the host is no part of an address.
    url = PLACEHOLDER.sub("x", line["url"])
    entry = Entry(method=line["method"], url=url, status=line["status"], headers={}, sent=None, answer=None)
    reduced = reduce_exchange(entry, source="")
    if reduced is not None:
        return reduced.operation
    path = line["url"].partition("://")[2].partition("?")[0]
    return f"{line['method']} {PLACEHOLDER.sub('{}', path)}"
