"""A workspace with its clients, under the scheduler.

The scenarios are those of :mod:`simulation.world.scenarios`. The services answer whole requests at a time: no other thread
continues in the middle of one. A kill of the service between two requests, and the loss of an answer, are what a client sees
of a kill within one.
"""

from __future__ import annotations

import contextlib
import functools
import random
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from simulation.kernel import Kernel, Limits, Moment, Network, Process, Profile, Request, Response, Violation
from simulation.kernel.exchange import refused
from simulation.kernel.scheduler import EPOCH
from simulation.scenario import Settings
from simulation.scenarios.imports import LATE
from simulation.world import http
from simulation.world.client import Client
from simulation.world.ends import Ended
from simulation.world.incidents import Incident
from simulation.world.invariants import INVARIANTS, Invariant, swept
from simulation.world.project import Project
from simulation.world.scenarios import SCENARIOS, Program, Scenario
from simulation.world.service import STORAGE_HOST
from simulation.world.truth import read_truth
from simulation.world.world import World

with warnings.catch_warnings():
    # Of libraries, about their own use of others.
    warnings.simplefilter("ignore")
    for _name in LATE:
        import_module(_name)

#: What is checked after every change; the rest reads everything that was ever written, and is checked at the end.
_AT_ONCE: Final[tuple[Invariant, ...]] = tuple(
    one for name, one in INVARIANTS.items() if name not in ("nothing_lost", "no_secret")
)
#: Longer than a restart of the service takes, which the last check needs.
_LINGER: Final = 600.0
#: Virtual seconds between two looks whether the programs have ended.
_LOOK: Final = 5.0
#: Seconds after the end of a client by which most of its delayed requests have arrived.
_ARRIVED: Final = 90.0
#: Seconds that a client's clock is wrong at most, either way.
_SKEW: Final = 45.0
#: From the end of the last client to the clean-up: longer than any lease, and than releases that nothing uses are kept.
_UNTIL_SWEEP: Final = 100 * 86_400.0
_SERVICE: Final = "azureml"


