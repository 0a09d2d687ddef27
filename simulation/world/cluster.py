"""The compute: executes scripts as time passes, without threads.

A job's command is a script, one word with its arguments a line. The cluster belongs to the world and not to the service: it
continues while the service is down, and reports what has happened when the service asks again, with the times at which it
happened. Nothing waits for anything: each request first lets the cluster advance to the present.

==================  =====================================================
``say TEXT``        writes a line to the log
``secret NAME``     writes a planted secret to the log, as careless code does
``metric N S V``    logs the value V of the metric N at step S
``row N JSON``      logs a row of the table N, as azureml-core does
``write P TEXT``    leaves a file at P, a path among the artefacts
``output N P TEXT`` leaves a file at P in the named output N
``wait SECONDS``    continues after so many seconds; it can be cancelled meanwhile
``cancelled``       another client cancels the job now
``preempt COUNT``   the nodes are taken away, in each of the first COUNT executions of this script
``exit CODE``       ends the job; without it, it completes
==================  =====================================================
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.context import Context
from aml_emulator.executor.spec import LOG_PATH, Ending, RunError, RunSink, RunSpec, SinkFor
from aml_emulator.store.metrics import Metric
from aml_emulator.store.v1 import MetricRow
from simulation.world.storage import BlobStorage

#: As AzureML says it: Azure/MachineLearningNotebooks#1242.
PREEMPTED: Final = "AzureMLCompute job failed.\nPreemptionError: Nodes of this job got pre-empted."
_ATTEMPT: Final = re.compile(r"-\d+$")
_STOP_SECONDS: Final = 1.0


@dataclass
class Execution:
    """One execution of a job on the compute: what is paid for.

    Attributes:
        submitted: when the cluster got it, in seconds since the epoch.
        due: when its next step happens.
        at: its next step.
        began, ended: when its nodes were in use; None before.
        ending: the word it ended with; empty before.
    """

    spec: RunSpec
    submitted: float
    due: float
    steps: tuple[str, ...]
    at: int = 0
    began: float | None = None
    ended: float | None = None
    ending: str = ""
    stopping: bool = False

    @property
    def run_id(self) -> str:
        """The run's id, which is the job's name."""
        return self.spec.run_id


def work_of(name: str) -> str:
    """Return a job's name without the number of its attempt."""
    return _ATTEMPT.sub("", name)


