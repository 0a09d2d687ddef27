"""Decisions: what the seed draws, or what a plan says.

Every choice that is not the usual one has a key, such as ``request:client/MainThread:3:fault``, and is kept in the plan of the
run. The key names the thread and its own count, and not a place in one long sequence: if a choice is removed from the
plan, the others still mean the same places. Shrinking depends on that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

Value = str | int | float | bool
"""A choice, as in JSON."""
Plan = Mapping[str, Value]
"""The choices of a run that are not the usual ones."""


class Decisions:
    """The source of all choices of one run.

    Attributes:
        seed: of the run.
        plan: the choices to repeat; None draws them.
        made: the choices that were made, in their order.
    """

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.seed = seed
        self.plan = plan
        self.made: dict[str, Value] = {}
        self._random = random.Random(f"{seed}/choices")

    def stream(self, name: str) -> random.Random:
        """Return a separate stream of numbers.

        The draws of one process change neither the numbers of another one nor the choices.
        """
        return random.Random(f"{self.seed}/{name}")

    def choose(self, key: str, draw: Callable[[random.Random], Value | None]) -> Value | None:
        """Return the choice at *key*; None is the usual one.

        Args:
            key: the place; each one occurs once in a run.
            draw: draws the choice if there is no plan.
        """
        value = draw(self._random) if self.plan is None else self.plan.get(key)
        if value is not None:
            self.made[key] = value
        return value
