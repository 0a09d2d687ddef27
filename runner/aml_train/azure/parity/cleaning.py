"""Remove what a recording has made: found by its name, and by its tag."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aml_train.azure.parity.conversation import Conversation, Raw
from aml_train.azure.parity.script import TAG, MissingError, Script, Step, Thing, Until, place
from aml_train.core.errors import ServiceError

_ENDED: Final = "terminal"
_MINUTES: Final = 15.0


@dataclass(frozen=True, kw_only=True)
class Removal:
    """The result for one thing.

    Attributes:
        name: of the thing in the script.
        result: removed, archived, left or foreign (of the name, without the recording's tag).
        why: the reason why it is left.
    """

    name: str
    result: str
    why: str = ""


def clean(conversation: Conversation, script: Script, report: Callable[[Removal], None]) -> list[Removal]:
    """Remove everything that a recording has made; return what was there.

    Each thing is tried, also after a failure of another.
    """
    for name in script.prepare:
        try:
            conversation.take(script.step(name))
        except (MissingError, ServiceError):
            continue  # what needs its variables says so below, and the rest is removed
    found: list[Removal] = []
    for thing in script.things:
        for removal in _each(conversation, thing):
            report(removal)
            found.append(removal)
    return found


def _each(conversation: Conversation, thing: Thing) -> Iterator[Removal]:
    try:
        shown = _send(conversation, thing.name, thing.show, thing.body)
        if thing.each:
            for one in _ids(conversation, thing, shown.json()):
                conversation.variables["found"] = one
                yield _removed(conversation, thing, shown)
        elif 200 <= shown.status < 300:
            yield _single(conversation, thing, shown)
        elif shown.status != 404:
            yield Removal(name=thing.name, result="left", why=f"the service answered {shown.status}")
    except MissingError:
        return  # what it needs was never made
    except ServiceError as error:
        yield Removal(name=thing.name, result="left", why=error.message)


def _ids(conversation: Conversation, thing: Thing, answer: Any) -> list[str]:
    """Return ids of runs with the recording's tag, without those of its jobs."""
    items, _, where = thing.each.partition(".")
    mine = str(conversation.variables["id"])
    found = []
    for item in place(answer, items) or []:
        tags = place(item, "data.tags") or []
        tagged = any(one.get("key") == TAG and one.get("value") == mine for one in tags if isinstance(one, Mapping))
        name = str(place(item, where) or "")
        if tagged and name and not name.startswith(mine):
            found.append(name)
    return found


def _single(conversation: Conversation, thing: Thing, shown: Raw) -> Removal:
    mine = conversation.variables["id"]
    if thing.tags and (place(shown.json(), thing.tags) or {}).get(TAG) != mine:
        return Removal(name=thing.name, result="foreign", why="it does not carry the recording's tag")
    if (place(shown.json(), "properties.isArchived") or False) is True:
        return Removal(name=thing.name, result="archived")
    if thing.cancel and place(shown.json(), thing.status) not in conversation.variables[_ENDED]:
        _send(conversation, thing.name, thing.cancel, None)
        conversation.take(
            _step(thing.name, thing.show, None, until=Until(at=thing.status, words=_ENDED, minutes=_MINUTES))
        )
    return _removed(conversation, thing, shown)


def _removed(conversation: Conversation, thing: Thing, shown: Raw) -> Removal:
    answer = _send(conversation, thing.name, thing.remove, thing.remove_body)
    if 200 <= answer.status < 300 or answer.status == 404:
        return Removal(name=thing.name, result="removed")
    why = f"the service answered {answer.status}"
    if not thing.archive:
        return Removal(name=thing.name, result="left", why=why)
    known = shown.json()
    properties = {**known["properties"], "isArchived": True}
    archived = _send(conversation, thing.name, thing.show.replace("GET ", "PUT ", 1), {"properties": properties})
    if 200 <= archived.status < 300:
        return Removal(name=thing.name, result="archived", why=why)
    return Removal(name=thing.name, result="left", why=f"{why}, and {archived.status} to archiving it")


def _send(conversation: Conversation, name: str, request: str, body: Any) -> Raw:
    return conversation.send(_step(name, request, body))


def _step(name: str, request: str, body: Any, until: Until | None = None) -> Step:
    method, _, address = request.partition(" ")
    return Step(name=f"clean {name}", method=method, address=address, body=body, until=until)
