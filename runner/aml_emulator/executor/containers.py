"""The containers of a run, one for each node: their output, end and first failure."""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from aml_emulator.executor import archive, launch, ranks
from aml_emulator.executor.engine import Engine, Exit, OutputStream
from aml_emulator.executor.logs import OutputReader
from aml_emulator.executor.shared import EngineFault, fault_text
from aml_emulator.executor.spec import LOG_PATH, BlobStore, RunSink, RunSpec

TERMINATED = 128 + 15
"""The status of a command that SIGTERM ended."""

#: A line of the file of ends, as :mod:`aml_emulator.executor.launch` writes it; exit codes have a byte, ranks count processes.
_REPORTED: Final = re.compile(rb"(\d{1,6}) (\d{1,3}) (\d{1,12}(?:\.\d{1,9})?)")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ContainerExit:
    """The end of the command: the first failed process, its node's end, its output.

    *who* is what failed, for messages.
    """

    code: int
    ended: Exit
    who: str
    log: str
    output: OutputReader


@dataclass(frozen=True, kw_only=True)
class _End:
    """The end of a process; *uptime* is the machine's, in seconds, for all nodes."""

    process: ranks.Process
    code: int
    uptime: float
    position: int

    @property
    def order(self) -> tuple[float, bool, int]:
        """Sorts by time, then terminated processes later, then by the order on a node."""
        return self.uptime, self.code == TERMINATED, self.position