class Workspace:
    """A scenario: one workspace, and clients that faults happen to.

    Args:
        choose: draws one of the world's scenarios.
    """

    def __init__(self, choose: Callable[[random.Random], Scenario]) -> None:
        self.settings = Settings(
            limits=Limits(switches=2_000_000, seconds=200 * 86_400.0), linger=_LINGER, around=self._around
        )
        self._choose = choose
        self._stack = contextlib.ExitStack()
        self._sweeping = False
        self._names: list[str] = []

    @contextlib.contextmanager
    def _around(self) -> Iterator[None]:
        with self._stack:
            yield

    def build(self, kernel: Kernel, network: Network, rng: random.Random) -> None:
        """Start the services, and the program that starts the clients."""
        self._kernel, self._network = kernel, network
        self.world = World(
            Path(tempfile.gettempdir()) / "world",
            seed=rng.randrange(1 << 32),
            clock=lambda: (EPOCH + kernel.now) / 1e9,
        )
        self.world.on_end, self.world.restart = self._note, self._kill_service
        self._stack.callback(self.world.close)
        self._stack.enter_context(self.world.alone())
        identity = self.world.identity
        store = kernel.process("storage", service=True, preemptible=False)
        network.serve(STORAGE_HOST, self._answer, process=store, direct=True)
        network.serve(identity.blob_host, self._answer, process=store, immune=("stale",))
        registry = kernel.process("registry", service=True, preemptible=False)
        network.serve(identity.login_server, self._answer, process=registry, immune=("stale",))
        kernel.process(_SERVICE, self._serve, service=True, killable=True, restart=True, preemptible=False)
        scenario, self._source = self._choose(rng), rng
        kernel.process("scenario", functools.partial(self._run, scenario))

    def _serve(self) -> None:
        """Start a process of the service, and let it answer."""
        kernel, azureml = self._kernel, self.world.azureml
        process = kernel.running().process
        # As the operating system does it: files are closed, and an open transaction is undone.
        process.on_death.append(azureml.stop)
        azureml.start()
        self._network.serve("*", self._answer, process=process)

    def _kill_service(self) -> None:
        kernel = self._kernel
        kernel.kill(next(one for one in reversed(kernel.processes) if one.name == _SERVICE))

    def _answer(self, request: Request) -> Response:
        asked = http.Request(
            method=request.method,
            url=request.url,
            headers=dict(request.headers.items()),
            body=request.body,
            late=request.late,
        )
        try:
            hit = self._incident_at(request, asked.host)
            if hit is not None:
                self._begin(hit)
            answered = self.world.handle(asked)
            if hit is not None and hit.outage and hit.done:
                self.world.refuse(hit.outage)
                answered = self.world.handle(asked)
        except http.UnreachableError:
            raise refused() from None
        return Response(status=answered.status, headers=answered.headers, body=answered.body)

    def _incident_at(self, request: Request, host: str) -> Incident | None:
        """Return the incident of the world if it happens at this request."""
        incident = self.world.incident
        if incident is None or host == STORAGE_HOST:
            return None
        hits = incident.hits(request.sender, self.world.service_of(host), request.method)
        return incident if hits else None

    def _begin(self, incident: Incident) -> None:
        """Begin what happens at the write that has arrived."""
        kernel = self._kernel
        kernel.note(f"{incident}")
        if incident.interrupted:
            client = next(one for one in reversed(kernel.processes) if one.name == incident.client)
            kernel.signal(client, signal.SIGINT)
        kernel.sleep(incident.delay)
        if incident.outage and not incident.done:
            self.world.refuse(incident.outage)

    def _run(self, scenario: Scenario) -> None:
        """Run the clients, and then the clean-up, without faults."""
        kernel = self._kernel
        scenario(self.world, self._together, self._source)
        kernel.profile = Profile()
        kernel.sleep(_UNTIL_SWEEP)
        self.world.restore()
        sweeper = Client(self.world, "sweeper", Project(key="sweeper"))

        def clean_up() -> None:
            count = Counter(one.state for one in sweeper.prune())
            kernel.note(f"the clean-up deletes {count['deleted']} manifests, and leaves {count['left']}")

        cleaning = kernel.process("sweeper", clean_up)
        self._wait([cleaning.name])
        self.world.engine.sweep(self._alive)
        self._sweeping = True

    def _together(self, programs: Sequence[Program]) -> None:
        """Start each program as a process; return when all have ended."""
        for program in programs:
            self._names.append(program.name)
            self._kernel.process(
                program.name,
                functools.partial(self._client, program),
                skew=self._source.uniform(-_SKEW, _SKEW),
                killable=True,
                restart=True,
            )
        self._wait([program.name for program in programs])
        # Checked before other clients begin, and sometimes when what they have sent has arrived.
        self._kernel.changed("the clients have ended")
        self._kernel.sleep(self._source.choice((0.0, _ARRIVED)))
        self._kernel.changed("what the clients had sent has arrived")
        self._kernel.sleep(0.0)

    def _client(self, program: Program) -> None:
        process, began = self._kernel.running().process, self.world.clock()

        def note() -> None:
            if process.exit_code == -9:
                # No lock: this runs when no thread of the process continues any more.
                self.world.ends.append(
                    Ended(
                        client=program.name,
                        command="",
                        project="",
                        exit_code=None,
                        status="",
                        began=began,
                        ended=self.world.clock(),
                    )
                )

        process.on_death.append(note)
        program.work()

    def _note(self, ended: Ended) -> None:
        words = (str(ended.exit_code), ended.status, ended.message.partition("\n")[0])
        self._kernel.note(f"{ended.command} of {ended.client} ends with {' '.join(words)}")

    def _wait(self, names: Sequence[str]) -> None:
        while any(self._alive(name) for name in names):
            self._kernel.sleep(_LOOK)

    def _alive(self, name: str) -> bool:
        """Return whether a program runs, or will be started again."""
        last: Process | None = next((one for one in reversed(self._kernel.processes) if one.name == name), None)
        return last is not None and (last.alive or (last.exit_code == -9 and last.on_kill is not None))

    def check(self, moment: Moment) -> None:
        """Look for violations in the truth of the world."""
        if not self.world.azureml.running:
            return
        truth = read_truth(self.world, living=frozenset(filter(self._alive, self._names)))
        invariants: Mapping[str, Invariant] = {one.__name__: one for one in _AT_ONCE}
        if moment.final:
            invariants = {**INVARIANTS, **({"swept": swept} if self._sweeping else {})}
        for name, invariant in invariants.items():
            for text in invariant(truth):
                raise Violation(name, f"{text}; after: {moment.what}")


def _any(rng: random.Random) -> Scenario:
    return SCENARIOS[rng.choice(sorted(SCENARIOS))]


def any_of_them() -> Workspace:
    """Return a workspace whose scenario the seed draws."""
    return Workspace(_any)


def _one(name: str) -> Callable[[], Workspace]:
    return lambda: Workspace(lambda _rng: SCENARIOS[name])


#: One function for each of the world's scenarios, by its name.
globals().update({name: _one(name) for name in SCENARIOS})
