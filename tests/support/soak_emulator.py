"""The emulator with an executor for load: jobs queue for places, write logs and metrics as their commands say, and use no containers.

``work SECONDS BYTES METRICS``: within that time, writes so many bytes of lines into the log and so many values of the metric
``loss``, and completes. Jobs of the experiment ``now`` have separate places, because a queue of thousands would delay them.

Variables of the environment: ``SOAK_PLACES`` and ``SOAK_PLACES_NOW``, and ``SOAK_DRAIN``, a path: once that file exists, each
job completes with its first lines. ``SOAK_WRITTEN``, a path: a file that gets the size of each stored block, as a line.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from aml_emulator.context import Context
from aml_emulator.executor.spec import LOG_PATH, Ending, ExecutorSettings, RunError, RunSink, RunSpec, SinkFor
from aml_emulator.store.metrics import Metric
from tests.support.instant_emulator import InstantRunner, serve_with

METRIC = "loss"
NOW = "now"
STEP_SECONDS = 1.0
LINE_BYTES = 100


class _StoppedError(BaseException):
    """The service ends while the job runs: the job does not."""


class SoakRunner(InstantRunner):
    """Executes the jobs of a soak."""

    def __init__(self, services: Context, sink_for: SinkFor) -> None:
        super().__init__(services, sink_for)
        self._pool.shutdown(wait=False)
        places = int(os.environ.get("SOAK_PLACES", "40"))
        self._pool = ThreadPoolExecutor(places, thread_name_prefix="soak")
        places_now = int(os.environ.get("SOAK_PLACES_NOW", "20"))
        self._pool_now = ThreadPoolExecutor(places_now, thread_name_prefix="soak-now")
        written = os.environ.get("SOAK_WRITTEN")
        self._written = None if written is None else os.open(written, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._drain = Path(os.environ["SOAK_DRAIN"]) if "SOAK_DRAIN" in os.environ else None

    def submit(self, spec: RunSpec) -> None:
        """Queue the job for a place."""
        with self._lock:
            if spec.run_id in self._active:
                raise ValueError(f"The run {spec.run_id} is queued or running already")
            self._active.add(spec.run_id)
        self._sink_for(spec.run_id).status("Queued")
        pool = self._pool_now if spec.experiment == NOW else self._pool
        pool.submit(self._work, spec)

    def cancel(self, run_id: str) -> bool:
        """Return False: jobs cannot be interrupted, and end soon."""
        return False

    def close(self) -> None:
        """End with the steps that have begun; the jobs begin again in the next process."""
        self._closing.set()
        self._pool_now.shutdown(wait=True, cancel_futures=True)
        super().close()

    def _work(self, spec: RunSpec) -> None:
        if self._closing.is_set():
            return
        try:
            super()._work(spec)
        except _StoppedError:
            # The next process begins it again, as it does after a kill.
            return

    def _account(self, size: int) -> None:
        if self._written is not None:
            os.write(self._written, f"{size}\n".encode("ascii"))

    def _run(self, spec: RunSpec, sink: RunSink) -> tuple[Ending, RunError | None]:
        services, place = self._services, spec.artifacts
        word, seconds, size, count = spec.command.split()
        if word != "work":
            raise ValueError(f"'{word}' is no word of a script")
        sink.status("Preparing")
        services.blobs.append(place.container, place.name_of(LOG_PATH), b"")
        sink.log(LOG_PATH)
        sink.status("Running")
        pause = STEP_SECONDS * pace_of(spec.run_id)
        steps = max(1, round(float(seconds) / STEP_SECONDS))
        logged = 0
        for step, lines in enumerate(blocks(spec.run_id, int(size), steps)):
            services.blobs.append(place.container, place.name_of(LOG_PATH), lines)
            self._account(len(lines))
            due = int(count) * (step + 1) // steps
            if due > logged:
                at = int(services.clock() * 1000)
                values = [Metric(key=METRIC, value=1 / (1 + n), timestamp=at, step=n) for n in range(logged, due)]
                services.store.metrics.log(spec.run_id, values)
                logged = due
            if self._drain is not None and self._drain.exists():
                break
            if self._closing.wait(pause):
                raise _StoppedError
        sink.status("Finalizing")
        return "Completed", None


def pace_of(name: str) -> float:
    """Return how slow a job is, by its name: 0.75 to 1.25.

    Jobs of one length that begin together would write, end and be followed by others in the same moments.
    """
    return 0.75 + zlib.crc32(name.encode()) % 1000 / 2000


def blocks(name: str, size: int, count: int) -> Iterator[bytes]:
    """Yield *size* bytes of numbered lines in *count* blocks, none of them empty."""
    line, done = 0, 0
    for number in range(count):
        block = bytearray()
        while done + len(block) < size * (number + 1) / count or not block:
            block += f"{line:09} {name} ".encode().ljust(LINE_BYTES - 1, b".") + b"\n"
            line += 1
        done += len(block)
        yield bytes(block)


def queue_for_places(services: Context, _settings: ExecutorSettings, sink_for: SinkFor) -> SoakRunner:
    """Return what executes jobs: see `aml_emulator.workspaces.MakeRunner`."""
    return SoakRunner(services, sink_for)


def main() -> None:
    """Serve, as ``aml-emulator`` does."""
    serve_with(queue_for_places)


if __name__ == "__main__":
    main()
