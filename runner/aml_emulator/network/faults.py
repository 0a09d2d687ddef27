"""Faults that are put in on purpose: which requests get one, and which. Pure but for its counters.

Whether the n-th request that a rule fits gets the fault follows from the rule's seed and from n alone.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from fnmatch import translate
from random import Random
from typing import Any, Literal, get_args

Kind = Literal["status", "delay", "truncate", "reset", "outage"]

MAX_DELAY_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One fault.

    Attributes:
        kind: ``status``: an error is answered; ``delay``: the right answer, late; ``truncate``: half of the right
            answer's body, then the connection breaks; ``reset``: the connection breaks instead of an answer;
            ``outage``: the host cannot be connected to.
        method, host, path: patterns of the shell (``*``, ``?``, ``[...]``), case does not matter. *path* is compared
            with the path alone and with path and query.
        status: what ``status`` answers.
        code: the error's code; empty is a fitting one.
        retry_after: seconds, for the header; None for no header.
        delay: seconds to wait before anything else.
        after: the request is handed on and takes effect, and only its answer is lost, or late.
        probability: of each request that fits.
        seed: of the draws.
        skip: so many requests that fit are let through first.
        count: at most so many faults; None for no limit.
        seconds: for how long from now; None for as long as it is not removed.
    """

    kind: Kind
    method: str = "*"
    host: str = "*"
    path: str = "*"
    status: int = 503
    code: str = ""
    retry_after: float | None = None
    delay: float = 0.0
    after: bool = False
    probability: float = 1.0
    seed: int = 0
    skip: int = 0
    count: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: one of {', '.join(get_args(Kind))}, not '{self.kind}'")
        if not 400 <= self.status <= 599:
            raise ValueError(f"status: from 400 to 599, not {self.status}")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability: from 0 to 1, not {self.probability:g}")
        if not 0 <= self.delay <= MAX_DELAY_SECONDS:
            raise ValueError(f"delay: from 0 to {MAX_DELAY_SECONDS:g} seconds, not {self.delay:g}")
        if self.kind == "delay" and not self.delay:
            raise ValueError("delay: a delay needs its seconds")
        if any(value is not None and value < 0 for value in (self.skip, self.count, self.seconds, self.retry_after)):
            raise ValueError("skip, count, seconds and retry_after: not below 0")
        if self.kind == "outage" and (self.method, self.path) != ("*", "*"):
            raise ValueError("an outage is a host's: it takes no method and no path")

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Rule:
        """Return the rule that a query describes, by the names of the attributes.

        Raises:
            ValueError: an unknown name, or a value that is none; the message names it.
        """
        read: dict[str, Callable[[str], Any]] = {
            **{field.name: str for field in fields(cls)},
            **dict.fromkeys(("status", "seed", "skip", "count"), int),
            **dict.fromkeys(("retry_after", "delay", "probability", "seconds"), float),
            "after": _truth,
        }
        if "kind" not in texts:
            raise ValueError(f"kind is missing: one of {', '.join(get_args(Kind))}")
        values: dict[str, Any] = {}
        for name, text in texts.items():
            if name not in read:
                raise ValueError(f"'{name}' is unknown; known: {', '.join(read)}")
            try:
                values[name] = read[name](text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return cls(**values)


def _truth(text: str) -> bool:
    if text not in ("0", "1", "false", "true"):
        raise ValueError(f"true or false, not '{text}'")
    return text in ("1", "true")


class _Active:
    """A rule at work."""

    def __init__(self, rule: Rule, *, number: int, until: float | None) -> None:
        self.rule = rule
        self.number = number
        self.until = until
        self.fitting = 0
        self.injected = 0
        self._patterns = tuple(
            re.compile(translate(text), re.IGNORECASE) for text in (rule.method, rule.host, rule.path)
        )
        self._random = Random(rule.seed)  # noqa: S311 - it must be the same again

    def fits_host(self, host: str) -> bool:
        return self._patterns[1].match(host) is not None

    def fits(self, method: str, host: str, target: str) -> bool:
        if self._patterns[0].match(method) is None or not self.fits_host(host):
            return False
        return (
            self._patterns[2].match(target) is not None
            or self._patterns[2].match(target.partition("?")[0]) is not None
        )

    def draw(self) -> bool:
        """Count one more request that fits, and return whether it gets the fault."""
        self.fitting += 1
        if self.fitting <= self.rule.skip:
            return False
        # Drawn also where the count is used up: the draws follow from the seed and the number alone.
        hit = self._random.random() < self.rule.probability
        if not hit or (self.rule.count is not None and self.injected >= self.rule.count):
            return False
        self.injected += 1
        return True


class Faults:
    """The rules at work. None is, until one is added; none outlives the process.

    Args:
        clock: seconds since the epoch.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._active: tuple[_Active, ...] = ()
        self._number = 0
        self._listeners: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return bool(self._active)

    def on_change(self, listener: Callable[[], object]) -> None:
        """Have *listener* called, in any thread, after a rule was added or removed."""
        self._listeners.append(listener)

    def add(self, rule: Rule) -> int:
        """Put a rule to work and return its number."""
        with self._lock:
            self._number += 1
            number = self._number
            until = None if rule.seconds is None else self._clock() + rule.seconds
            self._active = (*self._active, _Active(rule, number=number, until=until))
        self._tell()
        return number

    def remove(self, number: int | None = None) -> int:
        """Remove one rule, or all; return how many were removed."""
        with self._lock:
            kept = () if number is None else tuple(one for one in self._active if one.number != number)
            removed = len(self._active) - len(kept)
            self._active = kept
        self._tell()
        return removed

    def choose(self, method: str, host: str, target: str) -> tuple[int, Rule] | None:
        """Return the fault of this request with its rule's number, or None. The first rule that hits is taken.

        Args:
            method: the HTTP method.
            host: the host that the request is for.
            target: path and query.
        """
        with self._lock:
            for one in self._current():
                if one.rule.kind != "outage" and one.fits(method, host, target) and one.draw():
                    return one.number, one.rule
        return None

    def outage(self, host: str) -> bool:
        """Return whether the host cannot be connected to now."""
        if not self._active:
            return False
        with self._lock:
            return any(one.rule.kind == "outage" and one.fits_host(host) and one.draw() for one in self._current())

    def listed(self) -> list[dict[str, Any]]:
        """Return the rules at work: number, what differs from the default, and what they did so far."""
        with self._lock:
            return [
                {
                    "id": one.number,
                    **{
                        field.name: value
                        for field in fields(Rule)
                        if (value := getattr(one.rule, field.name)) != field.default
                    },
                    "fitting": one.fitting,
                    "injected": one.injected,
                }
                for one in self._current()
            ]

    def _current(self) -> tuple[_Active, ...]:
        """Return the rules whose time is not over, and forget the others."""
        if any(one.until is not None for one in self._active):
            now = self._clock()
            self._active = tuple(one for one in self._active if one.until is None or one.until > now)
        return self._active

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