class Cluster:
    """All executions, and the time at which the present step happens.

    Args:
        storage: where the computes write logs and files.
        secrets: planted secrets by their names.
        start_seconds: from the submission to the start of the command.
    """

    def __init__(self, storage: BlobStorage, secrets: Mapping[str, str], *, start_seconds: float = 4.0) -> None:
        self.executions: list[Execution] = []
        self._storage, self._secrets, self._start = storage, secrets, start_seconds
        self._preempted: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._moments: dict[int, float] = {}
        self._executor: ScriptExecutor | None = None

    def now(self) -> float:
        """Return seconds since the epoch; during a step, those at which it happens."""
        moment = self._moments.get(threading.get_ident())
        return time.time() if moment is None else moment

    def attach(self, executor: ScriptExecutor | None) -> None:
        """Report to *executor* from now on; to no one if None, while the service is down."""
        with self._lock:
            self._executor = executor

    def begin(self, spec: RunSpec) -> None:
        """Execute this; what runs already is left alone."""
        with self._lock:
            if self.find(spec.run_id) is not None:
                return
            now = self.now()
            lines = tuple(line.strip() for line in spec.command.splitlines() if line.strip())
            steps = ("_prepare", "_run", *lines, "_complete")
            self.executions.append(Execution(spec=spec, submitted=now, due=now + self._start / 2, steps=steps))

    def find(self, run_id: str) -> Execution | None:
        """Return a run's execution, ended or not; None if the cluster never got it."""
        return next((one for one in self.executions if one.run_id == run_id), None)

    def stop(self, run_id: str) -> bool:
        """Stop a run a moment later; False if nothing executes it."""
        with self._lock:
            found = self.find(run_id)
            if found is None or found.ending:
                return False
            if not found.stopping:
                found.stopping, found.due = True, self.now() + _STOP_SECONDS
            return True

    def advance(self) -> None:
        """Do every step that is due, in the order of their times."""
        with self._lock:
            executor = self._executor
            if executor is None or self._moments:
                return
            present = time.time()
            while True:
                waiting = [one for one in self.executions if not one.ending and one.due <= present]
                if not waiting:
                    return
                one = min(waiting, key=lambda execution: (execution.due, execution.run_id))
                with self._at(one.due):
                    self._step(one, executor.sink(one.run_id), executor.services)

    @contextlib.contextmanager
    def _at(self, moment: float) -> Iterator[None]:
        me = threading.get_ident()
        self._moments[me] = moment
        try:
            yield
        finally:
            del self._moments[me]

    def _step(self, one: Execution, sink: RunSink, services: Context) -> None:
        if one.stopping:
            self._end(one, sink, "Canceled", None)
            return
        word, _, rest = one.steps[one.at].partition(" ")
        one.at += 1
        ended = self._done(one, sink, services, word, rest)
        if ended is not None:
            self._end(one, sink, *ended)

    def _done(
        self, one: Execution, sink: RunSink, services: Context, word: str, rest: str
    ) -> tuple[Ending, RunError | None] | None:
        """Do one step; return the ending if it is the last one."""
        spec, place = one.spec, one.spec.artifacts
        match word:
            case "_prepare":
                sink.status("Preparing")
                one.due += self._start / 2
            case "_run":
                one.began = one.due
                self._storage.append(place.container, place.name_of(LOG_PATH), b"")
                sink.log(LOG_PATH)
                sink.status("Running")
            case "_complete":
                sink.status("Finalizing")
                return "Completed", None
            case "say":
                self._storage.append(place.container, place.name_of(LOG_PATH), f"{rest}\n".encode())
            case "secret":
                text = f"connecting with {self._secrets[rest]}\n"
                self._storage.append(place.container, place.name_of(LOG_PATH), text.encode())
            case "metric":
                name, step, value = rest.split(" ")
                at = int(self.now() * 1000)
                services.store.metrics.log(
                    spec.run_id, [Metric(key=name, value=float(value), timestamp=at, step=int(step))]
                )
            case "row":
                name, _, columns = rest.partition(" ")
                services.store.v1.add_rows(spec.run_id, [_row(name, json.loads(columns), self.now())])
            case "write":
                path, _, text = rest.partition(" ")
                self._storage.write(place.container, place.name_of(path), text.encode())
                sink.artifact(path, len(text.encode()))
            case "output":
                name, path, text = rest.split(" ", 2)
                where = next(output.location for output in spec.outputs if output.name == name)
                self._storage.write(where.container, where.name_of(path), text.encode())
                sink.output(name)
            case "wait":
                one.due += float(rest)
            case "cancelled":
                sink.status("CancelRequested")
                return "Canceled", None
            case "preempt":
                work = work_of(spec.run_id)
                if self._preempted[work] < int(rest):
                    self._preempted[work] += 1
                    return "Failed", RunError(code="UserError", message=PREEMPTED)
            case "exit":
                message = f"Execution failed. The job's command exited with status code {rest}."
                return "Failed", RunError(code="UserError", message=message, exit_code=int(rest))
            case _:
                message = f"'{word}' is no word of a script."
                return "Failed", RunError(code="UserError", message=message, exit_code=127)
        return None

    def _end(self, one: Execution, sink: RunSink, ending: Ending, error: RunError | None) -> None:
        # Reported first: a service that stops in between hears of it again.
        sink.finished(ending, error)
        one.ended, one.ending = self.now(), ending


class ScriptExecutor:
    """Hands runs of one service process to the cluster; a ``JobExecutor``.

    Args:
        cluster: executes them.
        services: of the process.
        sink_for: gives what the progress of a run is reported to.
    """

    def __init__(self, cluster: Cluster, services: Context, sink_for: SinkFor) -> None:
        self._cluster, self.services, self._sink_for = cluster, services, sink_for

    def sink(self, run_id: str) -> RunSink:
        """Return what a run's progress is reported to."""
        return self._sink_for(run_id)

    def start(self) -> None:
        """Receive reports of the cluster from now on."""
        self._cluster.attach(self)

    def submit(self, spec: RunSpec) -> None:
        """Run this."""
        self._cluster.begin(spec)

    def cancel(self, run_id: str) -> bool:
        """Stop a run; False if nothing executes it."""
        return self._cluster.stop(run_id)

    def adopt(self, specs: Iterable[RunSpec]) -> None:
        """Continue with runs of an earlier process; the cluster has them."""
        for spec in specs:
            self._cluster.begin(spec)

    def active(self) -> tuple[str, ...]:
        """Return the ids of runs that have not ended."""
        return tuple(one.run_id for one in self._cluster.executions if not one.ending)

    def fail(self, run_id: str, error: RunError) -> bool:
        """Clusters of this world are not deleted."""
        del run_id, error
        return False

    def preempt(self, run_id: str) -> bool:
        """Scripts say themselves when their nodes are taken away."""
        del run_id
        return False

    def forget_images(self) -> None:
        """There are none."""

    def wake(self) -> None:
        """Nothing waits for a node."""

    def engine_ready(self) -> bool:
        """No engine is needed."""
        return True

    def is_job(self, address: str) -> bool:
        """No run has a network."""
        del address
        return False

    def close(self) -> None:
        """Nothing of the process is left: the cluster continues."""
        self._cluster.attach(None)


def _row(name: str, columns: dict[str, Any], now: float) -> MetricRow:
    return MetricRow(
        metric_id=uuid.uuid4().hex,
        name=name,
        kind="azureml.v1.table",
        columns={key: "string" if isinstance(value, str) else "double" for key, value in columns.items()},
        created=datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat(),
        step=None,
        data=columns,
    )
