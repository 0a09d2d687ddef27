"""Shrink a failing run.

Choices are left out, as long as the same invariant is violated. Delta debugging (Zeller and Hildebrandt, 2002) over the choices of the plan: first whole kinds, then blocks, then one by one.
A choice that is left out becomes the usual one, so that the shrunk plan names what the failure needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from simulation.kernel import Plan
from simulation.kernel.decisions import Value
from simulation.runs import Outcome

Runner = Callable[[Plan], Outcome]

#: The most choices of which all pairs are tried.
_FEW: Final = 24
#: Kinds of choices, by the beginnings or endings of their keys; the most frequent ones come first.
_KINDS: Final[tuple[Callable[[str], bool], ...]] = (
    lambda key: key.startswith("next:"),
    lambda key: key.startswith(("point:", "lock:")),
    lambda key: key.endswith((":out", ":back")),
    lambda key: key.startswith(("kill:", "restart:")),
    lambda key: key.endswith(":fault"),
)


@dataclass(frozen=True, kw_only=True)
class Shrunk:
    """The smallest failing run that was found.

    Attributes:
        outcome: of that run.
        tried: how many runs it took.
        complete: whether no single choice can be left out; False if the bound was reached.
    """

    outcome: Outcome
    tried: int
    complete: bool


class _OutOfTimeError(Exception):
    """There is no time for another run."""


class _Search:
    """The search for the smallest plan."""

    def __init__(self, failing: Outcome, run: Runner, more: Callable[[int], bool]) -> None:
        self.best = failing
        self.tried = 0
        self._run = run
        self._more = more

    def without(self, left_out: set[str]) -> bool:
        """Try the best plan without some choices; keep it if it fails in the same way."""
        plan: dict[str, Value] = {key: value for key, value in self.best.plan.items() if key not in left_out}
        if len(plan) == len(self.best.plan):
            return False
        if not self._more(self.tried):
            raise _OutOfTimeError
        self.tried += 1
        outcome = self._run(plan)
        if outcome.invariant != self.best.invariant or len(outcome.plan) >= len(self.best.plan):
            return False
        self.best = outcome
        return True

    def kinds(self) -> None:
        self.without(set(self.best.plan))
        for kind in _KINDS:
            self.without({key for key in self.best.plan if kind(key)})

    def blocks(self) -> None:
        size = max(1, len(self.best.plan) // 2)
        while True:
            place, changed = 0, False
            while place < len(self.best.plan):
                block = set(list(self.best.plan)[place : place + size])
                if self.without(block):
                    changed = True
                else:
                    place += size
            if size == 1 and not changed:
                return
            size = max(1, size // 2)

    def pairs(self) -> bool:
        """Leave out two at a time: a delay may be needed only because of another one."""
        keys = list(self.best.plan)
        return len(keys) <= _FEW and any(self.without(set(pair)) for pair in itertools.combinations(keys, 2))


def shrink(failing: Outcome, run: Runner, *, more: Callable[[int], bool] = lambda tried: tried < 2_000) -> Shrunk:
    """Return the smallest failing run that can be found.

    Args:
        failing: the run to begin with.
        run: runs a plan.
        more: whether there is time for another run, after so many.
    """
    search = _Search(failing, run, more)
    try:
        # With a plan, the choices are the same, and the lines of the trace come with the outcome.
        search.kinds()
        search.blocks()
        while search.pairs():
            search.blocks()
    except _OutOfTimeError:
        return Shrunk(outcome=search.best, tried=search.tried, complete=False)
    return Shrunk(outcome=search.best, tried=search.tried, complete=True)
