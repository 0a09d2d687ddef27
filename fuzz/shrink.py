"""Make a failing input smaller while it still fails."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

from fuzz.mutation import places


def shrink(value: Any, fails: Callable[[Any], bool], *, seconds: float = 20.0) -> Any:
    """Return the smallest input found that fails in the same way.

    Args:
        value: fails.
        fails: whether an input does, for the same reason.
        seconds: processor time to spend.
    """
    end = time.process_time() + seconds
    progress = True
    while progress and time.process_time() < end:
        progress = False
        for candidate in _smaller(value):
            if time.process_time() >= end:
                break
            if fails(candidate):
                value, progress = candidate, True
                break
    return value


def _smaller(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        yield from _shorter(value)
        return
    if not isinstance(value, dict | list):
        return
    known = list(places(value))
    for index in range(len(known)):
        yield _changed(value, index, remove=True)
    for index, (_, _, member) in enumerate(known):
        if isinstance(member, str):
            for shorter in _shorter(member):
                yield _changed(value, index, replacement=shorter)
        elif isinstance(member, dict | list) and member:
            yield _changed(value, index, replacement=type(member)())
        elif isinstance(member, int | float) and not isinstance(member, bool) and abs(member) > 1:
            yield _changed(value, index, replacement=1)


def _changed(value: Any, index: int, *, remove: bool = False, replacement: Any = None) -> Any:
    value = copy.deepcopy(value)
    holder, key, _ = list(places(value))[index]
    if remove:
        del holder[key]
    else:
        holder[key] = replacement
    return value


def _shorter(text: str) -> Iterator[str]:
    size = len(text)
    chunk = size
    while chunk:
        for start in range(0, size, chunk):
            yield text[:start] + text[start + chunk :]
        chunk //= 2
