"""The parts of a run: processes, threads, and moments of checks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from greenlet import greenlet

if TYPE_CHECKING:
    from simulation.kernel.locks import Lock
    from simulation.kernel.scheduler import Kernel


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a run; a run that exceeds one violates ``every-run-ends``.

    Attributes:
        switches: the most switches between threads.
        seconds: the most virtual seconds.
    """

    switches: int = 500_000
    seconds: float = 30 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class Moment:
    """When a scenario is checked.

    Attributes:
        kernel: for processes and time.
        what: the step that changed a service.
        final: whether the run has ended.
    """

    kernel: Kernel
    what: str
    final: bool = False


@dataclass(eq=False)
class Process:
    """A simulated process.

    Attributes:
        name: of the program.
        label: unique in the run: ``client``, after a restart ``client#2``.
        pid: what ``os.getpid`` returns in it.
        skew: nanoseconds that its wall clock is ahead.
        random: the source of ``os.urandom``, ``random``, ``secrets`` and ``uuid`` in it.
        service: serves requests; the run does not wait for its end.
        preemptible: whether another thread may continue before one of its threads acquires a lock.
        alive: whether it has neither ended nor been killed.
        exit_code: how it ended; -9 if it was killed.
        error: what ended its main thread, if that was unexpected.
        points: switch points so far.
        handlers: of signals, if they were set.
        values: its values of the global variables; None until it first runs.
    """

    name: str
    label: str
    pid: int
    skew: int
    random: random.Random
    service: bool = False
    killable: bool = False
    preemptible: bool = True
    alive: bool = True
    exit_code: int | None = None
    error: BaseException | None = None
    points: int = 0
    main: Task | None = None
    tasks: list[Task] = field(default_factory=list)
    handlers: dict[int, Any] = field(default_factory=dict)
    pending: list[int] = field(default_factory=list)
    at_exit: list[Callable[[], object]] = field(default_factory=list)
    on_death: list[Callable[[], None]] = field(default_factory=list)
    on_kill: Callable[[], None] | None = None
    values: list[object] | None = None


@dataclass(eq=False, slots=True, weakref_slot=True)
class Task:
    """A simulated thread.

    Attributes:
        name: unique in the run, such as ``client/MainThread``.
        ident: what ``threading.get_ident`` returns in it.
        waiting: what it waits for, for messages.
        woken: None while it waits; False if the wait has timed out.
        yields: how often it has returned to the hub.
        locked: how often it has acquired a lock.
        requests: how many requests it has sent.
        sentinel: the lock that ``Thread.join`` waits for.
    """

    name: str
    process: Process
    ident: int
    greenlet: greenlet
    waiting: str = ""
    woken: bool | None = True
    ready: bool = False
    yields: int = 0
    locked: int = 0
    requests: int = 0
    burials: int = 0
    sentinel: Lock | None = None
