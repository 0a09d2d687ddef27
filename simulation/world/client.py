"""The client: the product's pipeline as one simulated program.

A client does what a command of ``aml-train`` does, with the same functions, and ends as the command line ends: the boundary of
errors is that of ``aml_train.cli.process``.
"""

from __future__ import annotations

import io
import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aml_train.cli.console import ConsoleListener
from aml_train.config.load import load_config, load_promotion, load_targets
from aml_train.core.errors import AmlTrainError
from aml_train.core.events import Broadcast, Event, Listener, RunFinished, to_json
from aml_train.core.machine import expected
from aml_train.image.prune.plan import PrunePolicy
from aml_train.image.prune.registry import PruneOutcome, execute_prune
from aml_train.models.promotion.change import Promotion, PromotionRequest
from aml_train.models.promotion.promote import Promoter
from aml_train.pipeline.execute import run_prepared
from aml_train.pipeline.prepare import prepare_run
from aml_train.pipeline.promotion import open_promoter, run_promotion
from aml_train.pipeline.result import RunOptions
from aml_train.pipeline.target import Host
from aml_train.prune import prepare_prune
from simulation.world.builder import SimulatedBuilder, SimulatedHost
from simulation.world.ends import Ended
from simulation.world.project import MODEL, Project
from simulation.world.world import World


@dataclass
class Sinks:
    """Everything that a client shows.

    Attributes:
        events: lines of JSON, as ``--events`` writes them.
        console: what the console prints.
        last: the event at the end of the run; None if there was none.
    """

    events: list[str] = field(default_factory=list)
    console: io.StringIO = field(default_factory=io.StringIO)
    last: RunFinished | None = None

    def listeners(self) -> tuple[Listener, ...]:
        """Return the listeners of one command."""
        return self._note, ConsoleListener(self.console)

    def _note(self, event: Event) -> None:
        self.events.append(to_json(event))
        if isinstance(event, RunFinished):
            self.last = event


class Client:
    """A machine with a checkout, which runs one command after another.

    Args:
        world: where its requests go.
        name: unique in the world.
        project: what is checked out.
        delay: seconds from the start of each command to its first action.
        crash: is called at each event with its number, and may raise what ends the process.
    """

    def __init__(
        self,
        world: World,
        name: str,
        project: Project,
        *,
        delay: float = 0.0,
        crash: Callable[[int], object] | None = None,
    ) -> None:
        self.world, self.name, self.project = world, name, project
        self.folder: Path = project.check_out(world, world.folder / "clients" / name)
        self._delay, self._crash = delay, crash

    def environ(self) -> dict[str, str]:
        """Return the environment of the process."""
        identity = self.world.identity
        return {
            "AZURE_TENANT_ID": identity.tenant_id,
            "AZURE_CLIENT_ID": identity.client_id,
            "AZURE_CLIENT_SECRET": identity.client_secret,
            "AML_TRAIN_SIGN_IN": "secret",
            "AML_TRAIN_ACTOR": self.name,
            "CI": "true",
            "HOME": str(self.world.folder / "home"),
            "DOCKER_CONFIG": str(self.world.folder / "home"),
            "PATH": "/usr/bin:/bin",
            **self.world.secrets.planted,
        }

    def host(self) -> Host:
        """Return the process, whose images the world's builder makes."""
        builder = SimulatedBuilder(self.world.engine, self.name, self.project)
        return SimulatedHost(environ=self.environ(), simulated=lambda: builder)

    def run(self, options: RunOptions | None = None, *, sets: Sequence[str] = ()) -> Ended:
        """Run ``aml-train run``, or with these options ``aml-train attach``."""
        options = options or RunOptions()
        sinks = Sinks()

        def work() -> None:
            config = load_config(None, directory=self.folder, sets=sets)
            self.world.engine.sweep(lambda _owner: True)
            prepared = prepare_run(config, self.host(), image=options.job is None)
            run_prepared(prepared, options, listeners=self._watched(sinks))

        return self._ended("attach" if options.attach else "run", sinks, work)

    def attach(self, job: str | None = None) -> Ended:
        """Run ``aml-train attach``."""
        return self.run(RunOptions(attach=True, job=job))

    def promote(self, version: str | None = None, *, expect: str | None = None) -> Ended:
        """Run ``aml-train promote --to production --yes``."""
        request = self._request(version=version, expect=expect)
        return self._promotion("promote", lambda promoter: promoter.promote(request))

    def rollback(self) -> Ended:
        """Run ``aml-train rollback --to production --yes``."""
        request = self._request()
        return self._promotion("rollback", lambda promoter: promoter.rollback(request))

    def prune(self) -> list[PruneOutcome]:
        """Run ``aml-train image prune --target azure``."""
        config = load_config(None, directory=self.folder)
        targets = load_targets(None, directory=self.folder)
        named = [targets.named(name) for name in targets.names("targets")]
        policy = PrunePolicy(older_than=30 * 24 * 3600.0)
        plan, registry = prepare_prune(config, named, self.host(), policy, lambda _event: None)
        with registry:
            return execute_prune(plan, registry)

    def _request(self, **more: Any) -> PromotionRequest:
        found = load_promotion(None, directory=self.folder, target=None)
        policy = found.promote.of("production")
        return PromotionRequest(model=MODEL, stage="production", actor=self.name, policy=policy, **more)

    def _promotion(self, command: str, change: Callable[[Promoter], Promotion]) -> Ended:
        sinks = Sinks()

        def work() -> None:
            found = load_promotion(None, directory=self.folder, target=None)
            emit = Broadcast(*self._watched(sinks))
            promoter = open_promoter(self.host(), found.target, found.directory, emit)
            run_promotion(lambda: change(promoter), emit)

        return self._ended(command, sinks, work)

    def _watched(self, sinks: Sinks) -> tuple[Listener, ...]:
        if self._crash is None:
            return sinks.listeners()
        crash, seen = self._crash, [0]

        def count(_event: Event) -> None:
            seen[0] += 1
            crash(seen[0])

        return (*sinks.listeners(), count)

    def _ended(self, command: str, sinks: Sinks, work: Callable[[], None]) -> Ended:
        """Do the work, and write down how it ended: as the command line says it."""
        began = self.world.clock()
        code: int | None
        status, message, hint, facts, interrupted = "", "", "", {}, False
        try:
            time.sleep(self._delay)
            work()
        except AmlTrainError as error:
            code, status, message, hint = error.exit_code, error.status, error.message, error.hint or ""
        except KeyboardInterrupt:
            code, status, message, interrupted = 7, "cancelled", "interrupted", True
        except Killed:
            code = None
        except Exception as error:  # noqa: BLE001 - the boundary of the command line
            limit = expected(error)
            if limit is not None:
                code, status, message, hint = limit.exit_code, limit.status, limit.message, limit.hint or ""
            else:
                code, status, message = 1, "error", "".join(traceback.format_exception(error))
        else:
            last = sinks.last
            if last is None:
                raise AssertionError("a command without an end")
            code, status, message, hint = last.exit_code, last.status, last.message, last.hint or ""
            facts = json.loads(json.dumps(last.facts, default=str))
        ended = Ended(
            client=self.name,
            command=command,
            project=self.project.key,
            exit_code=code,
            status=status,
            message=message,
            hint=hint,
            interrupted=interrupted or (code == 7 and message.startswith("Interrupted")),
            began=began,
            ended=self.world.clock(),
            facts=facts,
            events=tuple(sinks.events),
            console=sinks.console.getvalue(),
        )
        self.world.add_end(ended)
        return ended


class Killed(BaseException):
    """The process was killed: nothing of it is executed any more."""
