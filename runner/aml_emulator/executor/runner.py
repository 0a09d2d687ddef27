"""The queue of jobs, and the threads that run them."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from aml_emulator.executor.engine import Engine
from aml_emulator.executor.layout import EMULATOR_HOST
from aml_emulator.executor.run import Run, has_begun
from aml_emulator.executor.settings import ExecutorSettings
from aml_emulator.executor.spec import BlobStore, RunError, RunSpec, SinkFor

__all__ = ["ExecutorSettings", "JobRunner"]

LOGGER = logging.getLogger(__name__)


class JobRunner:
    """Runs jobs as containers, first come first served, at most ``settings.max_jobs`` at once.

    Args:
        blobs: where code and inputs come from, and logs and outputs go.
        settings: how jobs reach the emulator.
        sink_for: gives for a run's id where its progress is reported; the sink is called from the executor's threads.
    """

    def __init__(self, *, blobs: BlobStore, settings: ExecutorSettings, sink_for: SinkFor) -> None:
        self._blobs = blobs
        self._settings = settings
        self._sink_for = sink_for
        self._engine = Engine(instance=settings.instance, container=settings.container, emulator_alias=EMULATOR_HOST)
        self._lock = threading.Lock()
        self._waiting: deque[Run] = deque()
        self._running: dict[str, Run] = {}
        self._started = False
        self._closed = False

    def start(self) -> None:
        """Begin to run what was submitted, and what will be."""
        with self._lock:
            self._started = True
        self._begin_waiting()

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
            if spec.run_id in self._running or any(other.spec.run_id == spec.run_id for other in self._waiting):
                raise ValueError(f"The run {spec.run_id} is queued or running already")
            self._waiting.append(run)
        self._begin_waiting()

    def cancel(self, run_id: str) -> bool:
        """Cancel a run and return at once; a queued one ends here and now. Return whether there was such a run."""
        with self._lock:
            queued = next((run for run in self._waiting if run.spec.run_id == run_id), None)
            if queued is not None:
                self._waiting.remove(queued)
            running = self._running.get(run_id)
        if queued is not None:
            self._sink_for(run_id).finished("Canceled", None)
            return True
        if running is not None:
            running.stop("cancel")
        return running is not None

    def adopt(self, specs: Iterable[RunSpec]) -> None:
        """Take up the runs of an earlier process of this emulator; call it once, before :meth:`start`.

        A container that runs, or ended meanwhile, is followed to its end. Where there is none, the run is Failed if its
        command had begun, and queued if it had not. Containers and networks of this emulator that belong to none of
        *specs* are removed.
        """
        wanted = {spec.run_id: spec for spec in specs}
        self._engine.sweep(keep=frozenset(wanted))
        for run_id, spec in wanted.items():
            container_id = self._engine.find(run_id)
            if container_id is None and not has_begun(self._blobs, spec):
                self.submit(spec)
                continue
            if container_id is None:
                message = "The job's container vanished while the emulator was not running."
                self._sink_for(run_id).finished("Failed", RunError(code="SystemError", message=message))
                continue
            run = self._run(spec)
            with self._lock:
                self._running[run_id] = run
            self._begin(run, partial(run.adopt, container_id))

    def active(self) -> tuple[str, ...]:
        """Return the ids of the runs that are queued or running, the running ones first."""
        with self._lock:
            return (*self._running, *(run.spec.run_id for run in self._waiting))

    def engine_ready(self) -> bool:
        """Tell whether the Docker engine answers."""
        return self._engine.ready()

    def close(self) -> None:
        """Let go of everything at once: containers run on, to be adopted by the next process of this emulator."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            running = list(self._running.values())
        for run in running:
            run.leave_behind()
        self._engine.close()

    def _run(self, spec: RunSpec) -> Run:
        return Run(
            spec,
            engine=self._engine,
            blobs=self._blobs,
            settings=self._settings,
            sink=self._sink_for(spec.run_id),
        )

    def _begin_waiting(self) -> None:
        """Start as many of the waiting runs as there is room for."""
        while True:
            with self._lock:
                room = self._settings.max_jobs - len(self._running)
                if not self._started or self._closed or room <= 0 or not self._waiting:
                    return
                run = self._waiting.popleft()
                self._running[run.spec.run_id] = run
            self._begin(run, run.execute)

    def _begin(self, run: Run, work: Callable[[], None]) -> None:
        name = f"run-{run.spec.run_id}"
        threading.Thread(target=self._work, args=(run, work), name=name, daemon=True).start()

    def _work(self, run: Run, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            LOGGER.exception("The end of run %s could not be reported", run.spec.run_id)
        finally:
            with self._lock:
                del self._running[run.spec.run_id]
            self._begin_waiting()
