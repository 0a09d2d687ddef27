"""The emulator with an executor that needs no containers: a job's command is a script of a few words, done at once.

The services, their storage and their database are the emulator's own; only what a container would do is done here, through the
same sink: lines go into the job's log, metrics into the store, files among the artefacts.

==================  =====================================================
``say TEXT``        writes a line to the log
``metric N S V``    logs the value V of the metric N at step S
``row N JSON``      logs a row of the table N, as azureml-core does
``write P TEXT``    leaves a file at P, a path among the artefacts
``output N P TEXT`` leaves a file at P in the named output N
``wait TAG``        goes on once the job carries the tag; until then it can be cancelled
``cancelled``       somebody else cancels the job now
``preempted``       takes the nodes of the job's first attempt away
``exit CODE``       ends the job; without it, it completes
==================  =====================================================
"""

from __future__ import annotations

import datetime
import io
import json
import logging
import os
import sys
import threading
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aml_emulator import settings as settings_module
from aml_emulator.context import Context
from aml_emulator.executor.spec import LOG_PATH, Ending, ExecutorSettings, RunError, RunSink, RunSpec, SinkFor
from aml_emulator.server import run
from aml_emulator.store.metrics import Metric
from aml_emulator.store.v1 import MetricRow
from aml_emulator.workspaces import MakeRunner
from tests.support.answers import record_as_told

LOGGER = logging.getLogger(__name__)
THREADS = 4


class InstantRunner:
    """Executes scripts; an `aml_emulator.context.Runner`."""

    def __init__(self, services: Context, sink_for: SinkFor) -> None:
        self._services = services
        self._sink_for = sink_for
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="instant")
        self._lock = threading.Lock()
        self._active: set[str] = set()
        self._waiting: dict[str, threading.Event] = {}
        self._closing = threading.Event()

    def start(self) -> None:
        """Be ready, as it always is."""

    def submit(self, spec: RunSpec) -> None:
        """Run this as soon as a thread is free."""
        with self._lock:
            if spec.run_id in self._active:
                raise ValueError(f"The run {spec.run_id} is queued or running already")
            self._active.add(spec.run_id)
        self._pool.submit(self._work, spec)

    def cancel(self, run_id: str) -> bool:
        """Stop a job that waits. Others end by themselves before anybody could: False, where nothing executes it any more."""
        with self._lock:
            stop = self._waiting.get(run_id)
        if stop is not None:
            stop.set()
        return stop is not None

    def adopt(self, specs: Iterable[RunSpec]) -> None:
        """Run what an earlier process had begun from its beginning."""
        for spec in specs:
            self.submit(spec)

    def active(self) -> tuple[str, ...]:
        """Return the ids of runs that have not ended."""
        with self._lock:
            return tuple(self._active)

    def fail(self, run_id: str, error: RunError) -> bool:
        return False

    def preempt(self, run_id: str) -> bool:
        return False

    def forget_images(self) -> None:
        """There are none."""

    def wake(self) -> None:
        """Nothing waits for a node."""

    def engine_ready(self) -> bool:
        """No engine is needed."""
        return True

    def close(self) -> None:
        """End with what has begun; who waits is stopped."""
        # Also who begins to wait from now on: a stopped one makes room for the next.
        self._closing.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _work(self, spec: RunSpec) -> None:
        sink = self._sink_for(spec.run_id)
        try:
            status, error = self._run(spec, sink)
        except Exception as fault:
            LOGGER.exception("run %s", spec.run_id)
            status, error = "Failed", RunError(code="SystemError", message=f"The instant executor failed: {fault!r}")
        with self._lock:
            self._active.discard(spec.run_id)
        sink.finished(status, error)

    def _run(self, spec: RunSpec, sink: RunSink) -> tuple[Ending, RunError | None]:
        services, place = self._services, spec.artifacts
        sink.status("Preparing")
        services.blobs.append(place.container, place.name_of(LOG_PATH), b"")
        sink.log(LOG_PATH)
        sink.status("Running")
        for line in spec.command.splitlines():
            word, _, rest = line.strip().partition(" ")
            match word:
                case "":
                    continue
                case "say":
                    services.blobs.append(place.container, place.name_of(LOG_PATH), f"{rest}\n".encode())
                case "metric":
                    name, step, value = rest.split(" ")
                    at = int(services.clock() * 1000)
                    services.store.metrics.log(
                        spec.run_id, [Metric(key=name, value=float(value), timestamp=at, step=int(step))]
                    )
                case "param":
                    name, value = rest.split(" ")
                    services.store.metrics.set_params(spec.run_id, [(name, value)])
                case "row":
                    name, _, columns = rest.partition(" ")
                    services.store.v1.add_rows(spec.run_id, [_table_row(name, json.loads(columns))])
                case "write":
                    path, _, text = rest.partition(" ")
                    data = text.encode()
                    services.blobs.write(place.container, place.name_of(path), io.BytesIO(data), len(data))
                    sink.artifact(path, len(data))
                case "output":
                    name, path, text = rest.split(" ", 2)
                    where = next(output.location for output in spec.outputs if output.name == name)
                    data = text.encode()
                    services.blobs.write(where.container, where.name_of(path), io.BytesIO(data), len(data))
                    sink.output(name)
                case "wait":
                    if not self._wait(spec.run_id, rest):
                        return "Canceled", None
                case "cancelled":
                    sink.status("CancelRequested")
                    return "Canceled", None
                case "preempted":
                    if spec.run_id.endswith("-1"):
                        message = "AzureMLCompute job failed.\nPreemptionError: Nodes of this job got pre-empted."
                        return "Failed", RunError(code="UserError", message=message)
                case "exit":
                    message = f"Execution failed. The job's command exited with status code {rest}."
                    return "Failed", RunError(code="UserError", message=message, exit_code=int(rest))
                case _:
                    raise ValueError(f"'{word}' is no word of a script")
        sink.status("Finalizing")
        return "Completed", None

    def _wait(self, run_id: str, tag: str) -> bool:
        """Return True once the run carries the tag, False once it is cancelled."""
        stop = threading.Event()
        with self._lock:
            self._waiting[run_id] = stop
        try:
            while not stop.wait(0.05):
                run = self._services.store.runs.require(run_id)
                if tag in run.tags:
                    return True
                # It may have been cancelled before it waited.
                if run.terminal or run.status == "CancelRequested" or self._closing.is_set():
                    break
            return False
        finally:
            with self._lock:
                del self._waiting[run_id]


def _table_row(name: str, columns: dict[str, Any]) -> MetricRow:
    return MetricRow(
        metric_id=uuid.uuid4().hex,
        name=name,
        kind="azureml.v1.table",
        columns={key: "string" if isinstance(value, str) else "double" for key, value in columns.items()},
        created=datetime.datetime.now(datetime.UTC).isoformat(),
        step=None,
        data=columns,
    )


def serve_with(make_runner: MakeRunner) -> None:
    """Serve until the process is told to end; *make_runner* makes what executes jobs."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    for noisy in ("azure", "urllib3", "docker", "asyncio", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    record_as_told()
    run(settings_module.parse(sys.argv[1:], os.environ), make_runner=make_runner)


def run_at_once(services: Context, _settings: ExecutorSettings, sink_for: SinkFor) -> InstantRunner:
    """Return what executes jobs: see `aml_emulator.workspaces.MakeRunner`."""
    return InstantRunner(services, sink_for)


def main() -> None:
    """Serve, as ``aml-emulator`` does."""
    serve_with(run_at_once)


if __name__ == "__main__":
    main()
