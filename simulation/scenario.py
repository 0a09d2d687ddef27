"""Scenarios: a world to build, and invariants that hold in it."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final, Protocol

from simulation.kernel import Kernel, Limits, Moment, Network, Profile, SimulationError, Slot


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a scenario is run.

    Attributes:
        limits: bounds of a run.
        linger: virtual seconds that the services continue after the last program has ended.
        slots: global variables of which each process has a separate value, besides those of :mod:`simulation.kernel.state`.
        profile: draws how often faults happen, for each seed.
        around: is entered before ``build``, and left after the run: for what is replaced meanwhile.
    """

    limits: Limits = field(default_factory=Limits)
    linger: float = 0.0
    slots: tuple[Slot, ...] = ()
    profile: Callable[[random.Random], Profile] = Profile.drawn
    around: Callable[[], AbstractContextManager[object]] = nullcontext


class Scenario(Protocol):
    """A world and its invariants.

    Each run makes a new one while its kernel is installed: a lock that was made before is a real one, and two simulated
    threads that need it stop the process for good.
    """

    settings: Settings

    def build(self, kernel: Kernel, network: Network, rng: random.Random) -> None:
        """Start the processes and let them serve.

        Args:
            kernel: is installed; no simulated thread runs yet.
            network: of the world.
            rng: for the shape of the world, such as how many clients there are.
        """

    def check(self, moment: Moment) -> None:
        """Raise Violation if an invariant does not hold.

        Called after every request that may have changed a service, and once at the end. Must not wait.
        """


#: Each scenario's name, and where it is made.
SCENARIOS: Final = {
    "world": "simulation.scenarios.world:any_of_them",
    **{
        f"world-{name.replace('_', '-')}": f"simulation.scenarios.world:{name}"
        for name in (
            *("one_client", "same_commit", "same_moment", "branches", "killed", "promoters", "restarted"),
            *("preempted", "interrupted", "outage", "failing"),
        )
    },
}
DEFAULT: Final = "world"


def load(name: str) -> Callable[[], Scenario]:
    """Import a scenario; return the function that makes it.

    The import comes before any run, because what is imported during a run differs between the first run of a process and
    the next.

    Args:
        name: one of :data:`SCENARIOS`, or ``module:function``.

    Raises:
        SimulationError: there is no such scenario.
    """
    module, _, attribute = SCENARIOS.get(name, name).partition(":")
    if not attribute:
        raise SimulationError(f"no such scenario: {name}; there are {', '.join(sorted(SCENARIOS))}")
    try:
        found: Callable[[], Scenario] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SimulationError(f"the scenario {name} cannot be imported: {error}") from error
    return found
