"""Events whose texts are masked before they are shown or kept."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar, get_origin, get_type_hints

from aml_train.core.events import Event, Listener, LogLines
from aml_train.core.masking import Masker

#: Computed names, and words of this product, in which a short secret may occur by chance.
_COMPUTED: Final[Mapping[str, frozenset[str]]] = {
    "JobNamed": frozenset({"job"}),
    "JobSubmitted": frozenset({"job"}),
    "ReplicateChanged": frozenset({"job", "status"}),
    "StopFound": frozenset({"job"}),
    "NodeChanged": frozenset({"job", "run", "status"}),
    "ImageReady": frozenset({"reference", "digest"}),
    "ModelRegistered": frozenset({"model", "version"}),
    "ModelPromoted": frozenset({"model", "version", "stage", "previous"}),
    "PromotionDecided": frozenset({"model", "version", "stage", "previous"}),
    "RunFinished": frozenset({"status"}),
    # Of a report:
    "Report": frozenset({"status"}),
    "Source": frozenset({"commit"}),
    "Job": frozenset({"name", "status"}),
    "AttemptEnded": frozenset({"job", "status", "ending", "resumed_from"}),
    "GraphNode": frozenset({"run", "status"}),
    "Model": frozenset({"name", "version"}),
}
_Value = TypeVar("_Value")


def masked(value: _Value, mask: Callable[[str], str], mask_name: Callable[[str], str]) -> _Value:
    """Return an event, or another value, with its texts masked; names by *mask_name*."""
    changed: Any = value
    if isinstance(value, str):
        changed = mask(value)
    elif isinstance(value, tuple | list):
        changed = type(value)(masked(one, mask, mask_name) for one in value)
    elif isinstance(value, Mapping):
        changed = {masked(key, mask, mask_name): masked(one, mask, mask_name) for key, one in value.items()}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        words = _words(type(value))
        fields = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.name not in words}
        names = _COMPUTED.get(type(value).__name__, frozenset())
        parts = {name: masked(one, mask_name if name in names else mask, mask_name) for name, one in fields.items()}
        changed = dataclasses.replace(value, **parts)
    return changed  # type: ignore[no-any-return]


@functools.cache
def _words(kind: type) -> frozenset[str]:
    """Return the fields whose values are words of this product, in which no secret can be."""
    return frozenset(name for name, hint in get_type_hints(kind).items() if get_origin(hint) is Literal)


def names_in(event: Event) -> tuple[str, ...]:
    """Return an event's computed names, in which a short secret may occur by chance."""
    computed, found = _COMPUTED.get(type(event).__name__, ()), vars(event)
    names = [found[name] for name in ("job", "reference", "digest", "model") if name in computed]
    return (*names, f"{found['model']}:{found['version']}") if "version" in computed else tuple(names)


def masked_listener(masker: Masker, *listeners: Listener) -> Listener:
    """Return a listener that hands events on to *listeners* without secrets."""

    def listen(event: Event) -> None:
        for name in names_in(event):
            masker.keep(name)
        # A job's log has no secrets any more: they are found there though they arrive in two parts.
        shown = event if isinstance(event, LogLines) else masked(event, masker.mask, masker.mask_name)
        for listener in listeners:
            listener(shown)

    return listen
