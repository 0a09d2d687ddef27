"""The scheduler: simulated processes and threads, and virtual time.

All of it runs in one thread of the operating system. A simulated thread is a greenlet; at each switch point it returns to
the hub, the loop in :meth:`Kernel.run`, which chooses who continues. Time passes only when no thread can continue.
"""

from __future__ import annotations

import itertools
import random
import signal
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from greenlet import getcurrent, greenlet

from simulation.kernel import current
from simulation.kernel.decisions import Decisions, Value
from simulation.kernel.entities import Limits, Moment, Process, Task
from simulation.kernel.errors import Buried, SimulationError, Violation, WouldWaitError
from simulation.kernel.faults import Profile
from simulation.kernel.programs import run_program, stacks
from simulation.kernel.timers import Timer, Timers
from simulation.kernel.trace import Trace

if TYPE_CHECKING:
    from simulation.kernel.network import Network
    from simulation.kernel.state import Globals, Slot

#: 2026-01-05T09:00:00Z, a Monday: the wall clock's beginning. The monotonic one begins elsewhere, so that they are not confused.
EPOCH: Final = 1_767_603_600 * 10**9
MONOTONIC_START: Final = 1_000 * 10**9
#: Reading a clock takes a microsecond, so that a loop that only looks at the time has an end.
READING: Final = 1_000
#: Identities of threads begin above those of the operating system's.
_FIRST_IDENT: Final = 1 << 44
_FIRST_PID: Final = 100_001
#: How often a thread may catch its end after the run before it is left as it is.
_BURIALS: Final = 50


