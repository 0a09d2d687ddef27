"""Errors of the simulation."""

from __future__ import annotations


class SimulationError(Exception):
    """The simulation is used in a way that it does not support."""


class WouldWaitError(SimulationError):
    """Code outside of the simulated threads would have to wait.

    Such as for a lock that one of them holds.
    """


class Violation(Exception):  # noqa: N818 - a finding, not a fault of the simulation
    """An invariant does not hold.

    Attributes:
        invariant: its name; shrinking keeps a schedule only if the same one is violated.
        message: what was seen.
    """

    def __init__(self, invariant: str, message: str) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant
        self.message = message


class Buried(BaseException):
    """Ends a simulated thread that is still waiting when the run is over."""
