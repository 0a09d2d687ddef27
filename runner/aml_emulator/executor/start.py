"""The start of a run: its containers, one for each node, with their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any, Final

from docker.errors import APIError

from aml_emulator.executor import archive, layout, ranks
from aml_emulator.executor.containers import Containers, Logs, attached, followed, go
from aml_emulator.executor.content import Content
from aml_emulator.executor.engine import Engine, Network
from aml_emulator.executor.expressions import ExpressionError, render
from aml_emulator.executor.fetch import fetched, guarded
from aml_emulator.executor.logs import OutputReader
from aml_emulator.executor.shared import fault_text, with_limits
from aml_emulator.executor.spec import ExecutorSettings, RunError, RunSpec


class RunFailedError(Exception):
    """The run cannot continue; *error* is for its record."""

    def __init__(self, error: RunError) -> None:
        super().__init__(error.message)
        self.error = error


@contextmanager
def abandoned_on_error(outputs: Sequence[OutputReader]) -> Iterator[None]:
    """Release *outputs* if the block fails: their threads end."""
    try:
        yield
    except BaseException:
        for output in outputs:
            output.abandon()
        raise


#: mount(2) needs CAP_SYS_ADMIN, and Docker's profile of AppArmor denies it: https://docs.docker.com/engine/security/apparmor/.
_FUSE: Final[Mapping[str, str]] = {
    "devices": "/dev/fuse:/dev/fuse:rwm",
    "cap_add": "SYS_ADMIN",
    "security_opt": "apparmor=unconfined",
}


def _with_fuse(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return *options* of a container, and those that mounting needs."""
    return {**options, **{name: [*options.get(name, ()), value] for name, value in _FUSE.items()}}


def shares(spec: RunSpec) -> bool:
    """Return whether the run's nodes need a volume in common."""
    return spec.launcher == "mpi" and spec.nodes > 1


def node_names(spec: RunSpec) -> tuple[str, ...]:
    """Return the names of the nodes, where there are several."""
    return tuple(ranks.node_name(node) for node in range(spec.nodes)) if spec.nodes > 1 else ()


@dataclass(frozen=True, kw_only=True)
class Start:
    """Makes the containers of a run and starts them.

    Attributes:
        note: reports a difference from the job's request to the run's owner.
        go_on: raises where the run is not wanted any more.
        remember: receives each followed output, so that it can be released.
    """

    spec: RunSpec
    engine: Engine
    settings: ExecutorSettings
    content: Content
    logs: Logs
    note: Callable[[str], None]
    go_on: Callable[[], None]
    remember: Callable[[list[OutputReader]], list[OutputReader]]

    def start(self, image: str) -> Containers:
        """Create and start the containers of *image*, and begin to follow them.

        Raises:
            RunFailedError: by what the job's own specification says.
        """
        self.go_on()
        plan = layout.Layout(run_id=self.spec.run_id)
        for stale in self.engine.find(self.spec.run_id):
            self.engine.remove(stale)
        network = self.engine.create_network(self.spec.run_id)
        environment, lost = self._environment(network)
        for name in lost:
            self.note(f"The variable {name} of the job gave way to the one that the emulator needs.")
        for note in self.spec.notes:
            self.note(note)
        session = guarded(self.settings.outward)
        with self._user_errors(), fetched(self.spec.inputs, self.go_on, session=session) as files:
            command = render(self.spec.command, plan.input_values(self.spec), plan.output_values(self.spec))
            volume = self.engine.create_volume(self.spec.run_id) if shares(self.spec) else None
            containers = [
                self._create(node, image, command, environment, network, volume, files)
                for node in range(self.spec.nodes)
            ]
        self.go_on()
        self.logs.begin()
        outputs = self.remember(attached(self.spec, self.engine, containers, self.logs))
        with self._user_errors(), abandoned_on_error(outputs):
            for container_id in containers:
                self.engine.start(container_id)
        with abandoned_on_error(outputs):
            processes = self.remember(followed(self.spec, self.engine, containers, self.logs))
            go(self.spec, self.engine, containers, environment["NO_PROXY"])
        return Containers(self.spec, self.engine, containers, outputs, processes)

    def _environment(self, network: Network) -> tuple[dict[str, str], tuple[str, ...]]:
        with self._user_errors():
            environment, lost = layout.environment(
                self.spec, self.settings, emulator_host=network.emulator_host, nodes=node_names(self.spec)
            )
        taken = ranks.reserved(self.spec) & set(self.spec.environment_variables)
        if self.spec.hostname and self.spec.nodes > 1:
            self.note(f"The nodes are called node-0, node-1 and so on, and none of them {self.spec.hostname}.")
        return environment, (*lost, *sorted(taken))

    def _create(
        self,
        node: int,
        image: str,
        command: str,
        environment: Mapping[str, str],
        network: Network,
        volume: str | None,
        files: Mapping[str, IO[bytes]],
    ) -> str:
        """Make the container of one node, with all that it needs in it, and return its id."""
        name = ranks.node_name(node) if self.spec.nodes > 1 else None
        container_id = self.engine.create_container(
            self.spec.run_id,
            image=image,
            command=ranks.argv(self.spec, command, node),
            environment=environment,
            working_directory=layout.Layout(run_id=self.spec.run_id).working_directory,
            network=network,
            shm_bytes=self.spec.shm_bytes,
            host_options=with_limits(
                _with_fuse(self.spec.host_options) if self.settings.fuse else self.spec.host_options,
                node=self.spec.memory_bytes,
                machine=self.engine.memory_bytes(),
                memory=self.settings.job_memory,
                processes=self.settings.job_processes,
            ),
            hostname=name or self.spec.hostname,
            node=node,
            alias=name,
            volume=volume,
        )
        entries = self.content.entries(self.settings.ca_bundle, files)
        own = ranks.first_files(self.spec, node)
        self.engine.put(container_id, archive.tar_stream(self._while_wanted(chain(entries, own))))
        return container_id

    @contextmanager
    def _user_errors(self) -> Iterator[None]:
        """Turn what the job's own specification can cause into a failure that says so."""
        try:
            yield
        except (layout.UnsafePathError, archive.ContentError, ExpressionError) as error:
            raise RunFailedError(RunError(code="UserError", message=str(error))) from error
        except APIError as error:
            if not error.is_client_error():
                raise
            message = f"The container could not be started from {self.spec.image}: {fault_text(error)}"
            raise RunFailedError(RunError(code="UserError", message=message)) from error

    def _while_wanted(self, entries: Iterator[archive.Entry]) -> Iterator[archive.Entry]:
        for entry in entries:
            self.go_on()
            yield entry
