"""Virtual time in place of Python's clocks.

time-machine replaces ``time.time``, ``datetime.now`` and their relatives inside their C types, so that every reference to
them follows; it leaves the clocks that cannot be set, and ``sleep``, which :mod:`simulation.kernel.substitutes` replaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import time_machine

from simulation.kernel.scheduler import Kernel


class _Virtual(time_machine.Traveller):
    """A destination of time-machine that is the kernel's present."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(0, None, tick=False)
        self._kernel = kernel

    def time_ns(self) -> int:
        return self._kernel.wall_clock()


@contextmanager
def virtual_time(kernel: Kernel) -> Iterator[None]:
    """Have the wall clock show the kernel's time during the block."""
    with time_machine.travel(0, tick=False) as traveller:
        place = time_machine.traveller_stack.index(traveller)
        time_machine.traveller_stack[place] = _Virtual(kernel)
        yield