class Kernel:
    """The simulated machine. Install it with :func:`simulation.kernel.installed`.

    Attributes:
        current: the thread that runs; None in the hub.
        processes: all of the run, in the order of their beginning.
        switches: how often the hub has let a thread continue.
    """

    def __init__(self, decisions: Decisions, *, profile: Profile | None = None, limits: Limits | None = None) -> None:
        self.decisions = decisions
        self.profile = profile or Profile()
        self.limits = limits or Limits()
        self.trace = Trace()
        self.current: Task | None = None
        self.processes: list[Process] = []
        self.switches = 0
        self.os_thread = current.os_thread()
        self.globals: Globals | None = None
        self.network: Network | None = None
        self.checker: Callable[[Moment], None] | None = None
        self.burying = False
        self._by_pid: dict[int, Process] = {}
        self._by_ident: dict[int, Task] = {}
        self._names: dict[str, int] = {}
        self._ready: list[Task] = []
        self._timers = Timers()
        self._idents = itertools.count(_FIRST_IDENT)
        self._hub: greenlet = getcurrent()
        self._last = "start:0"
        self._forced: Task | None = None
        self._failure: Violation | None = None
        self._unchecked: str | None = None

    # Processes and threads

    def process(
        self,
        name: str,
        main: Callable[[], object] | None = None,
        *,
        skew: float = 0.0,
        service: bool = False,
        killable: bool = False,
        restart: bool = False,
        preemptible: bool = True,
    ) -> Process:
        """Start a simulated process.

        Args:
            name: of the program; the next process of that name is another incarnation.
            main: runs as its main thread. The process ends as Python's do: it waits for threads that are no daemons, and calls
                the functions of ``atexit``. Without one, the process only serves requests.
            skew: seconds that its wall clock is ahead.
            service: it lives on after *main*, and the run ends without waiting for it.
            killable: the profile's kills may hit it.
            restart: it is started again some time after it was killed.
            preemptible: whether another thread may continue before one of its threads acquires a lock.
        """
        label = self._unique(name)
        process = Process(
            name=name,
            label=label,
            pid=_FIRST_PID + len(self.processes),
            skew=round(skew * 1e9),
            random=self.decisions.stream(f"process/{label}"),
            service=service or main is None,
            killable=killable,
            preemptible=preemptible,
        )
        if restart:
            options: dict[str, Any] = {
                "skew": skew,
                "service": service,
                "killable": killable,
                "restart": True,
                "preemptible": preemptible,
            }
            process.on_kill = partial(self._restart_later, process, main, options)
        self.processes.append(process)
        self._by_pid[process.pid] = process
        self.trace.add(self.now, label, "process", "starts")
        if main is not None:
            process.main = self.spawn(process, "MainThread", partial(run_program, self, process, main))
        return process

    def _restart_later(self, process: Process, main: Callable[[], object] | None, options: Mapping[str, Any]) -> None:
        drawn = self.decisions.choose(f"restart:{process.label}", lambda rng: round(rng.uniform(0.1, 120.0), 1))
        self.after(float(drawn or 1.0), lambda: self.process(process.name, main, **options))

    def spawn(self, process: Process, name: str, function: Callable[[], object]) -> Task:
        """Start a thread in *process*."""
        unique = self._unique(f"{process.label}/{name}")

        def run() -> None:
            try:
                function()
            except Buried:
                return
            except Violation as violation:
                self.fail(violation)
            except SystemExit:
                return
            except BaseException as error:  # noqa: BLE001 - `threading` catches the errors of threads: this is our own
                text = "".join(traceback.format_exception(error))
                self.fail(Violation("no-crash", f"{unique} ended with\n{text}"))

        task = Task(name=unique, process=process, ident=next(self._idents), greenlet=greenlet(run, self._hub))
        self._by_ident[task.ident] = task
        process.tasks.append(task)
        self._make_ready(task)
        return task

    def _unique(self, name: str) -> str:
        count = self._names[name] = self._names.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def running(self) -> Task:
        """Return the thread that runs.

        Raises:
            WouldWaitError: outside of one.
        """
        if self.current is None:
            raise WouldWaitError("only a simulated thread can do this; code of a check or of a build cannot wait")
        return self.current

    def find(self, pid: int) -> Process | None:
        """Return the process with this id."""
        return self._by_pid.get(pid)

    def end(self, process: Process, code: int) -> None:
        """End a process: none of its threads continues."""
        if not process.alive:
            return
        process.alive, process.exit_code = False, code
        self.trace.add(self.now, process.label, "process", f"ends with {code}")
        self._ready = [task for task in self._ready if task.process is not process]
        for action in process.on_death:
            action()
        if self.current is not None and self.current.process is process:
            self._never_return()

    def kill(self, process: Process) -> None:
        """End a process as ``kill -9`` does.

        Its threads never continue, so that no ``finally``, ``except`` or ``atexit`` runs. Requests that it has sent arrive.
        """
        if not process.alive:
            return
        self.trace.add(self.now, process.label, "kill", f"killed at its switch point {process.points}")
        if process.on_kill is not None:
            process.on_kill()
        self.end(process, -9)

    def signal(self, process: Process, number: int) -> None:
        """Send a signal; its handler runs in the main thread of the process."""
        if number == signal.SIGKILL or process.main is None:
            self.kill(process)
        elif process.alive:
            self.trace.add(self.now, process.label, "signal", signal.Signals(number).name)
            process.pending.append(number)
            if process.main is not self.current:
                self._make_ready(process.main)

    def _never_return(self) -> None:
        """Leave the current thread for good.

        Its greenlet is kept, because freeing it would run its code.
        """
        self._hub.switch()
        raise AssertionError("a thread of an ended process continued")

    # Switch points

    def wait(self, what: str, until: int | None = None) -> bool:
        """Let other threads continue until :meth:`wake`, or until a time.

        Args:
            what: is waited for, for messages.
            until: virtual nanoseconds; None waits without end.

        Returns:
            whether it was woken.
        """
        task = self.running()
        self._bury(task)
        self._count(task)
        task.waiting, task.woken = what, None
        timer = None if until is None else self.at(until, partial(self._time_out, task))
        try:
            while self._waits(task):
                self._switch(task)
                self._deliver(task)
        finally:
            task.woken, task.waiting = bool(task.woken), ""
            if timer is not None:
                timer.action = None
        return task.woken

    @staticmethod
    def _waits(task: Task) -> bool:
        return task.woken is None

    def sleep(self, seconds: float) -> None:
        """Let other threads continue for so long."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self.wait("a time", self.now + round(seconds * 1e9))

    def point(self, what: str) -> None:
        """Mark a switch point: the thread continues, or another one does."""
        task = self.running()
        self._bury(task)
        self._count(task)
        self._maybe_switch(f"point:{task.name}:{task.yields}:{what}", task, self.profile.switch)

    def preempt(self) -> None:
        """Switch to another thread before a lock, if the choice is so."""
        task = self.running()
        task.locked += 1
        if self._ready and task.process.preemptible:
            self._maybe_switch(f"lock:{task.name}:{task.locked}", task, self.profile.preempt)

    def _maybe_switch(self, key: str, task: Task, rate: float) -> None:
        if self.burying:
            return
        others = [other.name for other in self._ready]

        def draw(rng: random.Random) -> Value | None:
            return rng.choice(others) if others and rng.random() < rate else None

        chosen = self.decisions.choose(key, draw)
        found = next((other for other in self._ready if other.name == chosen), None)
        if found is not None:
            self.trace.add(self.now, task.name, "forced", f"lets {found.name} continue")
            self._forced = found
            self._make_ready(task)
            self._switch(task)
        self._deliver(task)

    def _count(self, task: Task) -> None:
        """Count a switch point of the process; kill it there if the choice is so."""
        process = task.process
        process.points += 1

        def draw(rng: random.Random) -> Value | None:
            return True if process.killable and rng.random() < self.profile.kill else None

        if self.decisions.choose(f"kill:{process.label}:{process.points}", draw):
            self.kill(process)

    def _switch(self, task: Task) -> None:
        task.yields += 1
        self._last = f"{task.name}:{task.yields}"
        self._hub.switch()
        self._bury(task)

    def _deliver(self, task: Task) -> None:
        """Run handlers of signals."""
        process = task.process
        while process.main is task and process.pending:
            number = process.pending.pop(0)
            handler = process.handlers.get(number, signal.SIG_DFL)
            if handler == signal.SIG_IGN:
                continue
            if callable(handler):
                handler(number, None)
            elif number == signal.SIGINT:
                raise KeyboardInterrupt
            else:
                self.end(process, -number)

    def wake(self, task: Task) -> None:
        """Let a waiting thread continue."""
        if task.woken is None:
            task.woken = True
            self._make_ready(task)

    def _time_out(self, task: Task) -> None:
        if task.woken is None:
            task.woken = False
            self._make_ready(task)

    def _make_ready(self, task: Task) -> None:
        if not task.ready and task.process.alive:
            task.ready = True
            self._ready.append(task)

    # Time

    @property
    def now(self) -> int:
        """Virtual nanoseconds since the beginning."""
        return self._timers.now

    def at(self, when: int, action: Callable[[], object]) -> Timer:
        """Call *action* in the hub at a time."""
        return self._timers.at(when, action)

    def after(self, seconds: float, action: Callable[[], object]) -> Timer:
        """Call *action* in the hub after so many virtual seconds."""
        return self.at(self.now + round(seconds * 1e9), action)

    def read_clock(self) -> int:
        """Return the virtual time; reading takes a moment of it."""
        if self.current is not None:
            self._timers.now += READING
        return self.now

    def wall_clock(self) -> int:
        """Return nanoseconds since 1970, as the current process has them."""
        skew = 0 if self.current is None else self.current.process.skew
        return EPOCH + skew + self.read_clock()

    # The hub

    def run(self, linger: float = 0.0) -> None:
        """Run until every process that is no service has ended.

        Args:
            linger: virtual seconds that services continue afterwards, such as for a sweep.

        Raises:
            Violation: of an invariant, a deadlock, or a run without an end.
        """
        self._hub = getcurrent()
        while self._busy():
            if not self._step() and self._busy():
                raise Violation(
                    "no-deadlock", f"no thread can continue, and nothing else will happen\n{stacks(self.processes)}"
                )
        end = self.now + round(linger * 1e9)
        while self._step(end):
            pass
        self._check(final=True)

    def _busy(self) -> bool:
        """Return whether a program runs, or has yet to start again after a kill."""
        last = {process.name: process for process in self.processes if not process.service}
        restarting = (process.on_kill and process.exit_code == -9 for process in last.values())
        return any(process.alive and not process.service for process in self.processes) or any(restarting)

    def _step(self, end: int | None = None) -> bool:
        """Let one thread continue; return False if none ever can, or not until *end*."""
        self._timers.expire()
        if end is not None and self.now > end:
            return False
        while not self._ready:
            if not self._timers.move(end):
                return False
            self._check()
        self._bounds()
        task = self._pick()
        self._ready.remove(task)
        task.ready = False
        self.switches += 1
        self.trace.add(self.now, task.name, "runs", "")
        self.enter(task.process)
        self.current = task
        try:
            task.greenlet.switch()
        finally:
            self.current = None
        if task.greenlet.dead:
            task.process.tasks.remove(task)
            del self._by_ident[task.ident]
            self._last = f"{task.name}:ended"
        if self._failure is not None:
            raise self._failure
        self._check()
        return True

    def _pick(self) -> Task:
        """Return who continues: the first that could, unless the choice is another one."""
        forced, self._forced = self._forced, None
        if forced is not None and forced in self._ready:
            return forced
        if len(self._ready) == 1:
            return self._ready[0]
        others = [task.name for task in self._ready[1:]]

        def draw(rng: random.Random) -> Value | None:
            return rng.choice(others) if rng.random() < self.profile.switch else None

        chosen = self.decisions.choose(f"next:{self._last}", draw)
        found = next((task for task in self._ready if task.name == chosen), None)
        if found is None:
            return self._ready[0]
        self.trace.add(self.now, found.name, "forced", f"continues before {self._ready[0].name}")
        return found

    def _bounds(self) -> None:
        if self.switches >= self.limits.switches or self.now > self.limits.seconds * 1e9:
            text = f"no end after {self.switches} switches and {self.now / 1e9:.0f} virtual seconds\n{stacks(self.processes)}"
            raise Violation("every-run-ends", text)

    def separate(self, slots: Iterable[Slot]) -> None:
        """Give each process a separate value of further global variables."""
        if self.globals is not None:
            self.globals.add(slots)

    def enter(self, process: Process | None) -> None:
        """Put the values of a process into the global variables; None is the outside."""
        if self.globals is not None:
            self.globals.enter(process)

    # Findings

    def fail(self, violation: Violation) -> None:
        """End the run with a violation at the next switch point."""
        if self._failure is None and not self.burying:
            self._failure = violation

    def note(self, text: str) -> None:
        """Add a line to the trace, which failures print."""
        task = self.current
        self.trace.add(self.now, "" if task is None else task.name, "note", text)

    def changed(self, what: str) -> None:
        """Have the scenario checked before another thread continues."""
        self._unchecked = what

    def _check(self, *, final: bool = False) -> None:
        what, self._unchecked = self._unchecked, None
        if self.checker is None or (what is None and not final):
            return
        self.enter(None)
        try:
            self.checker(Moment(kernel=self, what=what or "the end", final=final))
        except WouldWaitError:
            # A service is in the middle of a change, under a lock: it is checked after the next step.
            self._unchecked = what
            if final:
                raise SimulationError("a thread still holds a lock that the final check needs") from None

    # After the run

    def begin_burial(self) -> None:
        """From now on, each wait raises: see :mod:`simulation.kernel.burial`."""
        self.burying = True
        self._hub = getcurrent()

    def _bury(self, task: Task) -> None:
        if self.burying:
            task.burials += 1
            if task.burials > _BURIALS:
                self._hub.switch()
            raise Buried
