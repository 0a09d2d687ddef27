"""Faults of the network, and how often they happen."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

#: Each fault of a request, with what the client sees.
FAULTS: Final = {
    "refused": "the connection is refused",
    "connect-hangs": "the connection is not answered until the client's time-out",
    "request-lost": "the connection is reset before the service has the request",
    "answer-lost": "the service does it, and the connection is reset before the answer",
    "request-hangs": "the request never arrives, and the client waits until its time-out",
    "answer-hangs": "the service does it, and the answer never arrives",
    "duplicated": "the request arrives twice",
    "refusal": "a status of 429 or 5xx in place of the service",
    "late-refusal": "the service does it, and a status of 5xx is the answer",
    "truncated": "the body ends too early",
    "stalled": "the body stops in the middle until the client's time-out",
    "stale": "an earlier answer to the same read",
}
_REFUSALS: Final = (429, 500, 502, 503, 504)
_RETRY_AFTER: Final = ("", "", "0", "1", "5", "30")


@dataclass(frozen=True, kw_only=True)
class Profile:
    """How often things happen, each from 0 to 1.

    By default the network is without faults.

    Attributes:
        fault: of a request.
        kinds: the faults that happen.
        delay: of a request or an answer; a delayed one is overtaken by others.
        longest: the longest delay in seconds.
        switch: another thread continues than the first that could.
        preempt: another thread continues before a lock is acquired.
        kill: a process is killed at a switch point, if it may be.
    """

    fault: float = 0.0
    kinds: tuple[str, ...] = tuple(FAULTS)
    delay: float = 0.0
    longest: float = 60.0
    switch: float = 0.0
    preempt: float = 0.0
    kill: float = 0.0

    @classmethod
    def drawn(cls, rng: random.Random) -> Profile:
        """Return a profile for one seed.

        Seeds differ in which faults happen at all: a fault that happens all the time hides what needs a long time without it
        ("swarm testing", Groce et al., 2012).
        """
        kinds = tuple(kind for kind in FAULTS if rng.random() < 0.5)
        return cls(
            fault=rng.choice((0.0, 0.01, 0.05, 0.2)) if kinds else 0.0,
            kinds=kinds,
            delay=rng.choice((0.0, 0.05, 0.3)),
            longest=rng.choice((0.5, 10.0, 300.0)),
            switch=rng.choice((0.0, 0.1, 0.5, 0.9)),
            preempt=rng.choice((0.0, 0.02, 0.2)),
            kill=rng.choice((0.0, 0.0, 0.001, 0.01)),
        )

    def without(self, **changes: float) -> Profile:
        """Return the profile with other rates."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]  # the rates are numbers


def draw_fault(rng: random.Random, profile: Profile, immune: Collection[str]) -> str | None:
    """Return a fault as text, such as ``refusal 503 5``; None most of the time."""
    if rng.random() >= profile.fault:
        return None
    kinds = [kind for kind in profile.kinds if kind not in immune]
    if not kinds:
        return None
    kind = rng.choice(kinds)
    match kind:
        case "refusal" | "late-refusal":
            status = rng.choice(_REFUSALS if kind == "refusal" else _REFUSALS[1:])
            return f"{kind} {status} {rng.choice(_RETRY_AFTER)}".rstrip()
        case "truncated" | "stalled":
            return f"{kind} {rng.randrange(100)}"  # percent of the body
        case "stale":
            return f"{kind} {rng.randint(1, 4)}"  # answers ago
        case "duplicated":
            return f"{kind} {rng.choice((0.0, 0.05, 1.0, 30.0))}"  # seconds later
        case _:
            return kind


def draw_delay(rng: random.Random, profile: Profile) -> float | None:
    """Return seconds, evenly spread over their orders of magnitude.

    None most of the time.
    """
    if rng.random() >= profile.delay:
        return None
    return round(float(0.01 * (profile.longest / 0.01) ** rng.random()), 3)
