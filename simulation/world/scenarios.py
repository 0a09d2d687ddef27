"""Scenarios of clients in a world.

A scenario starts programs together, and says nothing of the order in which they advance: the simulation's scheduler decides that,
with seeds and faults.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from simulation.world.client import Client, Killed
from simulation.world.ends import Ended
from simulation.world.incidents import drawn_interruption, drawn_outage, seconds_up_to
from simulation.world.project import Project, Rule
from simulation.world.world import World


@dataclass(frozen=True, kw_only=True)
class Program:
    """One simulated process: a name, and what it does."""

    name: str
    work: Callable[[], object]


Together = Callable[[Sequence[Program]], None]
"""Runs programs together; returns when all have ended."""

Scenario = Callable[[World, Together, random.Random], None]

#: Seconds that jobs take. A running job's log is read every second: longer jobs show nothing more, and cost time.
_WAITS: Final = (2, 5, 20)
#: The most events of a run that a kill or an interruption counts; a run of this world has about forty.
MOST_EVENTS: Final = 40
#: About the event at which a run has submitted its job.
_SUBMITTED: Final = 18


def one_client(world: World, together: Together, source: random.Random) -> None:
    """One client, one commit."""
    project = Project(key="one", script=("say training", "secret DATABASE_PASSWORD", f"wait {source.choice(_WAITS)}"))
    client = Client(world, "client-1", project)
    together([Program(name=client.name, work=client.run)])


def same_commit(world: World, together: Together, source: random.Random) -> None:
    """Two to four clients with the same commit, one a minute after the other."""
    return _same(world, together, source, apart=60.0)


def same_moment(world: World, together: Together, source: random.Random) -> None:
    """Clients with the same commit, which all build its image at once."""
    return _same(world, together, source, apart=0.0)


def _same(world: World, together: Together, source: random.Random, *, apart: float) -> None:
    project = Project(key="same", script=("say training", f"wait {source.choice(_WAITS)}"))
    count = source.randint(2, 4)
    clients = [Client(world, f"client-{number}", project, delay=number * apart) for number in range(count)]
    together([Program(name=one.name, work=one.run) for one in clients])


def branches(world: World, together: Together, source: random.Random) -> None:
    """Clients with different commits, compared with the baseline of the branch main."""
    main = Project(key="main", baseline="branch", rules=(_ABOVE_MAIN,))
    better = replace(main, key="better", branch="better", metrics={"accuracy": (0.7, 0.95)})
    worse = replace(main, key="worse", branch="worse", metrics={"accuracy": (0.7, 0.5 + source.random() / 4)})
    clients = {one.key: Client(world, f"client-{one.key}", one) for one in (main, better, worse)}
    together([Program(name="client-main", work=clients["main"].run)])
    together([Program(name=clients[key].name, work=clients[key].run) for key in ("better", "worse")])


_ABOVE_MAIN: Final = Rule(metric="accuracy", limit=0.02, baseline=True)


def killed(world: World, together: Together, source: random.Random) -> None:
    """A client is killed at any point; then the same command again, or attach."""
    _ended_at(world, together, source, Killed())


def interrupted(world: World, together: Together, source: random.Random) -> None:
    """A client is interrupted at any event or write, and runs again."""
    if source.random() < 0.5:
        world.incident = drawn_interruption(source, "client-1")
        _ended_at(world, together, source, None)
    else:
        outage = source.choice((0.0, seconds_up_to(source, 600.0)))
        _ended_at(world, together, source, KeyboardInterrupt(), outage=outage)


def outage(world: World, together: Together, source: random.Random) -> None:
    """Every service refuses for a while, from any write on."""
    world.incident = drawn_outage(source, "client-1")
    _ended_at(world, together, source, None)


def _ended_at(
    world: World, together: Together, source: random.Random, end: BaseException | None, *, outage: float = 0.0
) -> None:
    # Each run that follows a job to its end has to gate it, also where another one submitted it.
    # Long jobs outlive the minute for which the end of a cancelled one is awaited.
    script = ("say training", f"wait {source.choice((5, 5, 300))}")
    project = Project(key="ended", metrics={"accuracy": (0.9, source.choice((0.9, 0.3)))}, script=script)
    # Half of the runs are ended after the submission of the job, whatever comes before.
    moment = source.randint(source.choice((1, _SUBMITTED)), MOST_EVENTS)

    def crash(number: int) -> None:
        if number == moment and end is not None:
            if isinstance(end, Killed):
                world.cut()
            world.refuse(outage)
            raise end

    first = Client(world, "client-1", project, crash=crash)
    together([Program(name=first.name, work=first.run)])
    world.restore()
    again = Client(world, "client-2", project)
    attach_first = source.random() < 0.5

    def follow() -> Ended:
        if attach_first:
            again.attach()
        return again.run()

    together([Program(name=again.name, work=follow)])


def promoters(world: World, together: Together, source: random.Random) -> None:
    """Several promoters of two versions into one stage at once, and a rollback."""
    old, new = Project(key="old"), Project(key="new", metrics={"accuracy": (0.8, 0.93)})
    for project in (old, new):
        trainer = Client(world, f"trainer-{project.key}", project)
        together([Program(name=trainer.name, work=trainer.run)])
    earlier = Client(world, "earlier", old)
    together([Program(name=earlier.name, work=lambda: earlier.promote("1"))])
    work: list[Program] = []
    for number in range(source.randint(2, 4)):
        client = Client(world, f"promoter-{number}", source.choice((old, new)))
        version = "1" if client.project is old else "2"

        def promote(client: Client = client, version: str = version) -> Ended:
            return client.promote(version)

        work.append(Program(name=client.name, work=promote))
    together(work)
    back = Client(world, "rollback", old)
    last = Client(world, "last", new)
    together([Program(name=back.name, work=back.rollback), Program(name=last.name, work=lambda: last.promote("2"))])


def restarted(world: World, together: Together, source: random.Random) -> None:
    """The service is restarted in the middle of a run."""
    project = Project(key="restarted")
    moment = source.randint(1, MOST_EVENTS)

    def crash(number: int) -> None:
        if number == moment:
            world.restart()

    client = Client(world, "client-1", project, crash=crash)
    together([Program(name=client.name, work=client.run)])


def preempted(world: World, together: Together, source: random.Random) -> None:
    """Nodes are taken away; two clients retry, and one has no retries left."""
    times = source.randint(1, 2)
    retried = Project(key="retried", script=("wait 5", f"preempt {times}", "wait 5"), retries=times)
    given_up = Project(key="given-up", script=("wait 5", f"preempt {times}", "wait 5"), retries=times - 1)
    clients = [
        Client(world, "client-1", retried),
        Client(world, "client-2", retried, delay=60.0),
        Client(world, "client-3", given_up),
    ]
    together([Program(name=one.name, work=one.run) for one in clients])


def failing(world: World, together: Together, source: random.Random) -> None:
    """Failures of tests, of a job, of a model, of a gate, of an engine."""
    del source
    projects = (
        Project(key="tests", tests_pass=False),
        Project(key="job", ending=("exit 3",)),
        Project(key="cancelled", ending=("cancelled",)),
        Project(key="model", writes_model=False),
        Project(key="gate", metrics={"accuracy": (0.9, 0.3)}),
        Project(key="metric", metrics={"loss": (0.9, 0.3)}),
        Project(key="engine"),
    )
    world.engine.dies = lambda client, moment: client == "client-engine" and moment == "push"
    clients = [Client(world, f"client-{one.key}", one) for one in projects]
    together([Program(name=one.name, work=one.run) for one in clients])


SCENARIOS: Final[Mapping[str, Scenario]] = {
    one.__name__: one
    for one in (
        one_client,
        same_commit,
        same_moment,
        branches,
        killed,
        promoters,
        restarted,
        preempted,
        interrupted,
        outage,
        failing,
    )
}
