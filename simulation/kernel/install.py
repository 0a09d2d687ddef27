"""Replace threads, clocks, randomness and the network by a kernel's."""

from __future__ import annotations

import concurrent.futures.thread  # imported when it is first used otherwise, which would be during a run
import functools
import gc
import itertools
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest import mock

from simulation.kernel import burial, current, seam
from simulation.kernel.clocks import virtual_time
from simulation.kernel.errors import SimulationError
from simulation.kernel.references import References
from simulation.kernel.scheduler import Kernel
from simulation.kernel.state import PRODUCT, PYTHON, Globals
from simulation.kernel.substitutes import connecting, substitutes

#: Python's threads are started in another way from 3.13 on.
_PYTHONS: Final = ((3, 11), (3, 12))
SUPPORTED: Final = sys.version_info[:2] in _PYTHONS


@functools.cache
def _references() -> References:
    return References(substitutes())


def prepare() -> None:
    """Search the loaded modules for references.

    Once for all runs of this process and of those that it forks.
    """
    _references().search()


@contextmanager
def installed(kernel: Kernel, *, bury: bool = True) -> Iterator[Kernel]:
    """Install a kernel during the block.

    Args:
        kernel: replaces Python's threads, clocks, randomness and connections in simulated threads.
        bury: end the threads that are left. False if the process of the operating system ends anyway.

    Raises:
        SimulationError: on a Python whose threads the kernel does not know, or if a kernel is installed already.
    """
    if not SUPPORTED:
        known = " and ".join(f"{major}.{minor}" for major, minor in _PYTHONS)
        found = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SimulationError(f"the simulation runs on Python {known}, and this is {found}: their threads differ")
    if current.kernel() is not None:
        raise SimulationError("a kernel is installed already")
    references = _references()
    references.search()
    kernel.globals = Globals([*PYTHON, *PRODUCT])
    kernel.os_thread = current.os_thread()
    collecting = gc.isenabled()
    with ExitStack() as stack:
        # When the collector runs depends on everything that the process has done before, and it runs finalizers.
        gc.disable()
        stack.callback(gc.enable if collecting else gc.disable)
        stack.callback(references.restore)
        references.replace()
        current.install(kernel)
        stack.callback(current.install, None)
        for patch in _patches():
            stack.enter_context(patch)
        stack.enter_context(virtual_time(kernel))
        try:
            yield kernel
        finally:
            kernel.current = None
            if bury:
                burial.bury(kernel)
            kernel.enter(None)


def _patches() -> Iterator[Any]:
    """Yield what is replaced by name, not by its references."""
    yield mock.patch.object(socket.socket, "connect", connecting(socket.socket.connect))
    yield from seam.patches()
    # Executors and ``as_completed`` keep threads and futures in sets, and lock futures in the order of ``id``. Both would be in
    # the order of addresses, which differ between two processes of the operating system.
    serials = itertools.count(1)
    numbered: tuple[Any, ...] = (concurrent.futures.Future, threading.Thread)
    for kind in numbered:
        yield mock.patch.object(kind, "__init__", _numbered(kind.__init__, serials))
        yield mock.patch.object(kind, "__hash__", _serial)
    yield mock.patch.object(concurrent.futures._base, "id", _serial, create=True)
    # By the address of the network card otherwise.
    yield mock.patch.object(uuid, "_node", 0x02AA_BBCC_DDEE)


def _numbered(original: Callable[..., None], serials: Iterator[int]) -> Callable[..., None]:
    def init(self: Any, *args: Any, **options: Any) -> None:
        self._serial = next(serials)
        original(self, *args, **options)

    return init


def _serial(numbered: Any) -> int:
    return int(getattr(numbered, "_serial", 0))
