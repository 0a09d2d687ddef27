"""One run, from its image to its captured outputs."""

from __future__ import annotations

import logging
import tarfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from aml_emulator.executor import layout, ranks
from aml_emulator.executor.build import BUILD_LOG_PATH, BuildFailedError, BuildWaiter, ImageBuilder
from aml_emulator.executor.containers import ContainerExit, Containers, Logs, followed, go_again
from aml_emulator.executor.content import Content
from aml_emulator.executor.engine import Engine
from aml_emulator.executor.images import BuildOutput, ImageUnavailableError
from aml_emulator.executor.logs import LogPump, OutputReader
from aml_emulator.executor.reporting import report_until_stored
from aml_emulator.executor.shared import EngineFault, fault_text
from aml_emulator.executor.spec import BlobStore, BuildSpec, Ending, ExecutorSettings, RunError, RunSink, RunSpec
from aml_emulator.executor.start import RunFailedError, Start, abandoned_on_error, node_names, shares

logger = logging.getLogger(__name__)

NOTES_PATH = "system_logs/emulator.log"
"""The log of differences between the job's request and its execution."""

StopReason = Literal["cancel", "timeout", "lost", "preempted"]
"""Why a run is stopped: by its owner, by its limit, or because what it runs on is gone, for good or until it has other nodes."""


class RunStoppedError(Exception):
    """The run was cancelled before its command ran."""


class LeftBehindError(Exception):
    """The emulator is closing: the container continues, and the next one adopts it."""


def has_begun(blobs: BlobStore, spec: RunSpec) -> bool:
    """Return whether the run's containers may have been started: its logs exist."""
    return any(blobs.walk(spec.artifacts.container, spec.artifacts.name_of(ranks.log_paths(spec)[0])))


@dataclass(frozen=True, kw_only=True)
class _Result:
    status: Ending | Literal["Requeued"]
    error: RunError | None = None


