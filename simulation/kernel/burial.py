"""The end of threads that are left after a run."""

from __future__ import annotations

import logging
import threading

from greenlet import greenlet

from simulation.kernel.errors import Buried
from simulation.kernel.scheduler import Kernel

#: Threads that caught their end each time. Their greenlets must never be freed: that would run their code.
_undead: list[greenlet] = []


def bury(kernel: Kernel) -> None:
    """End all threads that are left, of killed processes, too.

    A greenlet that is freed while it waits is resumed with an exception: that would run code of killed processes at any
    moment. Here it runs after the last check, and every wait raises. A thread that continues all the same is kept for good.
    """
    kernel.begin_burial()
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # the threads' complaints
    try:
        for process in kernel.processes:
            for task in process.tasks:
                if task.greenlet:  # it has begun, and has not ended
                    kernel.enter(process)
                    threading.excepthook = _silent
                    kernel.current = task
                    task.greenlet.throw(Buried)
                    if not task.greenlet.dead:
                        _undead.append(task.greenlet)
    finally:
        kernel.current = None
        logging.disable(level)


def _silent(_failure: object) -> None:
    """Report nothing: the thread is ended on purpose."""
