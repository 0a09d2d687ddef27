"""The kernel that is installed, for the functions that replace those of Python."""

from __future__ import annotations

import _thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.kernel.entities import Task
    from simulation.kernel.scheduler import Kernel

#: Taken before anything is replaced: it identifies the thread of the operating system.
_real_ident = _thread.get_ident
_installed: Kernel | None = None


def kernel() -> Kernel | None:
    """Return the kernel of this thread of the operating system, if one is installed.

    Other threads, such as those of a test runner, keep the real functions.
    """
    found = _installed
    return found if found is not None and found.os_thread == _real_ident() else None


def task() -> Task | None:
    """Return the simulated thread that is running, None outside of one."""
    found = kernel()
    return None if found is None else found.current


def os_thread() -> int:
    """Return the identity of this thread of the operating system."""
    return _real_ident()


def install(found: Kernel | None) -> None:
    """Make *found* the kernel that replaced functions use."""
    global _installed
    _installed = found