class Containers:
    """Follows the containers of a run.

    Args:
        ids: the containers in the order of the nodes.
        nodes: output of the containers' main processes.
        processes: output of a distributed job's processes, by rank.
    """

    def __init__(
        self,
        spec: RunSpec,
        engine: Engine,
        ids: Sequence[str],
        nodes: Sequence[OutputReader],
        processes: Sequence[OutputReader],
    ) -> None:
        self.ids = tuple(ids)
        self._spec = spec
        self._engine = engine
        self._nodes = tuple(nodes)
        self._processes = tuple(processes)
        self._exits: dict[int, Exit] = {}

    def stop(self) -> None:
        """End all of them at the same time, within seconds."""
        threads = [threading.Thread(target=self._stop, args=(one,), daemon=True) for one in self.ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _stop(self, container_id: str) -> None:
        try:
            self._engine.stop(container_id)
        except EngineFault as error:
            logger.warning("A container of run %s could not be stopped: %s", self._spec.run_id, fault_text(error))

    def wait(self) -> None:
        """Wait for all containers; the first failure, or mpirun's end, ends the others.

        Raises:
            EngineFault: a container or the engine vanished.
        """
        ended: queue.SimpleQueue[tuple[int, Exit | Exception]] = queue.SimpleQueue()
        for node, container_id in enumerate(self.ids):
            threading.Thread(target=self._await, args=(node, container_id, ended), daemon=True).start()
        stopping = False
        fault: Exception | None = None
        for _ in self.ids:
            node, how = ended.get()
            if isinstance(how, Exception):
                fault = fault or how
            else:
                self._exits[node] = how
            led = self._spec.launcher == "mpi" and node == 0
            if not stopping and len(self._exits) < len(self.ids) and (fault or led or self._exits[node].code != 0):
                stopping = True
                self.stop()
        if fault is not None:
            raise fault

    def _await(self, node: int, container_id: str, ended: queue.SimpleQueue[tuple[int, Exit | Exception]]) -> None:
        try:
            ended.put((node, self._engine.wait(container_id)))
        except Exception as error:  # noqa: BLE001 - raised by wait(), in the thread that owns the run
            ended.put((node, error))

    def finish(self) -> None:
        """Store the rest of all output when every container has ended; raise store errors."""
        for output in (*self._processes, *self._nodes):
            output.finish()

    def abandon(self) -> None:
        """Store no more output; the process that adopts the run continues."""
        for output in (*self._processes, *self._nodes):
            output.abandon()

    def readers(self) -> tuple[Callable[[str], Generator[bytes, None, None] | None], ...]:
        """Return for each node a function from path to tar stream; the first node is last."""
        return tuple(partial(self._engine.get, one) for one in reversed(self.ids))

    def container_exit(self) -> ContainerExit:
        """Return how the command ended, when all containers were waited for."""
        failed = [end for end in self._ends() if end.code != 0]
        if failed:
            first = min(failed, key=lambda end: end.order)
            process = first.process
            return ContainerExit(
                code=first.code,
                ended=self._exits[process.node],
                who=f"{_named(self._spec, process)} of the job's command, on node {process.node},",
                log=process.log,
                output=self._processes[process.rank],
            )
        # No process reported a failure: a container was killed as a whole, or the launcher failed.
        wrong = [node for node, how in self._exits.items() if how.code != 0]
        if self._spec.launcher == "mpi" and self._exits[0].code == 0:
            wrong = []
        node = min(wrong, key=lambda one: self._exits[one].at, default=0)
        code = self._exits[node].code if wrong else 0
        if self._spec.launcher == "once":
            return ContainerExit(
                code=code, ended=self._exits[0], who="The job's command", log=LOG_PATH, output=self._nodes[0]
            )
        return ContainerExit(
            code=code,
            ended=self._exits[node],
            who="mpirun" if self._spec.launcher == "mpi" and node == 0 else f"Node {node} of the job",
            log=node_log(self._spec, node),
            output=self._nodes[node],
        )

    def _ends(self) -> list[_End]:
        """Return the ends of the processes that reported them."""
        processes = ranks.processes(self._spec)
        found = []
        for container_id in self.ids if processes else ():
            content = b"".join(self._engine.file(container_id, launch.ENDS))
            for position, (rank, code, uptime) in enumerate(read_ends(content)):
                if rank < len(processes):
                    found.append(_End(process=processes[rank], code=code, uptime=uptime, position=position))
        return found


def read_ends(content: bytes) -> Iterator[tuple[int, int, float]]:
    """Yield rank, exit code and uptime of each process that reported its end.

    The job can write into that file: lines of another form are left out.
    """
    for line in content.splitlines():
        if (match := _REPORTED.fullmatch(line)) is not None:
            yield int(match[1]), int(match[2]), float(match[3])


def _named(spec: RunSpec, process: ranks.Process) -> str:
    if spec.launcher == "tensorflow":
        return f"{'Parameter server' if process.role == 'ps' else 'Worker'} {process.task}"
    return f"Rank {process.rank}"


def node_log(spec: RunSpec, node: int) -> str:
    """Return the log of what a node's main process says."""
    if spec.launcher == "once":
        return LOG_PATH
    return ranks.MPI_LOG_PATH if spec.launcher == "mpi" and node == 0 else f"system_logs/node_{node}.txt"


class Logs:
    """The stored output of a run's containers."""

    def __init__(self, spec: RunSpec, blobs: BlobStore, sink: RunSink) -> None:
        self._spec = spec
        self._blobs = blobs
        self._sink = sink
        self._reported: set[str] = set(ranks.log_paths(spec))

    def begin(self) -> None:
        """Create the run's first logs and report them: the run counts as begun."""
        # A deleted job of the same name has left its logs.
        self.undo()
        for path in ranks.log_paths(self._spec):
            self.append(path, b"")
            self._sink.log(path)

    def append(self, path: str, data: bytes) -> None:
        """Add *data* to a log; a log that exists only with content is reported then."""
        if path not in self._reported and not data:
            return
        self._blobs.append(self._spec.artifacts.container, self._spec.artifacts.name_of(path), data)
        if path not in self._reported:
            self._reported.add(path)
            self._sink.log(path)

    def stored(self, path: str) -> int:
        """Return how many bytes of a log are stored."""
        place = self._spec.artifacts
        return sum(item.size for item in self._blobs.walk(place.container, place.name_of(path)))

    def resume(self, node: int, engine: Engine, container_id: str) -> OutputReader:
        """Resume a node's main output, after what is stored of it."""
        path = node_log(self._spec, node)
        skip = self.stored(path)
        if skip:
            self._reported.add(path)
        return OutputReader(
            engine.output(container_id, follow=True),
            partial(self.append, path),
            skip=skip,
            whole=lambda: engine.output(container_id, follow=False),
        )

    def report(self) -> None:
        """Report the run's first logs again."""
        for path in ranks.log_paths(self._spec):
            self._sink.log(path)

    def undo(self) -> None:
        """Remove the logs of a run that has not begun after all."""
        place = self._spec.artifacts
        for path in ranks.log_paths(self._spec):
            self._blobs.delete_prefix(place.container, place.name_of(path))


class _File(OutputStream):
    """A file of a container that has ended."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__(None)
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks


def attached(spec: RunSpec, engine: Engine, ids: Sequence[str], logs: Logs) -> list[OutputReader]:
    """Follow the output of the main processes of containers that are not yet started."""
    return [
        OutputReader(engine.attach(one), partial(logs.append, node_log(spec, node))) for node, one in enumerate(ids)
    ]


def go(spec: RunSpec, engine: Engine, ids: Sequence[str], direct: str) -> None:
    """Let the processes of a distributed job begin, when all containers run.

    *direct* is their NO_PROXY so far.

    It may be called again: nothing changes for processes that have begun.
    """
    if spec.launcher == "once":
        return
    addresses = [engine.address(one) for one in ids] if len(ids) > 1 else ["127.0.0.1"]
    for node, one in enumerate(ids):
        engine.put(one, archive.tar_stream(ranks.go_files(spec, node, addresses, direct)))


def go_again(spec: RunSpec, engine: Engine, ids: Sequence[str], direct: str) -> None:
    """Let processes begin that an earlier emulator did not, unless one has ended."""
    if spec.launcher == "once" or all(engine.has(one, launch.GO) for one in ids):
        return
    if all(engine.state(one)["Running"] for one in ids):
        go(spec, engine, ids, direct)
        return
    for one in ids:
        engine.stop(one)


def followed(spec: RunSpec, engine: Engine, ids: Sequence[str], logs: Logs) -> list[OutputReader]:
    """Follow the output of a distributed job's processes, after what is stored of it."""
    return [_followed(engine, ids[one.node], one, logs) for one in ranks.processes(spec)]


def _followed(engine: Engine, container_id: str, process: ranks.Process, logs: Logs) -> OutputReader:
    path = launch.output_path(process.rank)
    return OutputReader(
        engine.follow_file(container_id, path),
        partial(logs.append, process.log),
        skip=logs.stored(process.log),
        whole=lambda: _File(engine.file(container_id, path)),
    )