class JobExecution:
    """Executes a :class:`RunSpec` in a thread, by :meth:`execute` or :meth:`adopt`.

    Attributes:
        following: the next attempt of a run whose nodes were taken back, once this one has ended.
        stop_reason: why it is stopped; None if it is not.
        stop_error: what a run that lost its node fails with.
    """

    def __init__(
        self,
        spec: RunSpec,
        *,
        engine: Engine,
        blobs: BlobStore,
        settings: ExecutorSettings,
        builder: ImageBuilder,
        sink: RunSink,
    ) -> None:
        self.spec = spec
        self._engine = engine
        self._blobs = blobs
        self._settings = settings
        self._builder = builder
        self._building: BuildOutput | None = None
        self._sink = sink
        self._lock = threading.Lock()
        self.stop_reason: StopReason | None = None
        self.stop_error: RunError | None = None
        self.following: RunSpec | None = None
        self._running: Containers | None = None
        self._left = threading.Event()
        self._outputs: list[OutputReader] = []
        self._noted = False
        self._content = Content(spec, blobs=blobs)
        self._logs = Logs(spec, blobs, sink)

    def execute(self) -> None:
        """Run the job from its beginning and report how it ended."""
        self._conclude(self._execute)

    def adopt(self, containers: Sequence[str]) -> None:
        """Follow the containers of an earlier emulator process; report their end."""
        self._conclude(lambda: self._follow_adopted(containers))

    def stop(self, reason: StopReason, error: RunError | None = None) -> None:
        """Cancel the run and return at once, without effect once the command has ended.

        Args:
            reason: the first one counts, but for a preemption, which another reason replaces.
            error: what a run that lost its node fails with.
        """
        with self._lock:
            if self.stop_reason in (None, "preempted"):
                self.stop_reason, self.stop_error = reason, error
            running, building = self._running, self._building
        if building is not None:
            building.break_off()
        if running is not None:
            threading.Thread(target=running.stop, daemon=True).start()

    def leave_behind(self) -> None:
        """Detach from the run without ending it: nothing more is stored or reported."""
        with self._lock:
            self._left.set()
            outputs, building = tuple(self._outputs), self._building
        for output in outputs:
            output.abandon()
        if building is not None:
            building.break_off()

    def _conclude(self, work: Callable[[], _Result]) -> None:
        """Do *work*, report its result in any case, and clear the engine."""
        try:
            result = self._result_of(work)
        except LeftBehindError:
            logger.info("Run %s continues without the emulator", self.spec.run_id)
            return

        def failed(why: str) -> None:
            message = f"The emulator failed as the job ended: {why}"
            self._sink.finished("Failed", RunError(code="SystemError", message=message))

        def report() -> None:
            if result.status == "Requeued":
                self.following = self._sink.requeued()
            else:
                self._sink.finished(result.status, result.error)

        if result.status == "Requeued":
            self._logs.undo()  # The next attempt writes its own, and has not begun while there are none.
        if report_until_stored(report, fault=failed, left=self._left, what=f"run {self.spec.run_id}"):
            self._clear()

    def _result_of(self, work: Callable[[], _Result]) -> _Result:
        try:
            return work()
        except RunStoppedError:
            return self._stopped()
        except RunFailedError as failure:
            return _Result(status="Failed", error=failure.error)
        except LeftBehindError:
            raise
        except EngineFault as error:
            message = f"The Docker engine failed while the job ran: {fault_text(error)}"
            logger.warning("Run %s: %s", self.spec.run_id, message)
            return _Result(status="Failed", error=RunError(code="SystemError", message=message))
        except Exception as error:
            logger.exception("Run %s ended by a fault of the emulator", self.spec.run_id)
            message = f"The emulator failed while the job ran: {type(error).__name__}: {error}"
            return _Result(status="Failed", error=RunError(code="SystemError", message=message))

    def _clear(self) -> None:
        try:
            for container_id in self._engine.find(self.spec.run_id):
                self._engine.remove(container_id)
            self._engine.remove_networks(self.spec.run_id)
            if shares(self.spec):
                self._engine.remove_volumes(self.spec.run_id)
        except EngineFault as error:
            logger.warning("The remains of run %s on the engine stay there: %s", self.spec.run_id, fault_text(error))

    def _undo(self) -> None:
        """Remove the containers of a command that never began, and its logs before.

        Without containers, logs mean that the command began.
        """
        self._logs.undo()
        self._clear()

    def _execute(self) -> _Result:
        self._status("Preparing")
        self._go_on()
        if self.spec.build is not None:
            self._build(self.spec.build)
        image = layout.engine_image(self.spec.image, self._settings)
        try:
            self._engine.images.ensure(image, go_on=self._go_on)
        except ImageUnavailableError as error:
            # As AzureML says it: https://github.com/Azure/MachineLearningNotebooks/issues/1371
            message = (
                f"AzureMLCompute job failed.\nFailedPullingImage: Unable to pull docker image\n\timageName: {self.spec.image}\n"
                f"\terror: The image {self.spec.image} cannot be used: it is not on the Docker engine, and: {error}"
            )
            raise RunFailedError(RunError(code="UserError", message=message)) from error
        containers = self._started(image)
        with abandoned_on_error(self._outputs):
            return self._follow(containers)

    def _build(self, build: BuildSpec) -> None:
        """Have the environment's image built, with the build's log among the job's logs."""
        if self._builder.is_built(build):
            return
        place = self.spec.artifacts
        name = place.name_of(BUILD_LOG_PATH)

        def append(data: bytes) -> None:
            self._blobs.append(place.container, name, data)

        # The log of a build that ended with an earlier process of the emulator.
        self._blobs.delete_prefix(place.container, name)
        append(b"")
        self._sink.log(BUILD_LOG_PATH)
        pump = LogPump(append)
        waiter = BuildWaiter(log=lambda text: pump.feed(text.encode()), go_on=self._go_on, hold=self._hold_build)
        try:
            self._builder.build(build, waiter)
        except BuildFailedError as error:
            pump.feed(f"{error}\n".encode())
            message = (
                f"The image of the environment '{build.title}' could not be built: {error} Please check log file"
                f" '{BUILD_LOG_PATH}' for error details. Its last lines:\n{pump.tail()}"
            )
            raise RunFailedError(RunError(code="UserError", message=message)) from error
        except (*EngineFault, OSError, ValueError, AttributeError):
            # An interrupted build ends in the middle of a message, or of a connection that is gone.
            self._go_on()
            raise
        finally:
            pump.close()

    def _hold_build(self, output: BuildOutput | None) -> None:
        with self._lock:
            self._building = output

    def _started(self, image: str) -> Containers:
        """Create and start the containers."""
        return Start(
            spec=self.spec,
            engine=self._engine,
            settings=self._settings,
            content=self._content,
            logs=self._logs,
            note=self._note,
            go_on=self._go_on,
            remember=self._followed,
        ).start(image)

    def _status(self, word: str) -> None:
        self._check_left_behind()
        self._sink.status(word)

    def _follow(self, containers: Containers, *, timeout: float | None = None) -> _Result:
        """Wait for the command's end, store logs and outputs, and return the result."""
        self._status("Running")
        with self._lock:
            self._running = containers
            stopping = self.stop_reason is not None
        if stopping:
            containers.stop()
        limit = self.spec.timeout_seconds if timeout is None else timeout
        timer = None if limit is None else threading.Timer(limit, self.stop, args=("timeout",))
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            containers.wait()
        finally:
            if timer is not None:
                timer.cancel()
            with self._lock:
                self._running = None
                reason = self.stop_reason
        self._check_left_behind()
        if reason != "preempted":
            self._status("Finalizing")
        containers.finish()
        result = self._ended(containers.container_exit()) if reason is None else self._stopped()
        try:
            for note in self._content.capture(containers.readers(), self._sink):
                self._note(note)
        except (tarfile.TarError, layout.UnsafePathError) as error:
            message = f"The job's outputs could not be stored: {error}"
            self._note(message)
            if result.status == "Completed":
                raise RunFailedError(RunError(code="SystemError", message=message)) from error
        if result.status == "Completed":
            try:
                self._sink.unkept(self._content.unkept(containers.readers()))
            except (tarfile.TarError, *EngineFault) as error:
                self._note(f"Which files the job left outside its outputs is unknown: {fault_text(error)}")
        return result

    def _ended(self, exit_: ContainerExit) -> _Result:
        if exit_.code == 0:
            return _Result(status="Completed")
        cause, tail = exit_.output.cause(), exit_.output.tail()
        why = f"Execution failed. {exit_.who} exited with status code {exit_.code}{f': {cause}' if cause else ''}."
        if exit_.ended.out_of_memory:
            why += " It was killed because the memory ran out."
        elif exit_.code == 137:
            why += " It was killed (SIGKILL)."
        if exit_.ended.error:
            why += f" {exit_.ended.error}"
        why += f" Please check log file '{exit_.log}' for error details."
        if tail:
            why += f" The last lines of its output:\n{tail}"
        return _Result(status="Failed", error=RunError(code="UserError", message=why, exit_code=exit_.code))

    def _stopped(self) -> _Result:
        if self.stop_reason == "lost":
            return _Result(status="Failed", error=self.stop_error)
        if self.stop_reason == "preempted":
            return _Result(status="Requeued")
        if self.stop_reason != "timeout":
            return _Result(status="Canceled")
        seconds = self.spec.timeout_seconds or 0
        message = f"The job ran longer than its limits.timeout of {seconds:g} seconds, and was canceled."
        return _Result(status="Canceled", error=RunError(code="UserError", message=message))

    def _follow_adopted(self, ids: Sequence[str]) -> _Result:
        states = [self._engine.state(one) for one in ids]
        if any(state["Status"] == "created" for state in states):
            self._undo()
            return self._execute()
        if len(ids) != self.spec.nodes:
            message = f"Of the job's {self.spec.nodes} nodes {len(ids)} are left; the others vanished meanwhile."
            raise RunFailedError(RunError(code="SystemError", message=message))
        self._engine.join_network(self.spec.run_id)
        self._logs.report()
        outputs = self._followed([self._logs.resume(node, self._engine, one) for node, one in enumerate(ids)])
        with abandoned_on_error(self._outputs):
            go_again(self.spec, self._engine, ids, layout.no_proxy(self.spec, node_names(self.spec)))
            processes = self._followed(followed(self.spec, self._engine, ids, self._logs))
            containers = Containers(self.spec, self._engine, ids, outputs, processes)
            started = min(str(state["StartedAt"]) for state in states)
            return self._follow(containers, timeout=self._time_left(started))

    def _time_left(self, started_at: str) -> float | None:
        """Return the seconds to a command's time-out from its start in the engine's form."""
        if self.spec.timeout_seconds is None:
            return None
        # The engine writes nanoseconds, which fromisoformat refuses.
        started = datetime.fromisoformat(started_at[:19]).replace(tzinfo=UTC)
        gone = (datetime.now(UTC) - started).total_seconds()
        return max(0.0, self.spec.timeout_seconds - gone)

    def _note(self, text: str) -> None:
        logger.info("Run %s: %s", self.spec.run_id, text)
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n".encode()
        self._blobs.append(self.spec.artifacts.container, self.spec.artifacts.name_of(NOTES_PATH), line)
        if not self._noted:
            self._noted = True
            self._sink.log(NOTES_PATH)

    def _followed(self, outputs: list[OutputReader]) -> list[OutputReader]:
        """Return *outputs*, remembered so that they can be released."""
        with self._lock:
            self._outputs += outputs
            left = self._left.is_set()
        for output in outputs if left else ():
            output.abandon()
        return outputs

    def _go_on(self) -> None:
        self._check_left_behind()
        if self.stop_reason is not None:
            raise RunStoppedError

    def _check_left_behind(self) -> None:
        if self._left.is_set():
            raise LeftBehindError
