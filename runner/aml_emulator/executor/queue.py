"""The queue of jobs, and the threads that run them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial

from aml_emulator.executor.build import ImageBuilder
from aml_emulator.executor.engine import Engine
from aml_emulator.executor.execution import JobExecution, StopReason, has_begun
from aml_emulator.executor.nodes import Fleet
from aml_emulator.executor.spec import BlobStore, Ending, ExecutorSettings, RunError, RunSpec, SinkFor

logger = logging.getLogger(__name__)


class JobQueue:
    """Runs a workspace's jobs as containers, as many at once as there are slots.

    First come, first served: a job waits for those before it on its own cluster, not for those of a cluster that is busy.

    Args:
        blobs: where code and inputs come from, and logs and outputs go.
        settings: how jobs reach the emulator.
        sink_for: gives for a run's id where its progress is reported; the sink is called from the executor's threads.
        fleet: the clusters; without it the machine's limit is the only one.
    """

    def __init__(
        self, *, blobs: BlobStore, settings: ExecutorSettings, sink_for: SinkFor, fleet: Fleet | None = None
    ) -> None:
        self._blobs = blobs
        self._settings = settings
        self._sink_for = sink_for
        self._engine = Engine(settings)
        self._slots = settings.shared.slots
        self._slots.watch(self, self.wake)
        self._builder = ImageBuilder(self._engine, blobs, settings)
        self._lock = threading.Lock()
        self._fleet = fleet or Fleet()
        self._waiting: dict[str, JobExecution] = {}
        self._running: dict[str, JobExecution] = {}
        self._reported: set[str] = set()
        self._started = False
        self._closed = False
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Begin to run what was submitted, and what will be."""
        with self._lock:
            self._started = True
        self.wake()

    def submit(self, spec: RunSpec) -> None:
        """Queue a run.

        Raises:
            ValueError: a run of this id is queued or running.
            RuntimeError: the runner is closed.
        """
        run = self._run(spec)
        with self._lock:
            if self._closed:
                raise RuntimeError("The executor is closed")
            if spec.run_id in self._running or spec.run_id in self._waiting:
                raise ValueError(f"The run {spec.run_id} is queued or running already")
            self._waiting[spec.run_id] = run
            self._fleet.enqueue(spec.run_id, spec.compute, nodes=spec.nodes)
        self.wake()

    def cancel(self, run_id: str) -> bool:
        """Cancel a run and return at once; return whether it is known."""
        return self._stop(run_id, "cancel", "Canceled", None)

    def fail(self, run_id: str, error: RunError) -> bool:
        """Fail a run whose nodes are gone, queued or running; otherwise as :meth:`cancel`."""
        return self._stop(run_id, "lost", "Failed", error)

    def preempt(self, run_id: str) -> bool:
        """Take a run's nodes away and put it back into the queue; return whether it was running."""
        with self._lock:
            running = self._running.get(run_id)
        if running is not None:
            running.stop("preempted")
        return running is not None

    def _stop(self, run_id: str, reason: StopReason, status: Ending, error: RunError | None) -> bool:
        with self._lock:
            queued = self._waiting.pop(run_id, None)
            running = self._running.get(run_id)
            if queued is not None:
                self._fleet.release(run_id)
        if queued is not None:
            self._sink_for(run_id).finished(status, error)
            self.wake()
            return True
        if running is not None:
            running.stop(reason, error)
        return running is not None

    def adopt(self, specs: Iterable[RunSpec]) -> None:
        """Adopt the runs of an earlier emulator process, before :meth:`start`.

        A container that runs, or ended meanwhile, is followed to its end. If there is none, the run is Failed if its
        command had begun, and queued if it had not. Containers and networks of this emulator that belong to none of
        *specs* and to none adopted before are removed.
        """
        wanted = {spec.run_id: spec for spec in specs}
        self._engine.sweep(keep=frozenset({*wanted, *self.active()}))
        for run_id, spec in wanted.items():
            containers = self._engine.find(run_id)
            if not containers and not has_begun(self._blobs, spec):
                self.submit(spec)
                continue
            if not containers:
                message = "The job's container vanished while the emulator was not running."
                self._sink_for(run_id).finished("Failed", RunError(code="SystemError", message=message))
                continue
            run = self._run(spec)
            with self._lock:
                self._running[run_id] = run
                self._slots.take()
                self._fleet.take(run_id, spec.compute, nodes=spec.nodes, at_once=True)
            self._begin(run, partial(run.adopt, containers))

    def active(self) -> tuple[str, ...]:
        """Return the ids of the runs that are queued or running, the running ones first."""
        with self._lock:
            return (*self._running, *self._waiting)

    def forget_images(self) -> None:
        """Remove the images that were built of environments."""
        self._engine.images.remove_built()

    def engine_ready(self) -> bool:
        """Return whether the Docker engine answers."""
        return self._engine.ready()

    def close(self) -> None:
        """Detach from all containers at once; the next emulator process adopts them."""
        self._slots.forget(self)
        with self._lock:
            self._closed = True
            self._waiting.clear()
            running = list(self._running.values())
            if self._timer is not None:
                self._timer.cancel()
        for run in running:
            run.leave_behind()

    def _run(self, spec: RunSpec) -> JobExecution:
        return JobExecution(
            spec,
            engine=self._engine,
            blobs=self._blobs,
            settings=self._settings,
            builder=self._builder,
            sink=self._sink_for(spec.run_id),
        )

    def wake(self) -> None:
        """Start as many of the waiting runs as there are nodes and room for."""
        while True:
            with self._lock:
                run = self._next() if self._started and not self._closed else None
                if run is None:
                    self._await_node()
                    queued = self._unreported()
                    break
                del self._waiting[run.spec.run_id]
                self._running[run.spec.run_id] = run
            self._begin(run, run.execute)
        for run_id in queued:
            # A run that begins meanwhile is past this status, and stays there.
            self._sink_for(run_id).status("Queued")

    def _unreported(self) -> tuple[str, ...]:
        """Return the waiting runs that were not reported to be queued, once each."""
        if not self._started or self._closed:
            return ()
        found = tuple(run_id for run_id in self._waiting if run_id not in self._reported)
        self._reported = set(self._waiting)
        return found

    def _next(self) -> JobExecution | None:
        """Return the first waiting run that has nodes now, or None; its nodes are taken."""
        return self._slots.take_for(self._first_ready) if self._waiting else None

    def _first_ready(self) -> JobExecution | None:
        busy: set[str] = set()
        for run in self._waiting.values():
            cluster = run.spec.compute
            if cluster in busy:
                continue
            if self._fleet.take(run.spec.run_id, cluster, nodes=run.spec.nodes):
                return run
            busy.add(cluster)
        return None

    def _await_node(self) -> None:
        """Be back when the next node is ready, where one is starting."""
        if self._timer is not None or self._closed or not self._waiting:
            return
        seconds = self._fleet.next_node_seconds()
        if seconds is not None:
            self._timer = threading.Timer(seconds + 0.01, self._node_ready)
            self._timer.daemon = True
            self._timer.start()

    def _node_ready(self) -> None:
        with self._lock:
            self._timer = None
        self.wake()

    def _begin(self, run: JobExecution, work: Callable[[], None]) -> None:
        name = f"run-{run.spec.run_id}"
        threading.Thread(target=self._work, args=(run, work), name=name, daemon=True).start()

    def _work(self, run: JobExecution, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            logger.exception("The end of run %s could not be reported", run.spec.run_id)
        finally:
            with self._lock:
                del self._running[run.spec.run_id]
                self._fleet.release(run.spec.run_id)
            self._slots.release()
            if run.following is not None and not self._closed:
                self.submit(run.following)
                if run.stop_reason == "cancel":  # it came when the next attempt was already stored
                    self.cancel(run.spec.run_id)
                elif run.stop_error is not None:
                    self.fail(run.spec.run_id, run.stop_error)
